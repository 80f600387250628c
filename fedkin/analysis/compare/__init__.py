"""Comparisons: every method is run in every setting (data set and configuration) with every seed,
and the results are tested."""
