"""The networks of a fedkin export in plain PyTorch. Each export has a copy of this file,
``model.py``.

    import json, torch
    from model import build

    card = json.load(open("card.json"))
    network = build(card["architecture"]).eval()
    network.load_state_dict(torch.load(card["models"][0]["file"], weights_only=True))
    # x: [B, ...], as described in card["input"]; scores: [B, C], before the softmax
    scores = network(x)

The entries of the ``state_dict`` have the names and shapes of fedkin's layers. Images are [B, H, W,
channels], flat images [B, H W channels]. Images are flattened in this order before the first dense
layer.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional


class PlainPerceptron(nn.Module):
    """Dense layers with ReLU between them. Without hidden layers, this is logistic regression.

    Args:
        widths: the number of features, the width of each hidden layer, and the number of scores.
    """

    def __init__(self, widths: list[int]) -> None:
        super().__init__()
        sizes = zip(widths[:-1], widths[1:], strict=True)
        self.layers = nn.ModuleList(nn.Linear(inputs, outputs) for inputs, outputs in sizes)

    def forward(self, x: Tensor) -> Tensor:
        """Scores of a batch."""
        x = x.flatten(1)
        for number, layer in enumerate(self.layers):
            if number > 0:
                x = functional.relu(x)
            x = layer(x)
        return x


class ConvNet(nn.Module):
    """Convolutional network: convolutions with ReLU, an optional dense layer, and the last layer.

    Args:
        image: height, width and channels.
        convs: ``outputs``, ``window``, ``stride``, ``same`` (whether to use TensorFlow's padding)
            and ``pool`` (whether to take the maximum of each 2 x 2 pixels) of each convolution.
        hidden: width of the dense layer; None for no dense layer.
        scores: number of scores.
    """

    def __init__(
        self, image: list[int], convs: list[dict[str, Any]], hidden: int | None, scores: int
    ) -> None:
        super().__init__()
        self.image = tuple(image)
        self.plan = []
        sides = list(image[:2])
        channels = image[2]
        self.convs = nn.ModuleList()
        for conv in convs:
            window = conv["window"]
            stride = conv["stride"]
            padding = [(0, 0), (0, 0)]
            if conv["same"]:
                padding = [_padding(side, window, stride) for side in sides]
            # PyTorch expects the padding of the last axis first.
            rows, columns = padding
            self.plan.append(((*columns, *rows), conv["pool"]))
            self.convs.append(nn.Conv2d(channels, conv["outputs"], window, stride))
            padded = [side + sum(pad) for side, pad in zip(sides, padding, strict=True)]
            sides = [(side - window) // stride + 1 for side in padded]
            if conv["pool"]:
                sides = [side // 2 for side in sides]
            channels = conv["outputs"]
        features = sides[0] * sides[1] * channels
        self.hidden = None if hidden is None else nn.Linear(features, hidden)
        self.head = nn.Linear(features if hidden is None else hidden, scores)

    def forward(self, x: Tensor) -> Tensor:
        """Scores of a batch."""
        # PyTorch's convolutions take the channels before height and width.
        x = x.reshape(-1, *self.image).permute(0, 3, 1, 2)
        for conv, (padding, pool) in zip(self.convs, self.plan, strict=True):
            x = functional.relu(conv(functional.pad(x, padding)))
            if pool:
                x = functional.max_pool2d(x, 2)
        # Flatten in fedkin's order: height, width, channel.
        x = x.permute(0, 2, 3, 1).flatten(1)
        if self.hidden is not None:
            x = functional.relu(self.hidden(x))
        return self.head(x)


class Detectors(nn.Module):
    """A classifier that consists of detectors, each of which separates one class from all others.
    The score of a detector is the score of its class.

    Args:
        detectors: detectors by class, each with one score. The score of a class without a detector
            is -inf.
        classes: C, the number of classes.
    """

    def __init__(self, detectors: dict[int, nn.Module], classes: int) -> None:
        super().__init__()
        self.classes = classes
        self.detectors = nn.ModuleDict(
            {str(positive): network for positive, network in detectors.items()}
        )

    def forward(self, x: Tensor) -> Tensor:
        """Scores of a batch."""
        scores = {positive: network(x) for positive, network in self.detectors.items()}
        lowest = torch.full_like(next(iter(scores.values())), -torch.inf)
        columns = [scores.get(str(positive), lowest) for positive in range(self.classes)]
        return torch.cat(columns, dim=1)


class Scaling(nn.Module):
    """Scales the raw columns of a table, as in the training data.

    Args:
        mean: the value of each column that becomes 0.
        scale: the difference in each column that becomes 1.
    """

    def __init__(self, mean: list[float], scale: list[float]) -> None:
        super().__init__()
        self.mean = torch.tensor(mean, dtype=torch.float64)
        self.scale = torch.tensor(scale, dtype=torch.float64)

    def forward(self, x: Tensor) -> Tensor:
        """The float32 input of a network, from raw values."""
        mean = self.mean.to(x.device)
        scale = self.scale.to(x.device)
        return ((x.double() - mean) / scale).float()


def build(architecture: dict[str, Any]) -> nn.Module:
    """Build the network that ``architecture`` in ``card.json`` describes, with new weights.

    If the columns of a table were scaled, the network takes raw values, and scales them. If a
    cluster has detectors, ``architecture`` describes a single one of them; use
    ``build_detectors`` for the whole classifier.
    """
    kinds = {"perceptron": PlainPerceptron, "convnet": ConvNet}
    options = {key: value for key, value in architecture.items() if key not in ("kind", "scaling")}
    network = kinds[architecture["kind"]](**options)
    if "scaling" in architecture:
        scaling = Scaling(**architecture["scaling"])
        # As a hook, it adds no entry to the network's state_dict.
        network.register_forward_pre_hook(lambda _, inputs: (scaling(inputs[0]),))
    return network


def build_detectors(architecture: dict[str, Any], detected: list[int], classes: int) -> Detectors:
    """Build the classifier of a cluster's detectors, with new weights.

    Args:
        architecture: the architecture of a detector.
        detected: the classes that have a detector, from the model's entry in ``card.json``.
        classes: C, the number of classes.
    """
    return Detectors({positive: build(architecture) for positive in detected}, classes)


def _padding(length: int, window: int, stride: int) -> tuple[int, int]:
    """TensorFlow's SAME padding of a convolution: the number of pixels to add before and after an
    axis of this length."""
    total = max((-(-length // stride) - 1) * stride + window - length, 0)
    return total // 2, total - total // 2
