"""Secret sums in a run (the server learns sums of updates, but no single update): settings, the
four exchanges with the clients, and their results."""
