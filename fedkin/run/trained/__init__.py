"""The models of a finished run: predicting, placing newcomers, evaluating, exporting."""
