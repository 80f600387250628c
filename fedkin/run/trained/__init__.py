"""Use of a finished run's models: prediction, placement of newcomers, evaluation, export."""
