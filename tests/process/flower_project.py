"""The files of a federation for tests with real processes: an app that points at the library,
server and clients."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tomli_w

from fedkin.data import FederatedData

DATA = {
    "name": "planted",
    "base": "digits",
    "kind": "label_permutation",
    "clusters": 2,
    "samples": 60,
}
SHARED: dict[str, Any] = {"samples": {"shape": [64], "classes": 10}, "model": {"name": "mclr"}}
APP: dict[str, Any] = {
    "project": {
        "name": "fedkin-app",
        "version": "1.0.0",
        "description": "fedkin",
        "license": "Apache-2.0",
    },
    "tool": {
        "flwr": {
            "app": {
                "publisher": "fedkin",
                "components": {
                    "serverapp": "fedkin.server.deploy.server_app:app",
                    "clientapp": "fedkin.server.deploy.client_app:app",
                },
                "config": {"config": ""},
            }
        }
    },
}


def app(folder: Path) -> Path:
    """The app's folder, with nothing but a pyproject.toml."""
    (folder / "app").mkdir(parents=True, exist_ok=True)
    (folder / "app" / "pyproject.toml").write_text(tomli_w.dumps(APP))
    return folder / "app"


def server(
    folder: Path, sections: Mapping[str, Mapping[str, Any]], shared: Mapping[str, Any] = SHARED
) -> str:
    """A server.toml; its path."""
    path = folder / "server.toml"
    path.write_text(tomli_w.dumps({**shared, **sections}))
    return str(path)


def client(
    folder: Path,
    name: str,
    clients: list[int] | str,
    data: Mapping[str, Any],
    shared: Mapping[str, Any] = SHARED,
) -> dict[str, Any]:
    """A client.toml in a separate folder; the configuration that its node is started with."""
    own = folder / "sites" / name
    own.mkdir(parents=True, exist_ok=True)
    described = {"client": {"name": name, "clients": clients}, "data": dict(data), **shared}
    (own / "client.toml").write_text(tomli_w.dumps(described))
    return {"config": str(own / "client.toml")}


def own_file(folder: Path, data: FederatedData, clients: Sequence[int]) -> dict[str, Any]:
    """The samples of some clients, numbered from 0, in a separate file; the [data] section that
    reads it."""
    rows = [indices for client in clients for indices in (data.train[client], data.test[client])]
    sizes = [len(indices) for indices in rows]
    client_id = np.repeat(np.repeat(np.arange(len(clients)), 2), sizes)
    split = np.repeat(["train", "test"] * len(clients), sizes)
    path = folder / f"clients-{clients[0]}.npz"
    everything = np.concatenate(rows)
    np.savez(path, x=data.x[everything], y=data.y[everything], client_id=client_id, split=split)
    return {"name": "file", "path": str(path), "classes": data.classes}
