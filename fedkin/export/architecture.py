"""Describes a network of ``fedkin.models`` as plain values, from which ``plain_torch`` rebuilds it
in PyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np

from fedkin.simulation.workers import AnyModel, ModelWithWorkers

Architecture = dict[str, Any]


def architecture_of(model: AnyModel) -> Architecture | None:
    """The architecture of a model, as the argument of ``plain_torch.build``. None for a model that
    ``build`` cannot rebuild, such as a user's own."""
    if isinstance(model, ModelWithWorkers):
        return None
    from fedkin.models.cnn import AthenaCNN, DenseCNN, FemnistCNN, MnistCNN
    from fedkin.models.detector import Detector
    from fedkin.models.perceptron import Perceptron

    zeros = np.zeros(model.spec.parameters, np.float32)
    tree = model.unflatten(zeros)  # type: ignore[attr-defined]
    if type(tree) is Perceptron:
        kernels = [layer.weight.shape for layer in tree.layers]
        return {"kind": "perceptron", "widths": [kernels[0][1], *(shape[0] for shape in kernels)]}
    if type(tree) not in (MnistCNN, DenseCNN, FemnistCNN, AthenaCNN, Detector):
        return None
    pool = not isinstance(tree, FemnistCNN)
    convs = [
        {
            "outputs": conv.weight.shape[0],
            "window": conv.weight.shape[2],
            "stride": conv.stride,
            "same": conv.same,
            "pool": pool,
        }
        for conv in tree.convs
    ]
    hidden = tree.hidden.weight.shape[0] if hasattr(tree, "hidden") else None
    image = [int(n) for n in tree.image]
    scores = tree.head.weight.shape[0]
    return {"kind": "convnet", "image": image, "convs": convs, "hidden": hidden, "scores": scores}


def entry_of(model: AnyModel, architecture: Architecture | None) -> dict[str, Any] | None:
    """The section [model] of a configuration that makes this network.

    Args:
        model: the network.
        architecture: architecture of the model; None if ``plain_torch`` cannot build the network,
            which may be a Cox model.

    Returns:
        The section; None for a user's model.
    """
    if architecture is None:
        return _cox_entry(model)
    if architecture["kind"] == "perceptron":
        hidden = architecture["widths"][1:-1]
        return {"name": "mlp", "hidden": hidden} if hidden else {"name": "mclr"}
    if model.spec.detects:
        return {"name": "detector"}
    return {"name": "cnn", "variant": model.name.removeprefix("cnn-")}


def _cox_entry(model: AnyModel) -> dict[str, Any] | None:
    """The section [model] of a Cox model; None for another network."""
    if isinstance(model, ModelWithWorkers):
        return None
    from fedkin.models.cox import RiskSet

    tree = model.unflatten(np.zeros(model.spec.parameters, np.float32))  # type: ignore[attr-defined]
    if type(tree) is not RiskSet:
        return None
    hidden = [layer.weight.shape[0] for layer in tree.risk.layers[:-1]]
    return {"name": "cox", "hidden": hidden} if hidden else {"name": "cox"}
