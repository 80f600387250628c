"""Hierarchical clustering and ATHENA-FL (SBRC 2022, CoUrb 2023)."""
