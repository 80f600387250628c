"""PyTorch modules as models: trained, scored and averaged as they are. PyTorch is imported when the first is made."""

from __future__ import annotations

from fedkin.pytorch.source import adopted as adopted
from fedkin.pytorch.source import configured as configured
from fedkin.pytorch.source import torch_model as torch_model
