"""The folder that keeps a run: its files, checkpoints and integrity."""
