"""FedSim's non-IID index (PNI): a measure of client heterogeneity without access to the data."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float, Float32, Float64, Int

from fedkin.config.schema import check_integer
from fedkin.core.errors import MethodError
from fedkin.core.model_spec import BYTES_PER_NUMBER
from fedkin.core.object_repr import client_list
from fedkin.core.randomness import Stream
from fedkin.core.world import World
from fedkin.data.federated import FederatedData
from fedkin.measures.pni import client_pni
from fedkin.simulation.engine import SimulatedWorld
from fedkin.simulation.workers import AnyModel
from fedkin.tasks.label_errors import LabelErrors

_PORTION = 64 * 2**20  # bytes of models in one request
_AT_ONCE = 16  # models in one request, since their predictions are in memory at the same time


@dataclass(frozen=True)
class NonIIDIndex:
    """The non-IID index of a federation, and the errors it is computed from.

    Entry i of an array belongs to client i. It is NaN if the client did not reply or has not joined
    yet. Such clients are left out when the index and its means are computed.
    """

    pni: float  # mean of PNI_i over clients and models
    clients: Float64[np.ndarray, "N"]  # PNI_i, mean over models
    rmse: Float64[np.ndarray, "N D"]  # error of the class numbers that each random model predicts
    models: int  # D, the number of random models

    @property
    def missing(self) -> int:
        """Number of clients that did not reply. Without them the index is smaller, since it grows
        as sqrt(N)."""
        return int(np.isnan(self.clients).sum())

    @property
    def by_model(self) -> Float64[np.ndarray, "D"]:
        """The index computed from each random model separately."""
        return _client_indices(self.rmse[~np.isnan(self.clients)]).mean(axis=0)

    def summary(self) -> dict[str, Any]:
        """The index as plain JSON values, without the errors by model. A client that did not reply
        is None."""
        clients = [None if np.isnan(index) else index for index in self.clients.tolist()]
        shown = {"pni": self.pni, "models": self.models, "missing": self.missing}
        return {**shown, "by_model": self.by_model.tolist(), "clients": clients}


def non_iid_index(
    data: FederatedData, model: AnyModel, *, models: int = 1, seed: int = 0
) -> NonIIDIndex:
    """Compute the privacy-preserving non-IID index (PNI) of data and a model (Palihawadana et al.
    2022, section 3.3).

    Random models are sent to the clients; each replies with the root mean square error RMSE_i of
    the class *numbers* that a model predicts on its training samples (eq. 16), and sends nothing
    else. PNI_i is the root of the sum over all other clients j of (RMSE_i - RMSE_j)^2 (eq. 17), PNI
    their mean (eq. 18).

    The index has no unit and no upper bound. It grows with the number of clients as sqrt(N), and
    depends on the numbering of the classes and on the random model. Compare only indices with the
    same model, number of clients and numbering. A single random model may give a value far from the
    mean. The paper averages over 100 seeds, but does not say which random numbers they seed.

    Args:
        data: the clients' data.
        model: the kind of the random models, such as ``fk.models.mclr(data)``.
        models: D, number of random models to average over, drawn with ``seed``, ``seed + 1``, ...
        seed: seed of the first random model.

    Raises:
        ConfigError: ``models`` is below 1, or the seed is invalid.
        ModelError: the model does not fit the data.

    Examples:
        >>> import fedkin as fk
        >>> data = fk.data.digits(clients=6)
        >>> index = fk.non_iid_index(data, fk.models.mclr(data), models=2)
        >>> index.rmse.shape
        (6, 2)
    """
    return index_of_world(SimulatedWorld(data, model), models=models, seed=seed)


def index_of_world(world: World, *, models: int = 1, seed: int = 0) -> NonIIDIndex:
    """Compute the non-IID index, as :func:`non_iid_index`, for the clients that a world has in
    round 0.

    The traffic counts as evaluation (``scoring.label_errors`` on the ledger), not as the method's.

    Args:
        world: the simulated clients, such as ``fk.SimulatedWorld(data, model)``.
        models: D, number of random models to average over.
        seed: seed of the first random model.

    Raises:
        ConfigError: ``models`` is below 1, or the seed is invalid.
        MethodError: no client sent a reply.
    """
    check_integer("models", models, 1)
    check_integer("seed", seed, 0)
    clients = world.clients(0)
    rmse = np.full((world.total_clients, models), np.nan)
    # The traffic counts as evaluation, since no method causes it.
    with world.ledger.scoring():
        replies = [
            world.run(LabelErrors(portion), clients).error
            for portion in _random_models(world, models, seed)
        ]
    rmse[clients] = np.concatenate(replies, axis=1)
    return _index(rmse)


def _random_models(world: World, models: int, seed: int) -> Iterator[Float32[np.ndarray, "k P"]]:
    """Yield the random models whose errors give the index, in batches of bounded memory."""
    portion = min(_AT_ONCE, max(1, _PORTION // (world.spec.parameters * BYTES_PER_NUMBER)))
    for first in range(seed, seed + models, portion):
        seeds = range(first, min(first + portion, seed + models))
        drawn = [world.initial(Stream(model_seed, 0, "non-iid index")) for model_seed in seeds]
        yield np.stack(drawn).astype(np.float32)


def _index(rmse: Float64[np.ndarray, "N D"]) -> NonIIDIndex:
    """The non-IID index, computed from the errors of all clients. The error of a client that did
    not reply is NaN."""
    replied: Int[np.ndarray, "n"] = np.flatnonzero(np.isfinite(rmse).all(axis=1))
    if not len(replied):
        raise MethodError(f"the index needs replies, but none of {len(rmse)} clients replied")
    clients = np.full(len(rmse), np.nan)
    clients[replied] = _client_indices(rmse[replied]).mean(axis=1)
    return NonIIDIndex(
        pni=float(clients[replied].mean()), clients=clients, rmse=rmse, models=rmse.shape[1]
    )


def _client_indices(rmse: Float64[np.ndarray, "n D"]) -> Float64[np.ndarray, "n D"]:
    """PNI_i of each client, for each model separately."""
    return np.stack([client_pni(column) for column in rmse.T], axis=1)


def index_table(index: NonIIDIndex) -> pd.DataFrame:
    """A table that describes the index, with one row for each quantity: the index, its spread over
    models and over clients, the errors, and the numbers of models and clients."""
    by_model = index.by_model
    errors = index.rmse[~np.isnan(index.clients)].mean(axis=1)
    deviation = f"{by_model.std(ddof=1):.4g}" if len(by_model) > 1 else "-"
    rows = {
        "non-IID index (PNI)": f"{index.pni:.4g}",
        "random models": f"{index.models:,}",
        "index by model, min / median / max": _spread(by_model),
        "index by model, standard deviation": deviation,
        "clients": f"{len(index.clients):,}",
        "clients without a reply": f"{index.missing:,}",
        "index of a client, min / median / max": _spread(index.clients),
        "error of a client, min / median / max": _spread(errors),
    }
    return pd.DataFrame({"value": rows}).rename_axis("quantity")


def _spread(values: Float[np.ndarray, "_"]) -> str:
    """Minimum, median and maximum of the values that are not NaN, as text."""
    numbers = values[~np.isnan(values)]
    shown = (numbers.min(), np.median(numbers), numbers.max())
    return " / ".join(f"{number:.4g}" for number in shown)


def extreme_clients(index: NonIIDIndex, data: FederatedData) -> pd.DataFrame:
    """A table with three rows: the client with the lowest index, the one with the median index, and
    the one with the highest index."""
    # NaN sorts last, so clients that did not reply are cut off.
    order = np.argsort(index.clients, kind="stable")[: len(index.clients) - index.missing]
    places = {"lowest": 0, "median": (len(order) - 1) // 2, "highest": len(order) - 1}
    rows = [_row(label, int(order[place]), index, data) for label, place in places.items()]
    return pd.DataFrame(rows)


def _row(label: str, client: int, index: NonIIDIndex, data: FederatedData) -> dict[str, Any]:
    """A client's row in the table of ``extreme_clients``. ``label`` says whether its index is the
    lowest, the median or the highest."""
    counts = data.label_counts(clients=np.array([client]))[0]
    return {
        "index": label,
        "client": client_list([client], data.client_names),
        "training samples": f"{counts.sum():,}",
        "classes": f"{np.count_nonzero(counts):,}",
        "error": f"{index.rmse[client].mean():.4g}",
        "PNI_i": f"{index.clients[client]:.4g}",
    }
