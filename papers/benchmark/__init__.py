"""Which method for which kind of heterogeneity: a benchmark of the field, on small federations."""
