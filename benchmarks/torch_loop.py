"""A plain PyTorch loop over clients, as in most federated-learning code."""

from __future__ import annotations

import torch
from torch import nn

from benchmarks.work import BATCH, CLASSES, FEATURES, LR, Clients


def network(name: str) -> nn.Module:
    """The same layers as fedkin's models of the same shape."""
    if name == "784-10":
        return nn.Linear(FEATURES, CLASSES)
    if name == "FEMNIST's CNN":
        return femnist_cnn()
    if name == "CNN":
        return mnist_cnn()
    hidden = int(name.split("-")[1])
    return nn.Sequential(nn.Linear(FEATURES, hidden), nn.ReLU(), nn.Linear(hidden, CLASSES))


def mnist_cnn() -> nn.Module:
    """Two convolutions, 50,186 parameters."""
    return nn.Sequential(
        nn.Unflatten(1, (1, 28, 28)),
        nn.Conv2d(1, 32, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Dropout(0.5),
        nn.Linear(7 * 7 * 64, CLASSES),
    )


def femnist_cnn() -> nn.Module:
    """Six convolutions and two dense layers, 325,578 parameters."""
    layers: list[nn.Module] = [nn.Unflatten(1, (1, 28, 28))]
    channels = 1
    for outputs in (32, 64):
        layers += [nn.Conv2d(channels, outputs, 3), nn.ReLU()]
        layers += [nn.Conv2d(outputs, outputs, 3), nn.ReLU()]
        layers += [nn.Conv2d(outputs, outputs, 5, stride=2, padding=2), nn.ReLU()]
        layers.append(nn.Dropout(0.4))
        channels = outputs
    layers += [nn.Flatten(), nn.Linear(4 * 4 * 64, 128), nn.ReLU(), nn.Dropout(0.4)]
    return nn.Sequential(*layers, nn.Linear(128, CLASSES))


def tensors(data: Clients) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Every client's samples, converted once."""
    return [
        (torch.from_numpy(x), torch.from_numpy(y)) for x, y in (data[c] for c in range(len(data)))
    ]


def round_of(model: nn.Module, data: list[tuple[torch.Tensor, torch.Tensor]], epochs: int) -> None:
    """FedAvg over all clients, in place: each trains from the same weights, and the model gets
    their weighted mean.

    Args:
        model: trained in place.
        data: samples and labels of each client.
        epochs: of local training.
    """
    start = {name: p.detach().clone() for name, p in model.state_dict().items()}
    mean = {name: torch.zeros_like(p) for name, p in start.items()}
    total = sum(len(y) for _, y in data)
    loss_of = nn.CrossEntropyLoss()
    model.train()
    for x, y in data:
        model.load_state_dict(start)
        optimizer = torch.optim.SGD(model.parameters(), lr=LR)
        for _ in range(epochs):
            for rows in torch.randperm(len(y)).split(BATCH):
                optimizer.zero_grad()
                loss_of(model(x[rows]), y[rows]).backward()
                optimizer.step()
        for name, p in model.state_dict().items():
            mean[name] += p * (len(y) / total)
    model.load_state_dict(mean)
