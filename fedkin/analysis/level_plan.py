"""How the models of a comparison of clusters and levels are trained."""

from __future__ import annotations

from dataclasses import dataclass

from fedkin.config.schema import check_integer
from fedkin.core.errors import ConfigError
from fedkin.core.training import SGD, LocalTraining

_WHOLE = 10**6  # a batch of this size holds all samples of a client


@dataclass(frozen=True)
class LevelPlan:
    """How the models of a comparison of clusters and levels are trained.

    Attributes:
        clusters: candidates for the number of clusters; 1 is always one of them.
        starts: starts of the clustered method, for each number of clusters. Every second one is
            random, and the others are clusters of local models.
        rounds: communication rounds, in which all clients take part.
        rates: learning rates; the one with the lowest validation loss of FedAvg is used.
        epochs: local epochs.
        batch_size: samples of a batch; None for all samples of a client.

    Raises:
        ConfigError: a number is below 1 or no integer, or there is no learning rate.

    Examples:
        >>> import fedkin as fk
        >>> fk.LevelPlan(clusters=(2, 3), starts=1, rounds=20).starts
        1
    """

    clusters: tuple[int, ...] = (2, 3, 4)
    starts: int = 4
    rounds: int = 60
    rates: tuple[float, ...] = (0.3, 0.1, 0.03)
    epochs: int = 1
    batch_size: int | None = None

    def __post_init__(self) -> None:
        for name in ("starts", "rounds", "epochs"):
            check_integer(name, getattr(self, name), 1)
        if self.batch_size is not None:
            check_integer("batch_size", self.batch_size, 1)
        for clusters in self.clusters:
            check_integer("clusters", clusters, 1)
        if not self.rates:
            raise ConfigError("rates has no learning rate; for example rates=(0.3, 0.1, 0.03)")

    def local(self, rate: float) -> LocalTraining:
        """The local training with a learning rate. Gradients are cut to norm 5, so that a client
        with large features does not diverge."""
        batch_size = self.batch_size or _WHOLE
        return SGD(epochs=self.epochs, batch_size=batch_size, lr=rate, clip_norm=5.0)
