"""Rounds that do not wait for all clients: the first k replies, and buffers of clusters."""
