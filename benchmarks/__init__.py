"""Speed, compared side by side: ``python -m benchmarks`` (or ``make bench``) writes
docs/benchmarks.md.

Benchmarks are not part of the tests. Times differ between machines, so only ratios within one run
can be compared.
"""
