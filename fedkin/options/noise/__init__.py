"""Noise in the labels and features of simulated clients."""
