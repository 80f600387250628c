"""Predictions over HTTP from the folder of an export (``fedkin serve``).

This is another thing than ``run.serve`` and ``fedkin serve-choice``, which choose the model that
serves a client.
"""
