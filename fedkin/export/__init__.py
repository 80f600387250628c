"""Models out: predictors, and files of trained models that work without fedkin."""
