"""Deployment of a federation with a server: files and keys, checks, and the programs that Flower
starts."""
