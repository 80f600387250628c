"""Robust aggregation: averages that a minority of Byzantine clients cannot corrupt."""
