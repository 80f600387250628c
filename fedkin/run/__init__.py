"""Execution of a run, simulated or deployed: rounds, metrics, checkpoints and the run folder."""
