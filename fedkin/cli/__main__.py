"""Entry point of ``python -m fedkin.cli``."""

from fedkin.cli import main

main()
