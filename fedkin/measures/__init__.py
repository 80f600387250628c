"""Similarities, distances and indices of updates, labels and scores, as pure functions."""
