"""Speed, compared side by side: ``python -m benchmarks`` (or ``make bench``) writes
docs/benchmarks.md.

Never part of the tests: what is slow on one machine is quick on another, so only ratios within one
run mean anything.
"""
