"""Replies that arrive after their round and are used in later ones."""
