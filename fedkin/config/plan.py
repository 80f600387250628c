"""Settings classes of a run: cohort, evaluation, compute resources, and the whole section [run]."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any, Literal, get_args

from pydantic import Field, field_validator, model_validator

from fedkin.config.schema import Goal, NotNegative, Positive, Values, settings, toml_values
from fedkin.core.errors import ConfigError
from fedkin.core.randomness import Stream
from fedkin.measures.measure import Measure

Selection = Literal["uniform", "round_robin", "poisson", "seed_plus_round"]
SELECTIONS: tuple[str, ...] = get_args(Selection)
_ENGINES = "expected the engine ray, or ray: with the address of a cluster (ray:auto)"


@settings("cohort")
class Cohort:
    """The number of clients in a round, and how they are drawn.

    Args:
        size: n, clients per round.
        selection: ``uniform`` draws without replacement. ``round_robin`` lets all clients take
            turns once, in the order of their ids, and draws uniformly from then on, as FlexCFL's
            code does. ``poisson`` draws each client with probability n / N, independently of the
            others, so that the size of the cohort varies and may be 0. ``seed_plus_round`` draws
            the cohort of round r from NumPy's legacy generator with the seed ``seed`` + r - 1, as
            FedProx's and FedSim's code does. Runs of neighbouring seeds then share their cohorts.

    Examples:
        >>> import fedkin as fk
        >>> fk.Cohort(10, selection="round_robin")
        Cohort(size=10, selection='round_robin')
    """

    size: Positive
    selection: Selection = "uniform"


@settings("scoring", kw_only=True)
class Scoring:
    """Intervals of evaluation and checkpoints, metrics, and early stopping.

    The last round is always evaluated and saved.

    Args:
        evaluate_every: rounds from one evaluation to the next. 0: only after the last round.
        checkpoint_every: rounds from one checkpoint to the next.
        keep_checkpoints: whether all checkpoints stay in the run's folder, not only the newest two.
            ``fk.forget`` then repeats fewer rounds and fewer clusters.
        target: score for ``rounds_to_target`` in the summary: an accuracy (a share), or an error in
            units of the label, which is reached from above.
        global_model: whether to evaluate the mean of the cluster models as well.
        patience: the run stops after this many rounds without a better score on validation samples.
            The data must have a validation split (``data.with_validation(0.1)``).
        until: the run stops at the first round that reaches this score, as ``target`` is reached,
            and in which every reachable client has a cluster.
        evaluate_clients: number of clients that are evaluated in each round before the last. They
            are a random sample stratified by cluster, which gives a 95% interval of the accuracy
            (``run.metrics.evaluation_sample``). None: all clients.
        sample_at_end: whether the last round is also limited to this sample. The final accuracy is
            then an estimate.
        measures: the user's measures for evaluated rounds (``fk.Measure(...)``, or
            ``"module:Measure"``).

    Examples:
        >>> import fedkin as fk
        >>> scoring = fk.Scoring(evaluate_every=5, target=0.8)
        >>> scoring.evaluate_every, scoring.target
        (5, 0.8)
    """

    evaluate_every: NotNegative = 1
    checkpoint_every: Positive = 10
    keep_checkpoints: bool = False
    target: Goal | None = None
    global_model: bool = False
    patience: Positive | None = None
    until: Goal | None = None
    evaluate_clients: Positive | None = None
    sample_at_end: bool = False
    measures: Any = ()

    @field_validator("measures", mode="before")
    @classmethod
    def _listed(cls, value: Any) -> Any:
        """Convert one measure or several to a tuple, since a generator can be read only once."""
        if isinstance(value, (str, Measure)):
            return (value,)
        if isinstance(value, type) or not isinstance(value, Iterable):
            raise ValueError("expected fk.Measure(...), or a list of such measures")
        return tuple(value)


@settings("compute", kw_only=True)
class Compute:
    """Compute resources of a simulation. They do not change results, except where the text below
    says that the last bits differ.

    A run that is resumed must have the same ``clients_per_batch`` and ``sum_by_actor``.

    Args:
        devices: number of devices. None: all devices.
        clients_per_batch: number of clients that a device trains at once. None: 1 on a CPU, and the
            fastest number on other devices. More than 1 changes the last bits.
        engine: ``ray``, or ``ray:`` and the address of a cluster, to use Ray actors. None: this
            process.
        actors: number of Ray actors. None: one on each machine, or one on each core of a single
            machine.
        sum_by_actor: whether each actor sends the sum of its clients' updates instead of every
            update. This reduces traffic, and changes the last bits.

    Examples:
        >>> import fedkin as fk
        >>> compute = fk.Compute(devices=1, clients_per_batch=4)
        >>> compute.devices, compute.clients_per_batch
        (1, 4)
    """

    devices: Positive | None = None
    clients_per_batch: Positive | None = None
    engine: str | None = None
    actors: Positive | None = None
    sum_by_actor: bool = False

    @field_validator("engine")
    @classmethod
    def _known_engine(cls, value: str | None) -> str | None:
        """Check that the engine is None, ``ray``, or ``ray:`` with an address."""
        if not _is_engine(value):
            raise ValueError(_ENGINES)
        return value

    @model_validator(mode="after")
    def _actors_that_sum(self) -> Compute:
        """Check that ``sum_by_actor`` is set only if Ray actors compute the clients."""
        if self.sum_by_actor and self.engine is None:
            raise ValueError("sum_by_actor: needs the actors of Ray; set engine to ray")
        return self


@settings("run")
class Plan(Scoring):
    """Length of a run, cohort, seed and evaluation.

    Args:
        rounds: T, communication rounds.
        cohort: n, clients per round.
        seed: seed of all random numbers except those for data, privacy noise and masks.
        selection: ``uniform`` draws without replacement; ``round_robin`` lets all clients take
            turns once, then draws uniformly; ``poisson`` draws each client with probability
            cohort / clients, so that sizes vary; ``seed_plus_round`` draws as FedSim's code.
    """

    rounds: Positive
    cohort: Positive
    seed: NotNegative = 0
    selection: Selection = "uniform"

    def evaluates(self, round: int) -> bool:
        """Whether clients are evaluated after this round."""
        if round == self.rounds:
            return True
        return self.evaluate_every > 0 and round % self.evaluate_every == 0

    def sample(self, last: bool) -> tuple[int, Stream] | None:
        """The number of clients to evaluate, and the random stream that draws them; None: all
        clients.

        Args:
            last: whether this is the last round, which evaluates all clients unless
                ``sample_at_end``.
        """
        if self.evaluate_clients is None or (last and not self.sample_at_end):
            return None
        # The stream is the same in every round, so that the sample changes only with the clusters
        # and the reachable clients.
        return self.evaluate_clients, Stream(self.seed, 0, "evaluation/sample")

    def checkpoints(self, round: int) -> bool:
        """Whether a checkpoint is written after this round."""
        return round % self.checkpoint_every == 0 or round == self.rounds


@settings("run", kw_only=True)
class RunSettings(Plan, Compute):
    """The section [run]: the plan, compute resources, number of seeds, and compared methods.

    Args:
        rounds: T, communication rounds.
        cohort: n, clients per round.
        seeds: number of seeds. The run is repeated with ``seed``, ``seed`` + 1 and so on, and its
            methods are compared statistically.
        against: compared methods, as names or tables.
        measures: import paths of the user's measures, "module:Measure".
    """

    rounds: Positive = 50
    cohort: Positive = 10
    seeds: Positive | None = None
    against: list[str | Values] = Field(default_factory=list)
    measures: list[str | Values] | None = None

    @field_validator("against", "measures", mode="before")
    @classmethod
    def _listed(cls, value: Any) -> Any:
        """Split a text into a list of names, since the command line allows
        ``run.against=fedavg,ifca`` and ``run.measures=a:B,a:C``."""
        if not isinstance(value, str):
            return value
        return [name.strip() for name in value.split(",") if name.strip()]

    @classmethod
    def of(
        cls, rounds: int, cohort: int | Cohort, seed: int, *, scoring: Scoring, compute: Compute
    ) -> RunSettings:
        """The settings of a run that is started from Python, without the user's measures.

        Args:
            rounds: T, the number of communication rounds.
            cohort: size and selection of cohorts.
            seed: the run's seed.
            scoring: evaluation settings.
            compute: compute resources.
        """
        values = _fields(scoring, Scoring) | _fields(compute, Compute)
        values["measures"] = None
        if isinstance(cohort, Cohort):
            values["selection"] = cohort.selection
            cohort = cohort.size
        return cls(rounds=rounds, cohort=cohort, seed=seed, **values)

    @property
    def values(self) -> Values:
        """The settings as TOML values, with the most important keys first."""
        values = toml_values(self)
        first = ("rounds", "cohort", "selection", "seed", "against")
        return {key: values[key] for key in first if key in values} | values

    @property
    def compute(self) -> Compute:
        """The compute resources."""
        return Compute(**_fields(self, Compute))


def _fields(settings: Scoring | Compute, kind: type[Scoring] | type[Compute]) -> dict[str, Any]:
    """The values of those settings that are fields of the class ``kind``, by name."""
    return {field.name: getattr(settings, field.name) for field in dataclasses.fields(kind)}


def check_engine(engine: str | None) -> None:
    """Raise ConfigError for an invalid engine. Valid engines are None (this process), ``ray``, and
    ``ray:`` with an address."""
    if not _is_engine(engine):
        raise ConfigError(f"{_ENGINES}, got {engine!r}")


def _is_engine(engine: object) -> bool:
    """Whether a value is a valid engine: None (this process), ``ray``, or ``ray:`` with an
    address."""
    return (
        engine is None or engine == "ray" or (isinstance(engine, str) and engine.startswith("ray:"))
    )
