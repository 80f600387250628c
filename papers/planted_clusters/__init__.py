"""Planted clusters: which method finds the true clusters, and where each fails."""
