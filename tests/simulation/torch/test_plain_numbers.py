"""PyTorch's numbers as options."""

from __future__ import annotations

import torch

from fedkin.core.plain import plain


def test_numbers_of_pytorch_become_pythons() -> None:
    assert type(plain(torch.tensor(3))) is int
    assert plain(torch.tensor(0.5)) == 0.5
