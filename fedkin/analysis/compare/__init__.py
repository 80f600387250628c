"""Comparisons: a grid of methods x data x scenarios x seeds, with its results and tests."""
