"""Differential privacy of clients: a trusted server releases models whose sums over clients are
clipped and noised."""
