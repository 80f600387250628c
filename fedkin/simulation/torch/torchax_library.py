"""torchax, which computes PyTorch's operators with JAX. Operators that are slow in torchax, or lose
information, are replaced by fedkin's own implementations.

torchax 0.0.13 names operators that PyTorch has removed since: operators on named tensors in 2.13,
cholesky and qr in 2.15. torchax cannot be imported without them, so they get an empty definition
here, which is never called. The way operators are replaced is not a public interface, so the
version of torchax is pinned.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
from torch.nn import functional

from fedkin.core.errors import MissingExtra
from fedkin.simulation.torch import lowerings

_DROPPED = """
    cholesky qr all.dimname all.dimname_out index_add.dimname index_copy.dimname index_copy_.dimname
    index_fill.Dimname_Scalar index_fill.Dimname_Tensor index_fill_.Dimname_Scalar
    index_fill_.Dimname_Tensor norm.names_ScalarOpt_dim norm.names_ScalarOpt_dim_dtype
    norm.names_dtype_out norm.names_out prod.dim_Dimname std.correction_names
    std.correction_names_out std.names_dim std.names_out std_mean.correction_names
    std_mean.names_dim unbind.Dimname
"""


@cache
def environment() -> Any:
    """torchax's operators as this process computes them, with fedkin's replacements.

    Raises MissingExtra if torchax is not installed.
    """
    _define_dropped_operators()
    try:
        import torchax
        from torchax.ops.ops_registry import Operator
    except ImportError as error:
        raise MissingExtra(
            f"engine='jax' needs torchax ({error}): pip install 'fedkin[torchax]', or set "
            "engine='torch'"
        ) from error
    env = torchax.tensor.Environment()

    def replace(operators: tuple[Any, ...], function: Any, on_arrays: bool = True) -> None:
        """Use a function for these operators, on JAX arrays or on torchax's tensors."""
        for operator in operators:
            env._ops[operator] = Operator(operator, function, on_arrays, True, False, False)

    convolution = torch.ops.aten.convolution
    theirs = env._ops[convolution].func
    replace((convolution, convolution.default), lowerings.convolution(theirs))
    pool = functional.max_pool2d
    replace((pool,), lowerings.max_pool(env._ops[pool].func))
    replace((functional.linear,), lowerings.linear)
    replace((functional.batch_norm,), lowerings.batch_norm, on_arrays=False)
    replace((torch.lstm,), lowerings.lstm(torch.lstm), on_arrays=False)
    return env


@cache
def _define_dropped_operators() -> Any:
    """Define the operators that PyTorch has removed, so that torchax can be imported.

    The definitions last as long as the returned library.
    """
    library = torch.library.Library("aten", "FRAGMENT")
    for name in _DROPPED.split():
        if not _exists(name):
            library.define(f"{name}(Tensor self) -> Tensor")
    return library


def _exists(name: str) -> bool:
    """Whether PyTorch has an operator; a name without an overload means the default overload."""
    packet, _, overload = name.partition(".")
    operator = getattr(torch.ops.aten, packet, None)
    return operator is not None and (overload or "default") in operator.overloads()
