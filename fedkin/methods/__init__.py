"""One paper, one file. ``METHODS`` is how configurations name them."""

from __future__ import annotations

from fedkin.methods.fedavg import FedAvg as FedAvg
from fedkin.methods.fedgroup import FedGroup as FedGroup
from fedkin.methods.fedgroup import FedGrouProx as FedGrouProx
from fedkin.methods.fedprox import FedProx as FedProx

METHODS: dict[str, type] = {"fedavg": FedAvg, "fedprox": FedProx, "fedgroup": FedGroup, "fedgrouprox": FedGrouProx}
