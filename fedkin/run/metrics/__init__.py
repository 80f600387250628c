"""Metrics of a run: in each round, over all rounds, and once after the last round."""
