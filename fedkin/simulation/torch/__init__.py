"""PyTorch modules as models: trained, scored and averaged without conversion.

PyTorch is imported only when a model is made from a module.
"""

from __future__ import annotations

from fedkin.simulation.torch.source import model_from_config as model_from_config
from fedkin.simulation.torch.source import torch_model as torch_model
from fedkin.simulation.torch.source import wrap_module as wrap_module
