"""The networks of ``fedkin.models`` as values, from which ``plain_torch`` builds their twins in
PyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np

from fedkin.simulation.workers import AnyModel, ModelWithWorkers

Architecture = dict[str, Any]


def architecture_of(model: AnyModel) -> Architecture | None:
    """What ``plain_torch.build`` takes; None of a model that has no twin there."""
    if isinstance(model, ModelWithWorkers):
        return None
    from fedkin.models.cnn import AthenaCNN, DenseCNN, FemnistCNN, MnistCNN
    from fedkin.models.detector import Detector
    from fedkin.models.perceptron import Perceptron

    tree = model.unflatten(np.zeros(model.spec.parameters, np.float32))  # type: ignore[attr-defined]
    if type(tree) is Perceptron:
        kernels = [layer.weight.shape for layer in tree.layers]
        return {"kind": "perceptron", "widths": [kernels[0][1], *(shape[0] for shape in kernels)]}
    if type(tree) not in (MnistCNN, DenseCNN, FemnistCNN, AthenaCNN, Detector):
        return None
    pool = not isinstance(tree, FemnistCNN)
    convs = [
        {
            "outputs": c.weight.shape[0],
            "window": c.weight.shape[2],
            "stride": c.stride,
            "same": c.same,
            "pool": pool,
        }
        for c in tree.convs
    ]
    hidden = tree.hidden.weight.shape[0] if hasattr(tree, "hidden") else None
    image = [int(n) for n in tree.image]
    scores = tree.head.weight.shape[0]
    return {"kind": "convnet", "image": image, "convs": convs, "hidden": hidden, "scores": scores}


def entry_of(model: AnyModel, architecture: Architecture | None) -> dict[str, Any] | None:
    """The entry of a configuration that makes the same network; None of a model that has no twin in
    plain PyTorch.

    Args:
        model: of which the entry is wanted.
        architecture: the model's.
    """
    if architecture is None:
        return None
    if architecture["kind"] == "perceptron":
        hidden = architecture["widths"][1:-1]
        return {"name": "mlp", "hidden": hidden} if hidden else {"name": "mclr"}
    return (
        {"name": "detector"}
        if model.spec.detects
        else {"name": "cnn", "variant": model.name.removeprefix("cnn-")}
    )
