"""The portrait of a federation: what its clients' updates look like when all of them start from the same model.

At most 200 clients, evenly spread over the ids, train one local epoch each from a new model: it is drawn as the run's
was, but from randomness of its own (the stream "portrait" of the run's seed). Their updates say who is like whom
without any method in between. Letters: n clients, P parameters, C classes, N all clients.
"""

from __future__ import annotations

import dataclasses
import hashlib
import io
import json
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from fedkin.config import registry
from fedkin.config import run as config
from fedkin.core.errors import DataError, FedkinError, ModelError
from fedkin.core.randomness import Stream
from fedkin.core.storage import write_atomic
from fedkin.core.world import BYTES_PER_NUMBER, LocalTraining
from fedkin.data.federated import FederatedData
from fedkin.measures.cosine import cosine
from fedkin.measures.pca import explained_variance, principal_scores
from fedkin.run.fingerprint import data_digest, fingerprint, model_digest
from fedkin.run.results import Run
from fedkin.simulation.engine import SimulatedWorld
from fedkin.simulation.workers import AnyModel

CLIENTS, FILE = 200, "portrait.npz"
_MEMORY = 512 * 2**20  # bytes of updates
_LAYOUT = 1


@dataclass(frozen=True, eq=False)
class ClientSimilarity:
    """Clients ``ids`` as their updates show them: scores on the first two principal components, the share of the
    variance that these explain, cosines; what all N clients' labels are, and the truth where it is known."""

    ids: Int[np.ndarray, "n"]
    scores: Float[np.ndarray, "n 2"]
    explained: Float[np.ndarray, "2"]
    similarity: Float[np.ndarray, "n n"]
    counts: Int[np.ndarray, "N C"]
    true_clusters: Int[np.ndarray, "N"] | None
    names: tuple[str, ...] | None = None
    remark: str = ""


def portrait_of(run: Run, data: FederatedData | None = None, model: AnyModel | None = None) -> ClientSimilarity:
    """The portrait of a run's federation, from the run's folder if one was kept there; else made and kept.

    Args:
        data, model: those the run was started with, where it was started from Python.

    Raises:
        DataError, ModelError: no data or model to make it from, or others than the run had.
        FedkinError: whatever else the run's configuration cannot be made again for.
    """
    place = None if run.folder is None else run.folder / FILE
    key = _key(run)
    kept = _load(place, key) if place else None
    if kept is not None:
        return kept
    made = _made(run, data, model)
    if place is not None:
        try:
            write_atomic(place, _packed(made, key))
        except FedkinError:
            pass  # a folder that cannot be written can be reported on all the same
    return made


def alike(runs: Sequence[Run], data: FederatedData | None = None, model: AnyModel | None = None) -> list[str]:
    """A word for each run, the same for those that one portrait serves: what their data were at the end is the same.

    Where data do not move that is the same from every seed; where they do, seed and round decide. ``data`` and
    ``model`` that are a run's own, and those that are not, are two things.
    """
    digests = None if data is None or model is None else (data_digest(data), model_digest(model, data))
    return [_alike(run, digests) for run in runs]


def _alike(run: Run, digests: tuple[str, str] | None) -> str:
    own = digests is None or not run.fingerprint or fingerprint(run.config, *digests) == run.fingerprint
    if run.config.get("shift"):
        what: Any = _key(run)
    else:
        what = [{name: run.config.get(name) for name in ("data", "model", "local")}, len(run.assignment)]
    return hashlib.sha256(json.dumps([own, what], sort_keys=True, default=str).encode()).hexdigest()[:16]


def _made(run: Run, data: FederatedData | None, model: AnyModel | None) -> ClientSimilarity:
    settings: dict[str, Any] = run.config
    work, shift, population = LocalTraining(), None, None
    if data is None or model is None:
        if "python" in settings or "method" not in settings or settings["data"]["name"] == "?":
            raise DataError("the run was started from Python; fk.report(run, data=data, model=model) makes it")
        read = config.from_dict({name: values for name, values in settings.items() if name != "python"})
        data = registry.make(registry.datasets(), read.data) if data is None else data
        model = registry.make(registry.models(), read.model, data) if model is None else model
        work, population = read.work, registry.make_population(read.scenario)
        shift = registry.make(registry.shifts(), read.shift) if read.shift else None
    else:
        work = _work(settings)
    assert data is not None and model is not None
    if model.spec.detects:
        raise ModelError(
            "the model is a detector: a client trains one for each of its classes, and has no single update"
        )
    if data.clients != len(run.assignment):
        raise DataError(f"the run had {len(run.assignment):,} clients, and the data have {data.clients:,}")
    remark = "" if _same(run, data, model) else "Data, model or versions are not those the run was made with."
    if shift is not None:  # as the data are at the end
        moving = SimulatedWorld(data, model, work, population=population, shift=shift)
        for round in range(run.records[-1]["round"] + 1):
            moving.begin(Stream(run.config["run"]["seed"], round, "scenario"))
        data = moving.data
    elif "shift" in settings:
        remark = f"{remark} Drawn from the data as they were before any of them moved.".strip()
    return dataclasses.replace(_drawn(data, model, work, run.config["run"]["seed"]), remark=remark)


def _drawn(data: FederatedData, model: AnyModel, work: LocalTraining, seed: int) -> ClientSimilarity:
    """One local epoch of each, from one model."""
    world, stream = SimulatedWorld(data, model, work), Stream(seed, 0, "portrait")
    most = max(2, min(CLIENTS, data.clients, _MEMORY // (BYTES_PER_NUMBER * model.spec.parameters)))
    ids = np.unique(np.linspace(0, data.clients - 1, min(most, data.clients)).round().astype(np.int64))
    with world.ledger.scoring():
        start = world.initial(stream)[None]
        one = dataclasses.replace(work, epochs=1, steps=None)
        reply = world.train(start, ids, np.zeros(len(ids), np.int64), work=one, stream=stream)
    ids, updates = ids[reply.arrived], reply.update[reply.arrived]
    if not len(ids):
        raise ModelError("no client's update was finite; try a smaller local.lr")
    scores = principal_scores(updates, 1)[:, :2]
    shares = np.zeros(2)
    shares[: scores.shape[1]] = explained_variance(updates)[: scores.shape[1]]
    scores = np.pad(scores, ((0, 0), (0, 2 - scores.shape[1])))
    names = None if data.client_names is None else tuple(data.client_names)
    similarity = cosine(updates, updates).astype(np.float32)
    return ClientSimilarity(ids, scores, shares, similarity, data.label_counts(), data.true_clusters, names)


def _work(settings: dict[str, Any]) -> LocalTraining:
    """The local work of a run started from Python, as its configuration tells it."""
    names = {entry.name for entry in dataclasses.fields(LocalTraining)}
    return LocalTraining(**{name: value for name, value in settings.get("local", {}).items() if name in names})


def _same(run: Run, data: FederatedData, model: AnyModel) -> bool:
    """Whether data and model are the run's own, as far as that is known."""
    if not run.fingerprint:
        return True
    return fingerprint(run.config, data_digest(data), model_digest(model, data)) == run.fingerprint


def _key(run: Run) -> str:
    """What a portrait is known by: the settings that decide it, and the round up to which data moved."""
    told = {name: run.config.get(name) for name in ("data", "model", "local", "shift", "scenario")}
    rounds = run.records[-1]["round"] if run.config.get("shift") else 0
    parts = [_LAYOUT, told, run.config["run"]["seed"], rounds, len(run.assignment)]
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()


def _packed(made: ClientSimilarity, key: str) -> bytes:
    arrays = {name: getattr(made, name) for name in ("ids", "scores", "explained", "similarity", "counts")}
    arrays |= {} if made.true_clusters is None else {"true_clusters": made.true_clusters}
    arrays |= {} if made.names is None else {"names": np.array(made.names, dtype=np.str_)}
    file = io.BytesIO()
    np.savez_compressed(file, key=np.array(key), remark=np.array(made.remark), **arrays)
    return file.getvalue()


def _load(path: Path, key: str) -> ClientSimilarity | None:
    """The kept portrait, if it is one and this run's."""
    try:
        with np.load(path, allow_pickle=False) as kept:
            if str(kept["key"]) != key:
                return None
            arrays = {name: kept[name] for name in ("ids", "scores", "explained", "similarity", "counts")}
            true_clusters = kept["true_clusters"] if "true_clusters" in kept else None
            names = tuple(map(str, kept["names"])) if "names" in kept else None
            found = ClientSimilarity(**arrays, true_clusters=true_clusters, names=names, remark=str(kept["remark"]))
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
        return None
    fits = found.similarity.shape == (len(found.ids),) * 2 and found.scores.shape == (len(found.ids), 2)
    return found if fits else None
