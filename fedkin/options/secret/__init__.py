"""Secret sums in a run: settings, the four exchanges, and their results."""
