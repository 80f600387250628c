"""Figures, tables and progress, for whoever asks for them; no run or analysis imports this room."""
