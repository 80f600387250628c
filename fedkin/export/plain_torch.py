"""The networks of an export of fedkin in plain PyTorch: a copy of this file lies in the export as
``model.py``.

    import json, torch
    from model import build

    card = json.load(open("card.json")) network = build(card["architecture"]).eval()
    network.load_state_dict(torch.load(card["models"][0]["file"], weights_only=True)) scores =
    network(x)  # x: float32 [B, ...], as card["input"] says; scores [B, C], before the softmax

Entries of the state have the names and shapes that the layers have in fedkin. Images are [B, H, W,
channels], flat ones [B, H W channels], and are flattened in that order in front of the first dense
layer.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional


class Perceptron(nn.Module):
    """Dense layers with rectified units between them; without hidden layers, logistic regression.

    Args:
        widths: number of features, width of each hidden layer, number of scores.
    """

    def __init__(self, widths: list[int]) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            nn.Linear(i, o) for i, o in zip(widths, widths[1:], strict=False)
        )

    def forward(self, x: Tensor) -> Tensor:
        """Scores of a batch."""
        x = x.flatten(1)
        for number, layer in enumerate(self.layers):
            x = layer(x if number == 0 else functional.relu(x))
        return x


class ConvNet(nn.Module):
    """Convolutions with rectified units, one dense layer or none, and the last layer.

    Args:
        image: height, width and channels.
        convs: of each convolution ``outputs``, ``window``, ``stride``, ``same`` (TensorFlow's
            padding; else none) and ``pool`` (the maximum of each 2 x 2 pixels).
        hidden: width of the dense layer; None: there is none.
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
            padding = [_padding(side, window, stride) if conv["same"] else (0, 0) for side in sides]
            self.plan.append(((*padding[1], *padding[0]), conv["pool"]))
            self.convs.append(nn.Conv2d(channels, conv["outputs"], window, stride))
            sides = [
                (side + sum(pad) - window) // stride + 1
                for side, pad in zip(sides, padding, strict=True)
            ]
            sides = [side // 2 for side in sides] if conv["pool"] else sides
            channels = conv["outputs"]
        features = sides[0] * sides[1] * channels
        self.hidden = None if hidden is None else nn.Linear(features, hidden)
        self.head = nn.Linear(features if hidden is None else hidden, scores)

    def forward(self, x: Tensor) -> Tensor:
        """Scores of a batch."""
        x = x.reshape(-1, *self.image).permute(0, 3, 1, 2)
        for conv, (padding, pool) in zip(self.convs, self.plan, strict=True):
            x = functional.relu(conv(functional.pad(x, padding)))
            x = functional.max_pool2d(x, 2) if pool else x
        x = x.permute(0, 2, 3, 1).flatten(1)
        return self.head(x if self.hidden is None else functional.relu(self.hidden(x)))


class Detectors(nn.Module):
    """One classifier of several detectors: the score of a class is that of its detector, -inf where
    it has none.

    Args:
        detectors: by class, each with one score.
        classes: C.
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
        return torch.cat(
            [scores.get(str(positive), lowest) for positive in range(self.classes)], dim=1
        )


def build(architecture: dict[str, Any]) -> nn.Module:
    """The network of a card's ``architecture``, with new weights; of detectors, without weights of
    its own: see ``build_detectors``."""
    kinds = {"perceptron": Perceptron, "convnet": ConvNet}
    return kinds[architecture["kind"]](
        **{key: value for key, value in architecture.items() if key != "kind"}
    )


def build_detectors(architecture: dict[str, Any], detected: list[int], classes: int) -> Detectors:
    """The classifier of a cluster's detectors, with new weights.

    Args:
        architecture: of one detector.
        detected: the classes that have a detector, as the card's entry of the model says.
        classes: C.
    """
    return Detectors({positive: build(architecture) for positive in detected}, classes)


def _padding(length: int, window: int, stride: int) -> tuple[int, int]:
    """TensorFlow's SAME padding before and after an axis."""
    total = max((-(-length // stride) - 1) * stride + window - length, 0)
    return total // 2, total - total // 2
