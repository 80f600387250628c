"""Export of trained models: predictors, and files that work without fedkin.

``Run.export`` and ``fedkin export`` write the models of a run, ``write_model`` writes a single
model, and ``load`` reads an export.
"""

from fedkin.export.folder import write_model as write_model
from fedkin.export.reader import Export as Export
from fedkin.export.reader import load as load
