"""Scenarios of a simulated federation: participation and failures, data shifts, and planted (known)
clusters."""
