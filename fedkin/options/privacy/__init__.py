"""Client-level differential privacy: a trusted server clips and noises sums over clients, and
releases models computed from them."""
