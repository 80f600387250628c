"""Configuration files of runs, comparisons, servers and peers: reading, validation, defaults."""
