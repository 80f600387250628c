"""What is measured in a run: in each round, over its rounds, and once after the last."""
