"""Certificates of the members of a federation, and signatures of their messages."""
