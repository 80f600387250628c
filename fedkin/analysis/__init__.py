"""Analyses of runs and data: repeated seeds, comparisons, statistics, advice, studies of DBSCAN's
eps, non-IID index."""
