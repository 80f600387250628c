"""Task types: what labels are (classes, numbers, counts, quantiles, survival, forecasts)."""
