"""Replies that come after their round: what they count for in later ones."""
