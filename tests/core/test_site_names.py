"""The names of real clients in a checkpoint."""

from __future__ import annotations

import numpy as np

from fedkin.core.site_names import stored_names
from fedkin.server.node_registry import NodeRegistry
from fedkin.server.transport import OnlineNode


def test_names_are_in_the_order_of_ids_and_clients_of_a_fleet_have_numbers() -> None:
    nodes = NodeRegistry(8)
    nodes.accept(OnlineNode(1), "rome", np.array([5, 5]))
    nodes.accept(OnlineNode(2), "berlin", np.array([7]))
    assert stored_names(nodes.memory()) == ["rome/0", "rome/1", "berlin"]
    assert stored_names(nodes.memory()) == nodes.client_names()


def test_a_simulation_has_no_such_names() -> None:
    assert stored_names({"models": np.zeros(2)}) == []
