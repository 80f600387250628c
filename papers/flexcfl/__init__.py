"""FlexCFL (arXiv 2108.09749)."""
