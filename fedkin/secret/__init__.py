"""The protocol of secret sums, with which a server learns sums over clients, but no client's
numbers. The code here computes the messages; tasks and options send them."""
