"""The costs and the gains of privacy and robustness."""
