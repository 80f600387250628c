"""Clients that attack, in a simulation: models, clusters, and what they say."""
