"""The monitor of clusters: sequential tests of whether clients still fit their clusters."""
