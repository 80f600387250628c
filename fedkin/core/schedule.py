"""Learning-rate schedules: factors that multiply a learning rate in each round or local step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from fedkin.core.errors import ConfigError, unknown
from fedkin.core.plain import plain_options

_OPTIONS = {  # options of each schedule; a mark ! means required
    "constant": "",
    "step": "every! gamma!",
    "exponential": "gamma!",
    "linear": "length end",
    "cosine": "length end",
}


@plain_options
@dataclass(frozen=True)
class Schedule:
    """A learning rate over time: ``lr`` times a factor at t = 0, 1, 2 ...

    During a warm-up of W steps the factor rises linearly from ``warmup_start`` to 1; after it, with
    s = t - W and r = min(s / length, 1):

    | name | factor | Optax | torch.optim.lr_scheduler |
    |---|---|---|---|
    | constant | 1 | constant_schedule | - |
    | step | gamma ** (s // every) | exponential_decay(staircase=True) | StepLR |
    | exponential | gamma ** s | exponential_decay | ExponentialLR |
    | linear | 1 + (end - 1) r | linear_schedule | LinearLR |
    | cosine | end + (1 - end) (1 + cos(pi r)) / 2 | cosine_decay_schedule | CosineAnnealingLR |
    | warm-up | warmup_start + (1 - warmup_start) t / W | linear_schedule | LinearLR |

    Args:
        name: a name from the table.
        length: steps from the end of the warm-up to the last step. None: until a client's last
            local step, which is possible only for ``step_schedule``.
        every: number of steps after which the rate drops.
        gamma: factor of each drop.
        end: last factor, as a share of ``lr``; None: 0.
        warmup: W, number of warm-up steps.
        warmup_start: first factor of the warm-up.

    Raises:
        ConfigError: an unknown name, an option that the schedule does not have, a missing option,
            or a value out of range.

    Examples:
        >>> import fedkin as fk
        >>> import numpy as np
        >>> schedule = fk.Schedule("step", every=10, gamma=0.5)
        >>> schedule.factors(np.array([0, 10, 20])).tolist()
        [1.0, 0.5, 0.25]
    """

    name: str = "constant"
    length: int | None = None
    every: int | None = None
    gamma: float | int | None = None
    end: float | int | None = None
    warmup: int = 0
    warmup_start: float | int = 0.1

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or self.name not in _OPTIONS:
            raise ConfigError(unknown("schedule", str(self.name), _OPTIONS))
        options = _OPTIONS[self.name].split()
        applicable = [option.rstrip("!") for option in options]
        required = [option.rstrip("!") for option in options if "!" in option]
        for name in ("length", "every", "gamma", "end"):
            if getattr(self, name) is not None and name not in applicable:
                has = "which has no such option"
                if applicable:
                    has = f"which has {' and '.join(applicable)}"
                raise ConfigError(
                    f"{name} does not apply to the schedule {self.name!r}, {has}; remove it"
                )
            if getattr(self, name) is None and name in required:
                raise ConfigError(f"{name} is required by the schedule {self.name!r}; set it")
        for name, least in (("length", 1), ("every", 1), ("warmup", 0)):
            _check_integer(name, getattr(self, name), least)
        for name, most in (("gamma", np.inf), ("end", np.inf), ("warmup_start", 1)):
            _check_number(name, getattr(self, name), most)
        if self.gamma == 0:
            raise ConfigError("gamma must be a number above 0, got 0")

    def factors(self, t: Int[np.ndarray, "s"], length: int | None = None) -> Float[np.ndarray, "s"]:
        """The schedule's factors at the given steps.

        Args:
            t: steps, counted from 0.
            length: total number of steps, for a schedule without ``length``.
        """
        end = 0.0 if self.end is None else self.end
        # Without a length, the schedule ends at the last step; the warm-up is a part of the steps.
        total = self.length or max((length or 1) - self.warmup, 1)
        s = np.maximum(t - self.warmup, 0).astype(np.float64)
        done = np.minimum(s, total) / total
        factor = {
            "constant": lambda: np.ones(len(s)),
            "step": lambda: np.power(float(self.gamma or 1), s // (self.every or 1)),
            "exponential": lambda: np.power(float(self.gamma or 1), s),
            "linear": lambda: 1 + (end - 1) * done,
            "cosine": lambda: end + (1 - end) * (1 + np.cos(np.pi * done)) / 2,
        }[self.name]()
        rising = self.warmup_start + (1 - self.warmup_start) * t / max(self.warmup, 1)
        return np.where(t < self.warmup, rising, factor)

    def peak(self) -> float:
        """The highest factor of the schedule; infinity if the factor grows without bound."""
        if self.name in ("step", "exponential") and (self.gamma or 1) > 1:
            return np.inf
        return max(1.0, self.end or 0.0)  # no warm-up begins above 1

    def settings(self) -> dict[str, Any]:
        """The schedule's name and its non-default options, as in a TOML configuration."""
        fields = self.__dataclass_fields__.values()
        set_options = {
            f.name: getattr(self, f.name) for f in fields if getattr(self, f.name) != f.default
        }
        return {"name": self.name, **set_options}


def read_schedule(value: Any, place: str) -> Schedule | None:
    """A schedule from its name or from a table of its options. None and a Schedule are returned
    unchanged.

    Args:
        value: the name of a schedule, a table of its options, a Schedule or None.
        place: the name of the setting, for messages.

    Raises:
        ConfigError: another type, an unknown option, or a value that ``Schedule`` refuses.
    """
    if value is None or isinstance(value, Schedule):
        return value
    options: Any = {"name": value} if isinstance(value, str) else value
    if not isinstance(options, dict):
        raise ConfigError(
            f"{place} must be the name of a schedule or a table such as "
            f"{{name = 'cosine', length = 100}}, got {value!r}"
        )
    for name in options:
        if name not in Schedule.__dataclass_fields__:
            raise ConfigError(
                f"{place}: {unknown('option', str(name), Schedule.__dataclass_fields__)}"
            )
    try:
        return Schedule(**options)
    except ConfigError as error:
        raise ConfigError(f"{place}: {error}") from None


def _check_integer(name: str, value: Any, least: int) -> None:
    """Raise ConfigError unless a schedule's option is None or an integer of at least ``least``."""
    whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    if value is not None and not (whole and value >= least):
        raise ConfigError(f"{name} must be an integer of at least {least}, got {value!r}")


def _check_number(name: str, value: Any, most: float | int) -> None:
    """Raise ConfigError unless a schedule's option is None or a finite number from 0 to
    ``most``."""
    number = isinstance(value, (int, float, np.number)) and not isinstance(value, bool)
    if value is not None and not (number and 0 <= value <= most and value < np.inf):
        limit = "" if most == np.inf else f" to {most}"
        raise ConfigError(f"{name} must be a number from 0{limit or ' up'}, got {value!r}")
