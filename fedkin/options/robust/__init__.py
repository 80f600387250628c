"""Averages that some clients cannot spoil, and what such clients do."""
