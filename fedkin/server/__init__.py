"""A federation with a server, on Flower: transport, messages, membership, the remote world and the
nodes."""
