"""Figures, tables and progress display. Runs and analyses do not import this package."""
