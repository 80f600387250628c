"""Trackers: TensorBoard, MLflow, Weights & Biases or a user's own hear of every round of a run."""
