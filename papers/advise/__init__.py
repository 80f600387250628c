"""Tests of `fedkin advise` on cases with known numbers of clusters, and their part of the page."""
