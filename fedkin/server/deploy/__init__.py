"""A real federation on Flower: its configuration, its programs, and a folder to begin with."""
