"""Who computes in a simulated world: the compiled workers of a JAX model, or those that a model brings along.

All else (who is there, who fails, bytes, portions) is the world's own and the same for every kind of model. JAX is
imported where a JAX model is used, and not before: a client of another kind starts without it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float, Int

from fedkin.core.layout import Samples
from fedkin.core.randomness import Stream
from fedkin.core.world import LocalTraining, ModelSpec
from fedkin.data.federated import FederatedData


@runtime_checkable
class AnyModel(Protocol):
    """What everybody may know of a model, of whatever kind."""

    @property
    def name(self) -> str: ...
    @property
    def spec(self) -> ModelSpec: ...

    def initial(self, words: np.ndarray) -> Float[np.ndarray, "P"]:
        """A fresh flat model from two uint32 words of randomness."""
        ...


class Trainer(Protocol):
    """Trains the clients of one data set. Rows are of clients by their place in it."""

    def train(
        self,
        models: Float[np.ndarray, "K P"],
        clients: Int[np.ndarray, "r"],
        model_index: Int[np.ndarray, "r"],
        work: LocalTraining,
        num_steps: Int[np.ndarray, "r"],
        stream: Stream,
        gradient: bool = False,
    ) -> tuple[Float[np.ndarray, "r P"], Float[np.ndarray, "r"], Float[np.ndarray, "r"], Float[np.ndarray, "g P"]]:
        """Updates, mean losses in the last and in the first epoch, and full gradients at the start (no rows if nobody
        asks); ``num_steps`` is epochs, or steps, of each; ``work.positive`` has the classes of these rows' detectors."""
        ...

    def gradients(
        self, models: Float[np.ndarray, "K P"], clients: Int[np.ndarray, "r"], model_index: Int[np.ndarray, "r"]
    ) -> Float[np.ndarray, "r P"]:
        """Gradient of each client's full training loss at its model, in inference mode."""
        ...


class Scorer(Protocol):
    """Scores models on the clients of one data set."""

    def losses(self, models: Float[np.ndarray, "K P"], clients: Int[np.ndarray, "n"]) -> Float[np.ndarray, "n K"]:
        """Mean training losses."""
        ...

    def label_errors(self, models: Float[np.ndarray, "K P"], clients: Int[np.ndarray, "n"]) -> Float[np.ndarray, "n K"]:
        """Root mean square errors of the predicted class numbers, on training samples."""
        ...

    def histograms(
        self,
        models: Float[np.ndarray, "K P"],
        clients: Int[np.ndarray, "n"],
        model_index: Int[np.ndarray, "n"],
        positive: Int[np.ndarray, "n"],
        split: str,
    ) -> Int[np.ndarray, "n 2 bins"]:
        """How each row's detector scores the samples of its class, and the others."""
        ...

    def score(
        self,
        models: Float[np.ndarray, "K P"],
        clients: Int[np.ndarray, "n"],
        model_index: Int[np.ndarray, "n ..."],
        split: str,
    ) -> tuple[Float[np.ndarray, "n"], Float[np.ndarray, "n"], Int[np.ndarray, "n"]]:
        """Correct predictions, summed loss and number of samples of each row."""
        ...


Workers = tuple[Scorer, Trainer]


@runtime_checkable
class BringsWorkers(AnyModel, Protocol):
    """A model that is not of JAX, and brings along whatever computes with it."""

    def check(self, data: Samples) -> ModelSpec:
        """Try the model on one sample: what is known of it then. Raises ModelError where it does not fit."""
        ...

    def workers(self, data: FederatedData, ids: Int[np.ndarray, "N"]) -> Any:
        """Workers on these data; ``ids`` are the numbers by which streams know the clients."""
        ...

    def described(self) -> dict[str, str]:
        """What a run's configuration says of it beside its name and its size."""
        ...

    def digest(self, data: FederatedData) -> str:
        """A digest of what the model computes, as far as that can be told, and of how it starts."""
        ...


def check_samples(model: AnyModel, data: Samples) -> ModelSpec:
    """Try the model on one sample. What is known of it, without its last layer where the last bias is not that of the
    scores. Raises ModelError where it does not fit the data."""
    if isinstance(model, BringsWorkers):
        return model.check(data)
    from fedkin.simulation import compiled_workers

    return compiled_workers.check_samples(model, data)  # type: ignore[arg-type]


def maker(
    model: AnyModel, ids: Int[np.ndarray, "N"], devices: int | None, clients_per_batch: int | None
) -> Callable[[FederatedData], Workers]:
    """What makes the workers for data, which may move. Devices are XLA's, and so are clients side by side on them."""
    if isinstance(model, BringsWorkers):
        return lambda data: model.workers(data, ids)
    from fedkin.simulation import compiled_workers

    return compiled_workers.maker(model, ids, devices, clients_per_batch)  # type: ignore[arg-type]
