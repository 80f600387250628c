"""The things that are damaged, and the rule that holds then: an error names the cause, or nothing
has changed.
A target makes its things once, in its own folder. ``case`` damages one of them, as a seed
says. Whatever escapes ``case`` that is no ``FedkinError`` is a fault of the library, and so is a
``Fault``.
"""

from __future__ import annotations

import logging
import shutil
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from typer.testing import CliRunner

import fedkin as fk
from fedkin.cli import app
from fedkin.config import comparison, peer, registry, run, server
from fedkin.core.errors import FedkinError
from fedkin.p2p import messages
from fedkin.run.folder import integrity
from fedkin.run.folder.folder_state import states_of
from fedkin.server.message import RpcMessage, decode, encode
from fedkin.server.node import respond
from tests.fuzzing import configurations
from tests.fuzzing.damage import damaged_bytes, damaged_text
from tests.server.small_federations import ABOUT, P, fake_node

SETTINGS = [
    "run.rounds=3",
    "run.cohort=3",
    "local.epochs=1",
    "data.clients=8",
    "run.checkpoint_every=2",
]


class Fault(AssertionError):
    """Damage that was believed."""


class Target(ABC):
    """Something that is damaged. Its folder is its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @abstractmethod
    def case(self, rng: np.random.Generator) -> None:
        """Damage it, and use it. Raises FedkinError, or Fault."""


class RunFolder(Target):
    """A finished run: a damaged file of it is noticed, or nothing that is read from the folder
    differs."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.whole = folder / "whole"
        result = CliRunner().invoke(app, ["run", *SETTINGS, "--out", str(self.whole)])
        assert result.exit_code == 0, result.output
        self.files = sorted(
            path.relative_to(self.whole) for path in self.whole.rglob("*") if path.is_file()
        )
        self.before = self.read(self.whole)
        self.sums = (self.whole / integrity.SUMS).read_text()

    @staticmethod
    def read(folder: Path) -> tuple[object, ...]:
        """What a reader of the folder gets."""
        read = fk.Run.load(folder)
        return (
            read.records,
            read.summary(),
            read.state.models.tobytes(),
            read.assignment.tolist(),
            sorted(read.against),
        )

    def case(self, rng: np.random.Generator) -> None:
        copy = self.folder / "copy"
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(self.whole, copy)
        file = self.files[int(rng.integers(len(self.files)))]
        content = (copy / file).read_bytes()
        if rng.random() < 0.1:
            (copy / file).unlink()
        else:
            (copy / file).write_bytes(damaged_bytes(rng, content))
        states = states_of(copy)
        same = (copy / file).exists() and (copy / file).read_bytes() == content
        listed = f"  {file}\n" in self.sums
        if listed and not same and not any(state.problems for state in states):
            raise Fault(f"{file} is damaged, and the folder is said to be well")
        warnings: list[logging.LogRecord] = []
        handler = logging.Handler(logging.WARNING)
        handler.emit = warnings.append  # type: ignore[method-assign]
        logging.getLogger("fedkin").addHandler(handler)
        try:
            read = self.read(copy)
        finally:
            logging.getLogger("fedkin").removeHandler(handler)
        if read != self.before and not warnings:
            raise Fault(f"{file} is damaged, and other content is read without a word")


class Configurations(Target):
    """Files of runs, comparisons, servers, sites and peers: read, or refused in one message."""

    LOADERS: ClassVar = {
        run.load: configurations.RUN,
        comparison.load: configurations.COMPARISON,
        server.load_server: configurations.SERVER,
        server.load_client: configurations.CLIENT,
        peer.load: configurations.PEER,
    }

    def case(self, rng: np.random.Generator) -> None:
        load = list(self.LOADERS)[int(rng.integers(len(self.LOADERS)))]
        path = self.folder / "configuration.toml"
        text = damaged_text(rng, self.LOADERS[load])
        path.write_bytes(damaged_bytes(rng, text.encode()) if rng.random() < 0.2 else text.encode())
        try:
            load(path)
        except FedkinError as error:
            # More than the longest mistake, and the message about it.
            if not str(error) or len(str(error)) > 8000:
                raise Fault(f"a message of {len(str(error))} characters") from error
            raise


class Samples(Target):
    """A user's own file: read as finite samples and known labels, or refused."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        rng = np.random.default_rng(0)
        x = rng.normal(size=(40, 3)).astype(np.float32)
        y = np.array(["ill", "well"])[np.arange(40) % 2]
        table = pd.DataFrame(x, columns=["age", "pulse", "weight"]).assign(
            y=y, client_id=np.arange(40) // 10
        )
        table.to_csv(folder / "mine.csv", index=False)
        table.to_parquet(folder / "mine.parquet")
        np.savez(folder / "mine.npz", x=x, y=np.arange(40) % 2, client_id=np.arange(40) // 10)
        self.contents = {path.name: path.read_bytes() for path in sorted(folder.glob("mine.*"))}

    def case(self, rng: np.random.Generator) -> None:
        name = sorted(self.contents)[int(rng.integers(len(self.contents)))]
        content = self.contents[name]
        if name.endswith(".csv") and rng.random() < 0.7:
            content = damaged_text(rng, content.decode()).encode()
        else:
            content = damaged_bytes(rng, content)
        path = self.folder / f"damaged{Path(name).suffix}"
        path.write_bytes(content)
        data = registry.make(registry.datasets(), {"name": "file", "path": str(path)})
        if not (np.isfinite(data.x).all() and 0 <= data.y.min() <= data.y.max() < data.classes):
            raise Fault(f"samples of {path.name} that are not finite, or labels that are no class")


class Messages(Target):
    """Requests to a site, and messages of peers: understood, or refused without an exception of
    another kind."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        own = {
            "run": "trial",
            "first": 0,
            "count": 1,
            "handshake": ABOUT.header(),
            "stream": [1, 2, "a"],
        }
        arrays = {"clients": np.zeros(1, np.int64), "models": np.ones((2, P), np.float32)}
        operations = ("hello", "train", "evaluate", "losses", "similarities", "shifted")
        self.requests = [
            encode(RpcMessage({"operation": name, **own, **ABOUT.header()}, arrays))
            for name in operations
        ]
        sent = messages.Message("ada", 4, 60, {"model": np.array([1.5, -2.0, 0.25], np.float32)})
        self.peers = messages.encode(sent, "trial")
        self.request = messages.Request("trial", "ada", messages.MODEL, 3)

    def case(self, rng: np.random.Generator) -> None:
        if rng.random() < 0.3:
            received = messages.decode(damaged_bytes(rng, self.peers), self.request)
            if not np.isfinite(received.arrays["model"]).all() or received.arrays[
                "model"
            ].shape != (3,):
                raise Fault("a model of a peer that no peer can have sent")
            return
        data = self.requests[int(rng.integers(len(self.requests)))]
        data = (
            damaged_bytes(rng, data)
            if rng.random() < 0.4
            else encode(damaged_message(rng, decode(data)))
        )
        reply = respond(lambda: fake_node("berlin"), lambda: decode(data))
        if not isinstance(reply, RpcMessage):
            raise Fault(f"a reply of type {type(reply).__name__}")


VALUES: list[Any] = [
    None,
    -1,
    0,
    2**70,
    1.5,
    True,
    "",
    "x" * 5000,
    [],
    [1, "a"],
    {},
    {"a": {"b": 1}},
]
ARRAYS = [
    np.zeros(0, np.float32),
    np.full((2, P), np.nan, np.float32),
    np.ones((3, P - 1), np.float32),
    np.full(1, -1),
    np.full(1, 2**62),
    np.zeros((1, 1, 1, 1), np.uint8),
    np.ones(5, bool),
]


def damaged_message(rng: np.random.Generator, message: RpcMessage) -> RpcMessage:
    """A message with one to three entries of its header, and arrays, that no server sends."""
    header = dict(message.header)
    arrays = dict(message.arrays)
    for _ in range(rng.integers(1, 4)):
        where = arrays if arrays and rng.random() < 0.4 else header
        name = sorted(where)[int(rng.integers(len(where)))]
        values = ARRAYS if where is arrays else VALUES
        if rng.random() < 0.2 and len(where) > 1:
            del where[name]
        else:
            where[name] = values[int(rng.integers(len(values)))]
    return RpcMessage(header, arrays)


TARGETS: dict[str, type[Target]] = {
    "runs": RunFolder,
    "configurations": Configurations,
    "samples": Samples,
    "messages": Messages,
}
