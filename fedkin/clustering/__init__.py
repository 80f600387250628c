"""Clustering algorithms, and the choice of their parameters."""
