"""Which model serves each client: its own, its cluster's or the global one."""
