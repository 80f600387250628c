"""The work of a simulated world on the actors of Ray (extra ``ray``), which is imported with the
first of them."""
