"""Removal of a site from a finished run: affected models are trained again without it."""
