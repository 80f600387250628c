"""Trackers that log every round of a run: TensorBoard, MLflow, Weights & Biases, or a user's."""
