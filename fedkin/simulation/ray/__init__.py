"""A simulated world's work on Ray actors (extra ``ray``). Ray is imported with the first of its
modules."""
