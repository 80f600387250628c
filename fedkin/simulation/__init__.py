"""Simulated clients on one machine: local training, scoring and gradients, compiled by JAX or run
by PyTorch."""
