"""Secret sums in a run: settings, the four exchanges, and what came of them."""
