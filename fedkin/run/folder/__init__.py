"""The run folder: its files, checkpoints and integrity."""
