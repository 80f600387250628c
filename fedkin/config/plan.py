"""The settings of a run, each declared once: its plan, how it is scored, and what computes it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any, Literal, get_args

from pydantic import Field, field_validator, model_validator

from fedkin.config.schema import NotNegative, Positive, Share, Values, settings, toml_values
from fedkin.core.errors import ConfigError
from fedkin.core.randomness import Stream
from fedkin.measures.measure import Measure

Selection = Literal["uniform", "round_robin", "poisson"]
SELECTIONS: tuple[str, ...] = get_args(Selection)
_ENGINES = "expected the engine ray, or ray: and the address of a cluster (ray:auto)"


@settings("cohort")
class Cohort:
    """How many clients take part in a round, and how they are drawn.

    Args:
        size: n, clients per round.
        selection: ``uniform`` draws without replacement. ``round_robin`` lets all clients take
            turns once, in the order of their ids, and draws uniformly from then on, as FlexCFL's
            code does. ``poisson`` draws each client with probability n / N, independently of the
            others, so that sizes vary and may be 0.
    """

    size: Positive
    selection: Selection = "uniform"


@settings("scoring", kw_only=True)
class Scoring:
    """How often a run is scored and kept, what is measured, and what ends it early.

    The last round is always scored and kept.

    Args:
        evaluate_every: rounds from one evaluation to the next. 0: only after the last.
        checkpoint_every: rounds from one checkpoint to the next.
        target: accuracy for ``rounds_to_target`` in the summary.
        global_model: whether the mean of the cluster models is scored, too
            (``run.metrics.accuracy.global_record`` says what is recorded).
        patience: the run stops after so many rounds without a better score on validation samples.
            The data must have a validation split (``data.with_validation(0.1)``).
        until: the run stops at the first round that reaches this score and in which every reachable
            client has a cluster.
        evaluate_clients: how many clients are scored in a round before the last: a sample drawn by
            cluster, with the 95% interval of the accuracy that it shows
            (``run.metrics.evaluation_sample``). None: all.
        sample_at_end: whether the last round scores no more than these, either. The final accuracy
            is an estimate then.
        measures: the user's own (``fk.Measure(...)``, or ``"module:Measure"``), of the rounds that
            are scored.
    """

    evaluate_every: NotNegative = 1
    checkpoint_every: Positive = 10
    target: Share | None = None
    global_model: bool = False
    patience: Positive | None = None
    until: Share | None = None
    evaluate_clients: Positive | None = None
    sample_at_end: bool = False
    measures: Any = ()

    @field_validator("measures", mode="before")
    @classmethod
    def _listed(cls, value: Any) -> Any:
        """One measure, or several, as a tuple: a generator could be read once only."""
        if isinstance(value, (str, Measure)):
            return (value,)
        if isinstance(value, type) or not isinstance(value, Iterable):
            raise ValueError("expected fk.Measure(...), or a list of them")
        return tuple(value)


@settings("compute", kw_only=True)
class Compute:
    """What computes the clients of a simulation. No number depends on it, but for the last bits
    where it says so.

    Args:
        devices: how many to use. None: all.
        clients_per_batch: how many clients a device computes at once. None: 1 on a CPU, the fastest
            number elsewhere.
        engine: ``ray``, or ``ray:`` and the address of a cluster: the actors of Ray compute the
            clients. None: this process does.
        actors: how many actors of Ray. None: one on each machine, or one on each core where there
            is one machine.
        sum_by_actor: whether each actor sends the sum of its clients' updates instead of every
            update. There is less traffic, and last bits differ.
    """

    devices: Positive | None = None
    clients_per_batch: Positive | None = None
    engine: str | None = None
    actors: Positive | None = None
    sum_by_actor: bool = False

    @field_validator("engine")
    @classmethod
    def _known_engine(cls, value: str | None) -> str | None:
        if not _is_engine(value):
            raise ValueError(_ENGINES)
        return value

    @model_validator(mode="after")
    def _actors_that_sum(self) -> Compute:
        if self.sum_by_actor and self.engine is None:
            raise ValueError("sum_by_actor: needs the actors of Ray: set engine to ray")
        return self


@settings("run")
class Plan(Scoring):
    """How long a run is, with how many clients, from which seed, and how it is scored.

    Args:
        rounds: T, communication rounds.
        cohort: n, clients per round.
        seed: of all randomness but that of the data, of privacy and of masks.
        selection: how cohorts are drawn (``Cohort``).
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
        """How many clients are scored at most, and the stream of the draw; None for all.

        Args:
            last: after the last round, when all are scored, unless ``sample_at_end``.
        """
        if self.evaluate_clients is None or (last and not self.sample_at_end):
            return None
        return self.evaluate_clients, Stream(self.seed, 0, "evaluation/sample")

    def checkpoints(self, round: int) -> bool:
        """Whether a checkpoint is kept after this round."""
        return round % self.checkpoint_every == 0 or round == self.rounds


@settings("run", kw_only=True)
class RunSettings(Plan, Compute):
    """[run] of a configuration: the plan, what computes it, how many seeds, and against which other
    methods.

    Args:
        rounds: T, communication rounds.
        cohort: n, clients per round.
        seeds: the run is repeated from so many seeds, from ``seed`` on, and compared statistically.
        against: other methods, by name or as tables.
        measures: the user's own: "module:Measure".
    """

    rounds: Positive = 50
    cohort: Positive = 10
    seeds: Positive | None = None
    against: list[str | Values] = Field(default_factory=list)
    measures: list[str | Values] | None = None

    @field_validator("against", "measures", mode="before")
    @classmethod
    def _listed(cls, value: Any) -> Any:
        """``run.against=fedavg,ifca`` on the command line is a list of names; so is
        ``run.measures=a:B,a:C``."""
        if not isinstance(value, str):
            return value
        return [name.strip() for name in value.split(",") if name.strip()]

    @classmethod
    def of(
        cls,
        *,
        rounds: int,
        cohort: int | Cohort,
        seed: int,
        scoring: Scoring,
        compute: Compute,
        measures: Sequence[Values],
    ) -> RunSettings:
        """The settings of a run that is started from Python.

        Args:
            rounds: T.
            cohort: how many clients take part in a round, and how they are drawn.
            seed: of the run.
            scoring: how the run is scored.
            compute: what computes it.
            measures: the entries of the user's own measures.
        """
        values = _fields(scoring) | _fields(compute)
        values["measures"] = list(measures) or None
        if isinstance(cohort, Cohort):
            values["selection"] = cohort.selection
            cohort = cohort.size
        return cls(rounds=rounds, cohort=cohort, seed=seed, **values)

    @property
    def values(self) -> Values:
        """The settings as TOML holds them: first those that a reader looks for first."""
        values = toml_values(self)
        first = ("rounds", "cohort", "selection", "seed", "against")
        return {key: values[key] for key in first if key in values} | values

    @property
    def compute(self) -> Compute:
        """What computes the clients."""
        return Compute(
            **{field.name: getattr(self, field.name) for field in dataclasses.fields(Compute)}
        )


def _fields(settings: Scoring | Compute) -> dict[str, Any]:
    """The fields of settings by name."""
    return {field.name: getattr(settings, field.name) for field in dataclasses.fields(settings)}


def check_engine(engine: str | None) -> None:
    """Refuse (ConfigError) what is no engine: None for this process, ``ray``, or ``ray:`` and an
    address."""
    if not _is_engine(engine):
        raise ConfigError(f"{_ENGINES}, got {engine!r}")


def _is_engine(engine: object) -> bool:
    return (
        engine is None or engine == "ray" or (isinstance(engine, str) and engine.startswith("ray:"))
    )
