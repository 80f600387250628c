"""``fedkin report``: an HTML page about runs, and its charts as figures for a paper."""
