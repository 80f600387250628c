"""PANM and other methods without a server, on planted clusters of peers."""
