"""The papers' tables as recipes that anybody can run again: ``python -m papers``."""
