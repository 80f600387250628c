"""Models out: predictors, and files of trained models that work without fedkin.

``load`` reads an export again; ``Run.export`` and ``fedkin export`` write one, ``write_model`` a
single model.
"""

from fedkin.export.folder import write_model as write_model
from fedkin.export.reader import Export as Export
from fedkin.export.reader import load as load
