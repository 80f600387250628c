"""One life of a run, simulated or deployed: rounds, what is measured in them, checkpoints and the
run folder."""
