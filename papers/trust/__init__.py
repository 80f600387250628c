"""Clustered methods under clients that attack: rule x attack x method, measured."""
