"""What everything else builds on: the world of clients, methods, randomness, errors and storage."""
