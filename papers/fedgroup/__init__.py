"""FedGroup (arXiv 2010.06870)."""
