"""Clustering algorithms, and functions that choose their parameters."""
