"""Secret sums: a server learns sums over clients, but no client's numbers. The protocol, without
messages."""
