"""Scenarios of a simulated federation: which clients take part or fail, how their data shift during
a run, attacks on their data, and federations with known (planted) clusters."""
