"""Simulated attacks by clients: on models, on clusters, and by false reports."""
