"""The names of real clients in a server's checkpoint."""

from __future__ import annotations

import json
from collections.abc import Mapping

import numpy as np

REGISTRY = "registry"  # name of the array with the accepted nodes, as JSON


def names_of_clients(node: str, clients: int) -> list[str]:
    """Names of a node's clients: the node's name, with a number if it has several clients.

    Args:
        node: name of the node.
        clients: number of its clients.
    """
    return [node] if clients == 1 else [f"{node}/{i}" for i in range(clients)]


def stored_names(memory: Mapping[str, np.ndarray]) -> list[str]:
    """The name of each client that had an id at a checkpoint, in the order of ids; empty for a
    simulation.

    Args:
        memory: the checkpoint's arrays that are not part of the state.
    """
    if REGISTRY not in memory:
        return []
    nodes = json.loads(memory[REGISTRY].tobytes())
    ordered = sorted(nodes, key=lambda node: node["first"])
    return [name for node in ordered for name in names_of_clients(node["name"], node["count"])]
