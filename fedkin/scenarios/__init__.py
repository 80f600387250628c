"""What happens to a federation: who takes part, whose data move, and which clients are kin."""
