"""``fedkin report``: runs as one HTML page, and its charts as figures for a paper."""
