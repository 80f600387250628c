"""The protocol of secret sums, without messages: a server learns sums over clients, but no client's
numbers."""
