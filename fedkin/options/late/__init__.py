"""Replies that come after their round, and count in later ones."""
