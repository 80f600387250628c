"""A federation with a server, on Flower: transport, messages, membership (which sites take part),
the remote world (sends tasks to the sites) and the nodes (the sites' programs that answer)."""
