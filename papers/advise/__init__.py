"""What `fedkin advise` promises: cases with known numbers of clusters, and their part of the page."""
