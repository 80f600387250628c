"""Secret sums: a server learns sums over clients, and no client's own numbers. The protocol,
without messages."""
