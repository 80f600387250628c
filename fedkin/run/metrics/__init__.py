"""Metrics of a run: in each round, over its rounds, and once after the last."""
