"""Acceptance runs of the field's newer methods: each prints its figures beside the bar that it is
to reach."""
