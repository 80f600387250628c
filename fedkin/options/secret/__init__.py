"""Secret sums in a run: settings, the four exchanges with the clients, and their results."""
