"""Foundations of the library: worlds of clients, tasks, methods, randomness, errors and storage."""
