"""Measures as pure functions: similarities and distances of client updates, indices of label
distributions, and quality of scores."""
