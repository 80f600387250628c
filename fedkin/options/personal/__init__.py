"""A part of the model that stays with each client, for any method that averages."""
