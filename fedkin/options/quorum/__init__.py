"""A smallest number of replies for each cluster."""
