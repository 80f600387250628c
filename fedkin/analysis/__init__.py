"""Analyses of several runs: repeated seeds, comparisons, statistics, advice, eps studies, non-IID
index."""
