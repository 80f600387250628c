"""Trackers: TensorBoard, MLflow, Weights & Biases or a user's own log every round of a run."""
