"""Acceptance runs of the field's newer methods: each prints its figures and the bar to reach."""
