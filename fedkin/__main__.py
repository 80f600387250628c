"""``python -m fedkin`` runs the command ``fedkin``, for systems that do not find its script."""

from fedkin.cli import main

if __name__ == "__main__":
    main()
