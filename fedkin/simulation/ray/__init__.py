"""A simulated world's work on Ray actors (extra ``ray``). Ray is imported only when a world first
uses its actors."""
