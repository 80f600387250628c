"""The two files of a federation with a server: ``server.toml`` on its machine, ``client.toml`` on every other.

Both have [samples] and [model], which must be equal: their digest is part of the introduction of a client. Paths in
them start at the folder of the file.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import Field

from fedkin.config import registry
from fedkin.config.plan import Plan
from fedkin.config.run import Local, Rounds, against, named, named_model, override, read_toml
from fedkin.config.schema import Section, Values, checked, made, plain
from fedkin.config.server_settings import ServerSettings, SiteSettings
from fedkin.core.codec import digest
from fedkin.core.errors import ConfigError, FedkinError, unknown
from fedkin.core.world import LocalTraining

SERVER = ("federation", "samples", "model", "method", "local", "run")
CLIENT = ("client", "samples", "model", "data")
Where = Callable[[str], str]


class Samples(Section):
    """[samples]: what every client's samples look like: the shape of one, and the number of classes.

    ``words`` is the size of the vocabulary, where samples are numbers of words.
    """

    shape: list[Annotated[int, Field(ge=1)]]
    classes: Annotated[int, Field(ge=1)]
    words: Annotated[int, Field(ge=1)] | None = None


@dataclass(frozen=True)
class DataDescription:
    """What a model must know of data that are elsewhere (``models.model.Samples``): one sample of zeros shows their
    shape."""

    name: str
    x: np.ndarray  # [1 ...]
    classes: int
    vocabulary: tuple[str, ...] | None = None
    vectors: np.ndarray | None = None

    @classmethod
    def of(cls, samples: Samples, name: str) -> DataDescription:
        dtype = np.float32 if samples.words is None else np.int64
        words = None if samples.words is None else tuple(map(str, range(samples.words)))
        return cls(name, np.zeros((1, *samples.shape), dtype), samples.classes, words)


@dataclass(frozen=True)
class ServerConfig:
    """server.toml, checked and spelled out."""

    terms: ServerSettings
    samples: Samples
    model: Values
    method: Values
    local: Local
    run: Rounds

    @property
    def work(self) -> LocalTraining:
        return LocalTraining(**self.local.model_dump())

    @property
    def others(self) -> list[Values]:
        """The methods that are run after the main one."""
        return [entry for entry in self.run.against if not isinstance(entry, str)]

    @property
    def plan(self) -> Plan:
        run = self.run
        return Plan(run.rounds, run.cohort, run.seed, run.evaluate_every, run.checkpoint_every, run.selection)

    @property
    def agreed(self) -> str:
        return agreement(self.samples, self.model)

    def described(self) -> DataDescription:
        return DataDescription.of(self.samples, self.terms.name)

    def description(self) -> dict[str, Any]:
        """What config.toml of the run folder says: what decides numbers. Deadlines and the like may be changed."""
        return {
            "federation": {"name": self.terms.name, "capacity": self.terms.capacity},
            "data": {"name": self.terms.name, "clients": self.terms.capacity, **plain(self.samples)},
            "model": self.model,
            "method": self.method,
            "local": plain(self.local),
            "run": plain(self.run),
        }


@dataclass(frozen=True)
class ClientConfig:
    """client.toml, checked and spelled out."""

    site: SiteSettings
    samples: Samples
    model: Values
    data: Values

    @property
    def agreed(self) -> str:
        return agreement(self.samples, self.model)

    def described(self) -> DataDescription:
        return DataDescription.of(self.samples, self.site.name)


def agreement(samples: Samples, model: Values) -> str:
    """A digest of what the files of server and clients must say alike."""
    return digest({"samples": plain(samples), "model": model})


def methods() -> registry.Registry:
    """The methods that have a server, but for those that must know the truth."""
    from fedkin.methods.decentralized import PeerMethod

    return {
        name: made
        for name, made in registry.methods().items()
        if not (isinstance(made, type) and issubclass(made, PeerMethod))
        and not getattr(made, "needs_true_clusters", False)
    }


def load_server(path: Path, overrides: Sequence[str] = ()) -> ServerConfig:
    """Read a server's file with ``section.key=value`` on top.

    Raises ConfigError: no such file, not TOML, unknown section or key, wrong type or value; always with its place.
    """
    raw, where = _read(path, overrides, SERVER)
    place = _placer(where)
    method = named("method with a server", methods(), {"name": "fedavg"} | raw["method"], place("method"))
    run = checked(Rounds, {"checkpoint_every": 1} | raw["run"], place("run"))  # a round is dear, a checkpoint is not
    for key in ("seeds", "devices", "clients_per_batch"):
        if getattr(run, key) is not None:
            raise ConfigError(f"{where(f'run.{key}')}: means nothing to a real federation; leave it out")
    others = against(run.against, method, where("run.against"), methods())
    terms = made(ServerSettings, raw["federation"], place("federation"))
    config = ServerConfig(
        terms=replace(terms, folder=str(path.parent.absolute() / terms.folder)),
        samples=checked(Samples, raw["samples"], place("samples")),
        model=named_model(raw["model"], place("model")),
        method=method,
        local=checked(Local, raw["local"], place("local")),
        run=run.model_copy(update={"against": others}),
    )
    makers = {"local": lambda: config.work, "method": lambda: [registry.make(methods(), m) for m in (method, *others)]}
    for name, make in makers.items():
        try:
            make()
        except FedkinError as error:
            raise ConfigError(f"{where(name)}: {error}") from error
    return config


def load_client(path: Path, overrides: Sequence[str] = ()) -> ClientConfig:
    """Read a client's file. Raises ConfigError as ``load_server`` does."""
    raw, where = _read(path, overrides, CLIENT)
    place = _placer(where)
    site = made(SiteSettings, raw["client"], place("client"))
    data = dict(raw["data"])
    if data.get("name") == "file" and isinstance(data.get("path"), str):
        data["path"] = str(path.parent.absolute() / data["path"])
    return ClientConfig(
        site=replace(site, folder=str(path.parent.absolute() / site.folder)),
        samples=checked(Samples, raw["samples"], place("samples")),
        model=named_model(raw["model"], place("model")),
        data=named("data set", registry.datasets(), data, place("data")) if data else {},
    )


def _read(path: Path, overrides: Sequence[str], sections: Sequence[str]) -> tuple[dict[str, Values], Where]:
    raw = read_toml(path)
    ours = override(raw, overrides, path)

    def where(dotted: str) -> str:
        return dotted if dotted in ours else f"{path}: {dotted}"

    for name, entries in raw.items():
        if name not in sections:
            raise ConfigError(f"{where(name)}: {unknown('section', name, sections)}")
        if not isinstance(entries, dict):
            raise ConfigError(f"{where(name)}: expected a section, got {entries!r}")
    if "samples" not in raw:
        raise ConfigError(f"{where('samples')}: is required: the shape of a sample and the number of classes")
    return {name: raw.get(name, {}) for name in sections}, where


def _placer(where: Where) -> Callable[[str], Where]:
    return lambda section: lambda key: where(f"{section}.{key}")
