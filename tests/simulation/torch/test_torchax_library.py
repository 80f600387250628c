"""Operators that PyTorch has dropped and torchax names."""

from __future__ import annotations

import pytest

from fedkin.simulation.torch.torchax_library import _DROPPED, _define_dropped_operators, _exists


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("relu", True),
        ("add.Tensor", True),
        ("add.no_such_overload", False),
        ("no_such_operator", False),  # cholesky and qr since PyTorch 2.15
        ("no_such_operator.out", False),
    ],
)
def test_whether_pytorch_has_an_operator(name: str, expected: bool) -> None:
    assert _exists(name) == expected


def test_dropped_operators_are_there_once_they_are_defined() -> None:
    _define_dropped_operators()
    assert "qr" in _DROPPED.split()
    assert all(_exists(name) for name in _DROPPED.split())
