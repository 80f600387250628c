"""Analyses of runs and data: repeated seeds, comparisons, statistics, advice, eps studies, non-IID
index."""
