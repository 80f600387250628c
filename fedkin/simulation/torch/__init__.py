"""PyTorch modules as models: trained, scored and averaged as they are. PyTorch is imported when the first is made."""

from __future__ import annotations

from fedkin.simulation.torch.source import adopted as adopted
from fedkin.simulation.torch.source import configured as configured
from fedkin.simulation.torch.source import torch_model as torch_model
