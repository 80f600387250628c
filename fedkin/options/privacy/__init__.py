"""Client-level differential privacy: a trusted server clips clients' updates, adds noise to their
sums, and releases only models computed from these noisy sums."""
