"""Settings of local training: epochs, mini-batches, optimiser, learning rate and loss."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from fedkin.core.errors import ConfigError, unknown
from fedkin.core.plain import plain_options
from fedkin.core.schedule import Schedule, read_schedule

# Upper limits of counts. They bound the list of all steps, which must fit in memory.
_MOST = {"epochs": 1_000_000, "steps": 1_000_000, "batch_size": 2**31 - 1}
OPTIMIZERS = ("sgd", "adam", "adamw")
_SCHEDULES = ("schedule", "step_schedule")
# Descriptions and messages name these options only if they are used.
_LATER = (
    "weight_decay",
    "nesterov",
    "clip_norm",
    "schedule",
    "step_schedule",
    "label_smoothing",
    "class_weights",
    "precision",
)
# Ranges of the other numbers: the first bound is included, the second is not.
_RANGES = {
    "lr": (0, np.inf),
    "mu": (0, np.inf),
    "momentum": (0, 1),
    "weight_decay": (0, np.inf),
    "label_smoothing": (0, 1),
    "clip_norm": (0, np.inf),
}


@plain_options
@dataclass(frozen=True)
class LocalTraining:
    """Settings of local training. If a field is an array, it has one entry for each row (a client
    that trains), so that clients can have different values.

    A step takes the gradient of the mini-batch's loss and FedProx's term, clips it to
    ``clip_norm``, and adds ``weight_decay`` times w (sgd and adam). The optimiser turns this into a
    direction, to which ``weight_decay`` times w is added (adamw). The direction is multiplied by
    the learning rate of the round and the step. The optimiser's state starts at zero in every local
    training. docs/training.md says which of this follows Optax and which PyTorch.

    Examples:
        >>> import fedkin as fk
        >>> work = fk.LocalTraining(epochs=5, lr=0.05, clip_norm=1.0)
        >>> work.epochs, work.batch_size, work.optimizer
        (5, 10, 'sgd')
    """

    epochs: int | Int[np.ndarray, "n"] = 1
    batch_size: int = 10
    lr: float = 0.01
    optimizer: str = "sgd"  # or "adam", "adamw"
    momentum: float = 0.0  # momentum of sgd
    mu: float = 0.0  # strength of FedProx's proximal term, mu/2 |w - w_start|^2
    steps: int | None = None  # mini-batches, instead of epochs
    # Whether a client that runs out of time sends the steps it has done. If not, it sends nothing.
    partial: bool = False
    # The class that a detector learns to separate from all others.
    positive: Int[np.ndarray, "n"] | None = None
    weight_decay: float | int = 0.0  # added to the gradient; for adamw, to the direction
    nesterov: bool = False  # Nesterov momentum, for sgd with momentum
    # Maximum gradient norm over all parameters; None: no limit.
    clip_norm: float | int | None = None
    schedule: Schedule | None = None  # learning rate over communication rounds
    step_schedule: Schedule | None = None  # learning rate over the steps of one call
    label_smoothing: float = 0.0  # share of a label that is spread over all classes
    # Class weights in the loss; "balanced": from the client's labels; None: equal weights.
    class_weights: tuple[float, ...] | str | None = None
    # Precision of a network's arithmetic in training: "bfloat16"; None: float32.
    precision: str | None = None

    @property
    def count(self) -> int:
        """The number of epochs (or steps) of the first row (a client that trains)."""
        return int(np.asarray(self.requested).flat[0])

    @property
    def requested(self) -> int | Int[np.ndarray, "n"]:
        """The number of epochs (or steps) of each row; one number if all rows have the same."""
        return self.epochs if self.steps is None else self.steps

    def select(self, rows: Int[np.ndarray, "r"]) -> LocalTraining:
        """The settings of the rows (clients that train) with the given indices."""
        by_row = {
            name: getattr(self, name)[rows]
            for name in ("epochs", "positive")
            if isinstance(getattr(self, name), np.ndarray)
        }
        return replace(self, **by_row) if by_row else self

    def rate(self, round: int) -> float:
        """The learning rate of a communication round. Round 0 has the rate of round 1."""
        return float(
            self.lr if self.schedule is None else self.lr * self._factors(self.schedule, round)[0]
        )

    def step_rates(self, round: int, steps: int) -> Float[np.ndarray, "steps"] | None:
        """The learning rate of each local step of a client with ``steps`` steps. None: all steps
        use ``rate(round)``."""
        if self.step_schedule is None:
            return None
        return self.rate(round) * self.step_schedule.factors(np.arange(steps), steps)

    def highest_rate(self) -> float:
        """The highest learning rate that the schedules reach, over all rounds and steps."""
        peaks = [
            schedule.peak()
            for schedule in (self.schedule, self.step_schedule)
            if schedule is not None
        ]
        return float(self.lr * np.prod(peaks))

    @staticmethod
    def _factors(schedule: Schedule, round: int) -> Float[np.ndarray, "1"]:
        """The factor by which a schedule over rounds multiplies the learning rate in a round. The
        schedule's steps count from 0, rounds from 1."""
        return schedule.factors(np.array([max(round - 1, 0)]))

    def loss_weights(self, label_counts: Int[np.ndarray, "r C"]) -> Float[np.ndarray, "r C"] | None:
        """The weight of each class in the loss of each client; None: equal weights.

        "balanced" is scikit-learn's rule: samples / (number of the client's classes * samples of
        the class). A class without samples gets the weight 1, which matters only with label
        smoothing.

        Args:
            label_counts: number of training samples of each class, by client.
        """
        if self.class_weights is None:
            return None
        if self.class_weights != "balanced":
            return np.tile(np.array(self.class_weights, np.float32), (len(label_counts), 1))
        present = np.maximum(label_counts, 1) * (label_counts > 0).sum(axis=1, keepdims=True)
        balanced = label_counts.sum(axis=1, keepdims=True) / np.maximum(present, 1)
        return np.where(label_counts > 0, balanced, 1.0).astype(np.float32)

    def check_classes(self, classes: int, detects: bool, numbers: bool = False) -> None:
        """Raise ConfigError if the number of class weights differs from the number of classes, or
        if an option does not apply to detectors or to labels that are numbers.

        Args:
            classes: number of classes.
            detects: whether the model is a detector.
            numbers: whether labels are numbers.
        """
        weights = self.class_weights
        if numbers and (weights is not None or self.label_smoothing):
            option = "label_smoothing" if weights is None else "class_weights"
            raise ConfigError(
                f"local.{option} applies to labels that are classes, and these labels are numbers; "
                f"leave out local.{option}. For outliers set data.loss = 'huber', and for weights "
                "of samples data.weight"
            )
        if isinstance(weights, tuple) and len(weights) != classes:
            raise ConfigError(
                f"local.class_weights must have one number for each of the {classes} classes, got "
                f"{len(weights)}"
            )
        if detects and (weights is not None or self.label_smoothing):
            option = "label_smoothing" if weights is None else "class_weights"
            raise ConfigError(
                f"local.{option} does not apply to detectors, which separate one class from all "
                "others"
            )

    def check_precision(self, model: str, untrained: bool) -> None:
        """Raise ConfigError if training in bfloat16 would round parameters that are averaged over
        clients but not trained.

        Args:
            model: the model's name.
            untrained: whether the model has running statistics or frozen parameters.
        """
        if self.precision is not None and untrained:
            raise ConfigError(
                f"local.precision = {self.precision} does not support model {model!r}, because its "
                "running statistics or frozen parameters would be rounded; remove the option, or "
                "use a model with group normalisation"
            )

    def settings(self) -> dict[str, Any]:
        """The settings by name, with schedules as tables. Options that the first version of fedkin
        did not have are included only if they are set (``without_unused``)."""
        values = {name: getattr(self, name) for name in self.__dataclass_fields__}
        values |= {n: s.settings() for n, s in values.items() if isinstance(s, Schedule)}
        return without_unused(values)

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any]) -> LocalTraining:
        """Create local training from a table of settings.

        Args:
            settings: as returned by ``settings()``, or as in a configuration, where a schedule may
                be a name.

        Raises:
            ConfigError: an unknown option, or a value out of range.
        """
        for name in settings:
            if name not in cls.__dataclass_fields__:
                raise ConfigError(
                    f"local training: {unknown('option', str(name), cls.__dataclass_fields__)}"
                )
        options = dict(settings)
        for name in _SCHEDULES:
            if name in settings:
                options[name] = read_schedule(settings[name], name)
        if settings.get("class_weights") is not None:
            options["class_weights"] = _read_weights(settings["class_weights"])
        return cls(**options)

    def __post_init__(self) -> None:
        for name in _SCHEDULES:
            if not isinstance(getattr(self, name), Schedule | None):
                raise ConfigError(f"{name} must be a Schedule, got {getattr(self, name)!r}")
        # Class weights may also be a list or an array.
        object.__setattr__(self, "class_weights", _read_weights(self.class_weights))
        for name in ("epochs", "batch_size", "steps"):
            value = getattr(self, name)
            if not (name == "steps" and value is None) and not _is_count(value, _MOST[name]):
                raise ConfigError(
                    f"{name} must be an integer from 1 to {_MOST[name]:,}, got {value}"
                )
        # Classes count from 0, but ``_is_count`` from 1.
        if self.positive is not None and self.positive.size and not _is_count(self.positive + 1):
            raise ConfigError(
                "positive (the class of each detector) must be integers of at least 0, got "
                f"{self.positive}"
            )
        self._check_numbers()
        self._check_optimizer()
        if self.precision not in (None, "bfloat16"):
            raise ConfigError(
                f"precision must be 'bfloat16', or left out for float32, got {self.precision!r}"
            )
        schedule = self.schedule
        if schedule is None or schedule.length is not None:
            return
        if schedule.name in ("linear", "cosine"):
            raise ConfigError(
                f"schedule: {schedule.name!r} needs length, the number of rounds until its end"
            )

    def _check_numbers(self) -> None:
        """Raise ConfigError if a number among the settings (e.g. ``lr``) is outside its range."""
        for name, (low, high) in _RANGES.items():
            value = getattr(self, name)
            if name == "clip_norm" and value is None:
                continue
            positive = name in ("lr", "clip_norm")
            numeric = isinstance(value, (int, float, np.number)) and not isinstance(value, bool)
            if not numeric or not low <= value < high or (positive and not value):
                kind = "number in [0, 1)" if high == 1 else "number from 0 up"
                if positive:
                    kind = "positive number"
                raise ConfigError(f"{name} must be a {kind}, got {value!r}")

    def _check_optimizer(self) -> None:
        """Raise ConfigError for an unknown optimiser, and for a momentum that the optimiser does
        not have."""
        if self.optimizer not in OPTIMIZERS:
            raise ConfigError(f"optimizer must be 'sgd', 'adam' or 'adamw', got {self.optimizer!r}")
        if self.optimizer != "sgd" and self.momentum:
            raise ConfigError(
                f"momentum = {self.momentum} does not apply to {self.optimizer}, which has its own "
                "moments; remove it"
            )
        if not isinstance(self.nesterov, (bool, np.bool_)):
            raise ConfigError(f"nesterov must be true or false, got {self.nesterov!r}")
        if self.nesterov and not self.momentum:
            raise ConfigError(
                f"nesterov needs optimizer 'sgd' with a momentum above 0, got {self.optimizer!r} "
                "with 0"
            )


def without_unused(values: Mapping[str, Any]) -> dict[str, Any]:
    """Remove options from a table of settings if they are not set and the first version of fedkin
    did not have them. The table then equals one that an earlier version has stored."""
    return {name: value for name, value in values.items() if name not in _LATER or value}


def _read_weights(value: Any) -> tuple[float, ...] | str | None:
    """Class weights as a tuple, "balanced" or None. Raises ConfigError for any other value."""
    if value is None or (isinstance(value, str) and value == "balanced"):
        return value
    if isinstance(value, str):
        raise ConfigError(f"class_weights: {unknown('rule', value, ['balanced'])}")
    try:
        weights = tuple(float(weight) for weight in value)
    except (TypeError, ValueError):
        weights = ()
    if not weights or not all(0 < weight < np.inf for weight in weights):
        raise ConfigError(
            f"class_weights must be 'balanced' or a number above 0 for each class, got {value!r}"
        )
    return weights


def _is_count(value: object, most: int = 2**31 - 1) -> bool:
    """Whether a value is an integer from 1 to ``most``, or an array of them."""
    array = np.asarray(value)
    return bool(
        np.issubdtype(array.dtype, np.integer)
        and array.size
        and 1 <= array.min() <= array.max() <= most
    )


def SGD(  # noqa: N802
    epochs: int = 1, batch_size: int = 10, lr: float = 0.01, momentum: float = 0.0, **options: Any
) -> LocalTraining:
    """Local training by mini-batch stochastic gradient descent.

    Args:
        epochs: passes over a client's training samples.
        batch_size: samples of a mini-batch.
        lr: learning rate.
        momentum: in [0, 1).
        options: further fields of ``LocalTraining``: ``weight_decay``, ``nesterov``, ``clip_norm``,
            ``schedule``, ``step_schedule``, ``label_smoothing``, ``class_weights``, ``precision``.

    Raises:
        ConfigError: an unknown option, or a value out of range.

    Examples:
        >>> import fedkin as fk
        >>> work = fk.SGD(epochs=5, lr=0.05, weight_decay=1e-4)
        >>> work.optimizer, work.weight_decay
        ('sgd', 0.0001)
    """
    given = {"epochs": epochs, "batch_size": batch_size, "lr": lr, "momentum": momentum}
    return LocalTraining.from_settings({**given, **options})


def Adam(  # noqa: N802
    epochs: int = 1, batch_size: int = 32, lr: float = 1e-3, **options: Any
) -> LocalTraining:
    """Local training by Adam (Kingma & Ba 2015), whose moments start at zero in every local
    training.

    Args:
        epochs: passes over a client's training samples.
        batch_size: samples of a mini-batch.
        lr: learning rate.
        options: as for ``SGD``, except ``nesterov``. Weight decay is added to the gradient (see
            ``AdamW``).

    Raises:
        ConfigError: as ``SGD``.

    Examples:
        >>> import fedkin as fk
        >>> work = fk.Adam(epochs=2, lr=0.002)
        >>> work.optimizer, work.batch_size
        ('adam', 32)
    """
    given = {"epochs": epochs, "batch_size": batch_size, "lr": lr, "optimizer": "adam"}
    return LocalTraining.from_settings({**given, **options})


def AdamW(  # noqa: N802
    epochs: int = 1,
    batch_size: int = 32,
    lr: float = 1e-3,
    weight_decay: float = 0.01,
    **options: Any,
) -> LocalTraining:
    """Local training by Adam with decoupled weight decay (Loshchilov & Hutter 2019).

    Args:
        epochs: passes over a client's training samples.
        batch_size: samples of a mini-batch.
        lr: learning rate.
        weight_decay: in every step, the parameters w are reduced by ``lr * weight_decay * w``. The
            default is PyTorch's (Optax: 1e-4).
        options: as for ``Adam``.

    Raises:
        ConfigError: as ``SGD``.

    Examples:
        >>> import fedkin as fk
        >>> work = fk.AdamW(weight_decay=0.1)
        >>> work.optimizer, work.lr, work.weight_decay
        ('adamw', 0.001, 0.1)
    """
    given = {
        "epochs": epochs,
        "batch_size": batch_size,
        "lr": lr,
        "optimizer": "adamw",
        "weight_decay": weight_decay,
    }
    return LocalTraining.from_settings({**given, **options})
