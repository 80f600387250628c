"""What privacy and robustness cost, and what they give."""
