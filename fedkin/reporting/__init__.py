"""Figures, tables and progress, on request; no run or analysis imports this package."""
