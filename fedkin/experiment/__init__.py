"""An experiment: its configuration, the rounds, what is measured, and the folder that keeps it."""
