"""A personal part of the model, which stays on each client, for any method that averages."""
