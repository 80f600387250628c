"""Client-level differential privacy: a trusted server clips clients' updates, adds noise to their
sums, and releases models computed from these sums."""
