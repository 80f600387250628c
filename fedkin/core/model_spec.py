"""Where each layer of a model lies in its flat parameter vector, for models of any library."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import prod
from typing import Protocol, runtime_checkable

import numpy as np

from fedkin.core.errors import ModelError
from fedkin.core.object_repr import count, listed

BYTES_PER_NUMBER = 4  # models and updates travel as float32


@dataclass(frozen=True)
class Factor:
    """The low-rank factors of one layer of an adapter, in the flat vector.

    The layer's weight is the frozen network's weight plus ``scale`` B A.

    Attributes:
        layer: name of the layer.
        a: slice of A [rank, in], row by row; None if A is frozen.
        b: slice of B [out, rank], row by row.
        rank: rank of the product.
        scale: factor of the product.
    """

    layer: str
    a: slice | None
    b: slice
    rank: int
    scale: float


@dataclass(frozen=True)
class ModelSpec:
    """The size of a model and the slice of each layer in its flat parameter vector, without the
    model's code.

    Examples:
        >>> import fedkin as fk
        >>> data = fk.data.digits(clients=6)
        >>> spec = fk.models.mclr(data).spec
        >>> spec.parameters, spec.head_bias
        (650, slice(640, 650, None))
    """

    parameters: int
    # "layer.weight" -> slice, in the order of the vector.
    slices: Mapping[str, slice] = field(default_factory=dict)
    head: slice | None = None  # last layer, weight and bias; None if unknown
    head_bias: slice | None = None  # bias of the last layer, one number per output
    detects: bool = False  # one score per sample: whether it belongs to one class
    # Parameters that gradients do not change: running statistics and frozen parameters.
    untrained: tuple[slice, ...] = ()
    # Batch normalisation: scales, biases and running statistics of all layers.
    batch_norm: tuple[slice, ...] = ()
    factors: tuple[Factor, ...] = ()  # low-rank factors of an adapter, by layer
    frozen: str = ""  # digest of arrays that are not trained and not in the vector
    embedding: int = 0  # length of a sample's embedding by the frozen network; 0 without one

    def facts(self) -> dict[str, str]:
        """Texts that describe the model's size, its arrays and its last layer, by name."""
        shown = [f"{name} ({part.stop - part.start:,})" for name, part in self.slices.items()]
        head = "not known"
        if self.head is not None:
            head = count(self.head.stop - self.head.start, "parameter")
        return {
            "parameters": count(self.parameters, "parameter"),
            "arrays": f"{count(len(shown), 'array')}: {listed(shown)}",
            "last layer": f"{head}; a detector of one class" if self.detects else head,
        }


@dataclass(frozen=True)
class BackboneFeatures:
    """From which frozen network features were computed.

    Attributes:
        backbone: name of the network.
        digest: digest of its weights.
        layer: number of the layer whose inputs the features are.
    """

    backbone: str
    digest: str
    layer: int


@runtime_checkable
class Samples(Protocol):
    """The properties of a data set that a model depends on. An object with these properties may
    describe samples that are on other machines."""

    @property
    def name(self) -> str:
        """The data set's name, for messages."""
        ...

    @property
    def x(self) -> np.ndarray:
        """Features [M ...] of M samples. If the samples are on other machines, one sample of zeros
        stands for them."""
        ...

    @property
    def classes(self) -> int:
        """Number of classes."""
        ...


def spec_from_shapes(shapes: Mapping[str, tuple[int, ...]], detects: bool) -> ModelSpec:
    """The spec of a model from the shapes of its arrays, concatenated in this order, each in
    row-major order.

    The last two arrays are the head if their shapes look like a kernel [out, in] (or [in, out]) and
    its bias [out].
    """
    slices: dict[str, slice] = {}
    start = 0
    for name, shape in shapes.items():
        slices[name] = slice(start, start + prod(shape))
        start += prod(shape)
    spec = ModelSpec(parameters=start, slices=slices, detects=detects)
    if len(shapes) < 2 or not _is_last_layer(*list(shapes.values())[-2:]):
        return spec
    kernel, bias = list(slices.values())[-2:]
    return replace(spec, head=slice(kernel.start, bias.stop), head_bias=bias)


def _is_last_layer(kernel: tuple[int, ...], bias: tuple[int, ...]) -> bool:
    """Whether two shapes look like a kernel [out, in] (or [in, out]) and its bias [out]."""
    return len(kernel) == 2 and len(bias) == 1 and bias[0] in kernel


def spec_for_data(
    spec: ModelSpec, name: str, data: str, classes: int, scores: tuple[int, ...]
) -> ModelSpec:
    """Check that a model's scores fit the data, and return the model's spec for these data.

    If the last bias in ``spec`` does not have one entry for each score, the last declared arrays
    are not the output layer. The returned spec then has no head.

    Args:
        spec: the spec from the arrays' shapes alone.
        name: the model's name, for the message.
        data: the data set's name, for the message.
        classes: number of classes of the data.
        scores: shape of the model's output for one sample.

    Raises:
        ModelError: the output for one sample has neither the shape [1 C], nor [1 1] for a detector.
    """
    expected = (1, 1 if spec.detects else classes)
    if scores != expected:
        raise ModelError(
            f"model {name!r} returns scores of shape {scores} for one sample of {data}, expected "
            f"{expected}"
        )
    # The last layer of an adapter is known, also without a bias.
    if spec.factors and spec.head_bias is None:
        return spec
    bias = spec.head_bias
    fits = bias is not None and bias.stop - bias.start == expected[1]
    return spec if fits else replace(spec, head=None, head_bias=None)
