"""Similarity of a run's clients: cosines of their updates from the same start model.

At most 200 clients, evenly spread over the ids, train one local epoch each from the same new model.
This model is initialised like the run's model, with a different seed. The updates show which
clients are similar, independent of the method. The result is stored in the run's folder.

Shapes: n trained clients, P parameters, C classes, N all clients.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float, Int

from fedkin.config import run as config
from fedkin.config.description import Description
from fedkin.core.codec import decode, digest, encode
from fedkin.core.errors import DataError, FedkinError, ModelError
from fedkin.core.model_spec import BYTES_PER_NUMBER
from fedkin.core.randomness import Stream
from fedkin.core.storage import write_atomic
from fedkin.core.training import LocalTraining
from fedkin.data.digest import data_digest
from fedkin.data.federated import FederatedData
from fedkin.measures.cosine import cosine
from fedkin.measures.pca import explained_variance, principal_scores
from fedkin.run.folder.fingerprint import fingerprint, model_digest
from fedkin.run.run import Run
from fedkin.simulation.engine import SimulatedWorld
from fedkin.simulation.workers import AnyModel
from fedkin.tasks.train import train

CLIENTS = 200
FILE = "similarity.safetensors"
_MEMORY = 512 * 2**20  # bytes that all updates together may take
_LAYOUT = 2
_ARRAYS = ("ids", "scores", "explained", "cosines", "label_counts")


@dataclass(frozen=True, eq=False)
class ClientSimilarity:
    """The similarity of clients, measured by their updates.

    Attributes:
        ids: ids of the trained clients.
        scores: scores of the clients' updates on the first two principal components.
        explained: share of the variance that each of the two components explains.
        cosines: cosine similarity of each pair of updates.
        label_counts: number of training samples of each class, for all clients.
        true_clusters: true clusters of all clients, if known.
        names: names of all clients, if known.
        note: a caveat that the report shows, such as that the data, the model or the versions of
            packages differ from those of the run; empty if there is none.
    """

    ids: Int[np.ndarray, "n"]
    scores: Float[np.ndarray, "n 2"]
    explained: Float[np.ndarray, "2"]
    cosines: Float[np.ndarray, "n n"]
    label_counts: Int[np.ndarray, "N C"]
    true_clusters: Int[np.ndarray, "N"] | None
    names: tuple[str, ...] | None = None
    note: str = ""


def stored_similarity(run: Run) -> ClientSimilarity | None:
    """The similarity that is stored in a run's folder; None if there is none for this run."""
    return None if run.folder is None else _load(run.folder / FILE, _key(run))


def client_similarity(
    run: Run, data: FederatedData | None = None, model: AnyModel | None = None
) -> ClientSimilarity:
    """The stored similarity of a run's clients. If there is none, train clients and store the
    result.

    Args:
        run: the run, in memory or read from its folder.
        data: the run's data; needed if it was started from Python.
        model: the run's model; needed if it was started from Python.

    Raises:
        DataError: there are no data to train on, or they are not the run's data.
        ModelError: the model is a detector, which has no single update for each client.
        FedkinError: the run's data or model cannot be made from its configuration.
    """
    stored = stored_similarity(run)
    if stored is not None:
        return stored
    similarity = _compute(run, data, model)
    if run.folder is not None:
        # A report on a read-only folder is possible too, so a failure to store is ignored.
        with suppress(FedkinError):
            write_atomic(run.folder / FILE, _pack(similarity, _key(run)))
    return similarity


def similarity_keys(
    runs: Sequence[Run], data: FederatedData | None = None, model: AnyModel | None = None
) -> list[str]:
    """A key for each run. Runs have the same key if their clients had the same final data, so that
    they share one similarity.

    Without data shifts, all seeds share a key; with shifts, it depends on the seed and the last
    round. Runs on ``data`` and ``model`` have other keys than the remaining runs.

    Args:
        runs: all runs of a report.
        data: given data, if any.
        model: the given model, if any.
    """
    digests = None
    if data is not None and model is not None:
        digests = (data_digest(data), model_digest(model, data))
    return [_similarity_key(run, digests) for run in runs]


def _similarity_key(run: Run, digests: tuple[str, str] | None) -> str:
    """The key of a run, which runs with the same client similarity share (see ``similarity_keys``).
    ``digests`` are the digests of the given data and model."""
    is_of_given = (
        digests is None
        or not run.fingerprint
        or fingerprint(run.config, *digests) == run.fingerprint
    )
    # Shifted data depend on the seed and the rounds, which are part of ``_key``.
    if run.config.shift:
        return digest([is_of_given, _key(run)])
    settings = {name: run.config.sections.get(name) for name in ("data", "model", "local")}
    return digest([is_of_given, [settings, len(run.assignment)]])


def _compute(run: Run, data: FederatedData | None, model: AnyModel | None) -> ClientSimilarity:
    """Compute the similarity of a run's clients: make the run's data and model, unless they are
    given, and train the clients."""
    settings = run.config
    local = LocalTraining()
    shift = None
    population = None
    if settings.of_federation and (data is None or model is None):
        raise DataError(
            "client similarity needs a training of all clients, but real clients keep their data "
            "and train only during the run"
        )
    if data is None or model is None:
        if settings.from_python or "method" not in settings.sections or settings.data_name == "?":
            raise DataError(
                "the run was started from Python; use fk.report(run, similarity=True, data=data, "
                "model=model)"
            )
        made = config.from_dict(settings.sections)
        data = made.make_data() if data is None else data
        model = made.model.make(data) if model is None else model
        local = made.work
        population = made.scenario
        shift = made.shift.made if made.shift else None
    else:
        local = _local_training(settings)
    assert data is not None and model is not None
    if model.spec.detects:
        raise ModelError(
            "client similarity needs one update of each client, but the models are detectors, and "
            "a client trains one for each of its classes"
        )
    if data.clients != len(run.assignment):
        raise DataError(
            f"the run had {len(run.assignment):,} clients, but the data have {data.clients:,}; "
            "give the run's data"
        )
    note = ""
    if not _same(run, data, model):
        note = "Data, model or versions differ from the run's."
    # The clients train on their data after the last shift.
    if shift is not None:
        world = SimulatedWorld(data, model, local, population=population, shift=shift)
        for round in range(run.records[-1]["round"] + 1):
            world.begin(Stream(run.config.seed, round, "scenario"))
        data = world.data
    elif settings.shift:
        note = f"{note} It shows the data before any shift.".strip()
    return dataclasses.replace(_train(data, model, local, run.config.seed), note=note)


def _train(
    data: FederatedData, model: AnyModel, local: LocalTraining, seed: int
) -> ClientSimilarity:
    """Train each client for one local epoch from the same model, and return the clients'
    similarity."""
    world = SimulatedWorld(data, model, local)
    stream = Stream(seed, 0, "portrait")
    most = max(2, min(CLIENTS, data.clients, _MEMORY // (BYTES_PER_NUMBER * model.spec.parameters)))
    places = np.linspace(0, data.clients - 1, min(most, data.clients))
    ids = np.unique(places.round().astype(np.int64))
    # The traffic counts as evaluation, not as a method's.
    with world.ledger.scoring():
        start = world.initial(stream)[None]
        first_model = np.zeros(len(ids), np.int64)
        one_epoch = dataclasses.replace(local, epochs=1, steps=None)
        reply = train(world, start, ids, first_model, work=one_epoch, stream=stream)
    ids = ids[reply.arrived]
    updates = reply.update[reply.arrived]
    if not len(ids):
        raise ModelError("no client's update was finite; try a smaller local.lr")
    scores = principal_scores(updates, 1)[:, :2]
    shares = np.zeros(2)
    shares[: scores.shape[1]] = explained_variance(updates)[: scores.shape[1]]
    # With a single principal component, the second coordinate of the map is 0.
    scores = np.pad(scores, ((0, 0), (0, 2 - scores.shape[1])))
    names = None if data.client_names is None else tuple(data.client_names)
    cosines = cosine(updates, updates).astype(np.float32)
    return ClientSimilarity(
        ids=ids,
        scores=scores,
        explained=shares,
        cosines=cosines,
        label_counts=data.label_counts(),
        true_clusters=data.true_clusters,
        names=names,
    )


def _local_training(settings: Description) -> LocalTraining:
    """The local training in the description of a run that was started from Python."""
    names = {entry.name for entry in dataclasses.fields(LocalTraining)}
    return LocalTraining.from_settings(
        {n: value for n, value in settings.local.items() if n in names}
    )


def _same(run: Run, data: FederatedData, model: AnyModel) -> bool:
    """Whether data and model are those of the run, by their fingerprint (digest). True if the run
    has stored no fingerprint."""
    if not run.fingerprint:
        return True
    return fingerprint(run.config, data_digest(data), model_digest(model, data)) == run.fingerprint


def _key(run: Run) -> str:
    """A digest of all settings on which the similarity depends, and of the last round if data
    shift. A stored similarity with another key is of another run."""
    settings = {
        name: run.config.sections.get(name)
        for name in ("data", "model", "local", "shift", "scenario")
    }
    rounds = run.records[-1]["round"] if run.config.shift else 0
    return digest([_LAYOUT, settings, run.config.seed, rounds, len(run.assignment)])


def _pack(similarity: ClientSimilarity, key: str) -> bytes:
    """A client similarity as the bytes of the file in which it is stored."""
    arrays = {name: getattr(similarity, name) for name in _ARRAYS}
    if similarity.true_clusters is not None:
        arrays["true_clusters"] = similarity.true_clusters
    return encode({"key": key, "note": similarity.note, "names": similarity.names}, arrays)


def _load(path: Path, key: str) -> ClientSimilarity | None:
    """Read a client similarity from a file. None if the file is invalid or belongs to another
    run."""
    try:
        header, arrays = decode(path.read_bytes())
        if header["key"] != key:
            return None
        names = None if header["names"] is None else tuple(map(str, header["names"]))
        similarity = ClientSimilarity(
            ids=arrays["ids"],
            scores=arrays["scores"],
            explained=arrays["explained"],
            cosines=arrays["cosines"],
            label_counts=arrays["label_counts"],
            true_clusters=arrays.get("true_clusters"),
            names=names,
            note=header["note"],
        )
    except (OSError, ValueError, KeyError):
        return None
    n = len(similarity.ids)
    # The file may be damaged, or of a version with other contents.
    fits = similarity.cosines.shape == (n, n) and similarity.scores.shape == (n, 2)
    return similarity if fits else None
