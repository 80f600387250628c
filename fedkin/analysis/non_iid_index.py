"""How far clients differ, asked of them without seeing their data: the non-IID index of FedSim."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float, Float32, Float64, Int

from fedkin.config.schema import check_integer
from fedkin.core.errors import MethodError
from fedkin.core.randomness import Stream
from fedkin.core.world import BYTES_PER_NUMBER, World
from fedkin.data.federated import FederatedData
from fedkin.measures.pni import client_pni
from fedkin.simulation.engine import SimulatedWorld
from fedkin.simulation.workers import AnyModel

_PORTION = 64 * 2**20  # bytes of models that one question may hold
_AT_ONCE = 16  # models of one question: what they predict of all samples is held at once


@dataclass(frozen=True)
class Heterogeneity:
    """The non-IID index of a federation, and what it was made of. Row i is client i; a client that gave no answer, or
    is not there yet, has NaN and is left out of everything else."""

    pni: float  # mean of PNI_i over clients and models
    clients: Float64[np.ndarray, "N"]  # PNI_i, mean over models
    rmse: Float64[np.ndarray, "N D"]  # of the class numbers that each of D random models predicts
    models: int  # D

    @property
    def missing(self) -> int:
        """How many clients gave no answer. The index is smaller without them: it grows as sqrt(N)."""
        return int(np.isnan(self.clients).sum())

    @property
    def by_model(self) -> Float64[np.ndarray, "D"]:
        """The index that each random model alone gives."""
        return _client_indices(self.rmse[~np.isnan(self.clients)]).mean(axis=0)

    def summary(self) -> dict[str, Any]:
        """Everything but the single errors, as JSON can hold it; None for a client that gave no answer."""
        clients = [None if np.isnan(index) else index for index in self.clients.tolist()]
        shown = {"pni": self.pni, "models": self.models, "missing": self.missing}
        return {**shown, "by_model": self.by_model.tolist(), "clients": clients}


def non_iid_index(data: FederatedData, model: AnyModel, *, models: int = 1, seed: int = 0) -> Heterogeneity:
    """The privacy-preserving non-IID index (PNI) of any data and model (Palihawadana et al. 2022, section 3.3).

    Random models are sent to the clients; each answers with the root mean square error RMSE_i of the class *numbers*
    that a model predicts on its training samples, and with nothing else (eq. 16). PNI_i is the root of the sum over
    all other clients j of (RMSE_i - RMSE_j)^2 (eq. 17), PNI their mean (eq. 18).

    It has no unit and no upper end: it grows with the number of clients, as sqrt(N), and depends on how the classes
    are numbered and on the random model. So compare like with like: the same model, the same number of clients, the
    same numbering. The paper averages 100 seeds and does not say of what;
    one random model alone may be far off.

    Args:
        model: what the random models look like, such as ``fk.models.mclr(data)``.
        models: D, random models to average over, drawn with ``seed``, ``seed + 1``, ...

    Raises:
        ConfigError: ``models`` below 1, or a seed that is none.
        ModelError: a model that does not fit the data.
    """
    return heterogeneity(SimulatedWorld(data, model), models=models, seed=seed)


def heterogeneity(world: World, *, models: int = 1, seed: int = 0) -> Heterogeneity:
    """As :func:`non_iid_index`, asked of the clients that a world has in round 0. The bytes are the experimenter's own
    (``scoring.label_errors`` on the ledger), not a method's.

    Raises:
        ConfigError: ``models`` below 1, or a seed that is none.
        MethodError: no client gave an answer.
    """
    check_integer("models", models, 1)
    check_integer("seed", seed, 0)
    asked = world.clients(0)
    rmse = np.full((world.total_clients, models), np.nan)
    with world.ledger.scoring():
        answers = [world.label_errors(some, asked) for some in _drawn(world, models, seed)]
    rmse[asked] = np.concatenate(answers, axis=1)
    return _found(rmse)


def _drawn(world: World, models: int, seed: int) -> Iterator[Float32[np.ndarray, "k P"]]:
    """The random models, in portions of bounded memory."""
    portion = min(_AT_ONCE, max(1, _PORTION // (world.spec.parameters * BYTES_PER_NUMBER)))
    for first in range(seed, seed + models, portion):
        seeds = range(first, min(first + portion, seed + models))
        yield np.stack([world.initial(Stream(one, 0, "non-iid index")) for one in seeds]).astype(np.float32)


def _found(rmse: Float64[np.ndarray, "N D"]) -> Heterogeneity:
    answered: Int[np.ndarray, "n"] = np.flatnonzero(np.isfinite(rmse).all(axis=1))
    if not len(answered):
        raise MethodError(f"the index needs answers, and none of {len(rmse)} clients gave one")
    clients = np.full(len(rmse), np.nan)
    clients[answered] = _client_indices(rmse[answered]).mean(axis=1)
    return Heterogeneity(float(clients[answered].mean()), clients, rmse, rmse.shape[1])


def _client_indices(rmse: Float64[np.ndarray, "n D"]) -> Float64[np.ndarray, "n D"]:
    """PNI_i for each model."""
    return np.stack([client_pni(column) for column in rmse.T], axis=1)


def figures(found: Heterogeneity) -> pd.DataFrame:
    """The index in figures: one row per quantity (its index), one column."""
    each, errors = found.by_model, found.rmse[~np.isnan(found.clients)].mean(axis=1)
    rows = {
        "non-IID index (PNI)": f"{found.pni:.4g}",
        "random models": f"{found.models:,}",
        "index by model, min / median / max": _spread(each),
        "index by model, standard deviation": f"{each.std(ddof=1):.4g}" if len(each) > 1 else "-",
        "clients": f"{len(found.clients):,}",
        "clients without an answer": f"{found.missing:,}",
        "index of a client, min / median / max": _spread(found.clients),
        "error of a client, min / median / max": _spread(errors),
    }
    return pd.DataFrame({"value": rows}).rename_axis("quantity")


def _spread(values: Float[np.ndarray, "_"]) -> str:
    known = values[~np.isnan(values)]
    return " / ".join(f"{number:.4g}" for number in (known.min(), np.median(known), known.max()))


def extremes(found: Heterogeneity, data: FederatedData) -> pd.DataFrame:
    """The clients with the lowest, the median and the highest index, one row each."""
    order = np.argsort(found.clients, kind="stable")[: len(found.clients) - found.missing]  # NaN is last
    places = {"lowest": 0, "median": (len(order) - 1) // 2, "highest": len(order) - 1}
    rows = [_row(which, int(order[place]), found, data) for which, place in places.items()]
    return pd.DataFrame(rows)


def _row(which: str, client: int, found: Heterogeneity, data: FederatedData) -> dict[str, Any]:
    counts = data.label_counts(clients=np.array([client]))[0]
    return {
        "index": which,
        "client": f"{client}" if data.client_names is None else f"{client} ({data.client_names[client]})",
        "training samples": f"{counts.sum():,}",
        "classes": f"{np.count_nonzero(counts):,}",
        "error": f"{found.rmse[client].mean():.4g}",
        "PNI_i": f"{found.clients[client]:.4g}",
    }
