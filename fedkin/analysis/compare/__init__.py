"""Methods x data x scenarios x seeds: a grid of runs in one process, its results and tests."""
