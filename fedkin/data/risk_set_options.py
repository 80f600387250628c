"""How patients become risk sets (``fedkin.data.survival``)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from fedkin.core.errors import ConfigError
from fedkin.core.plain import plain
from fedkin.data.survival import check_ties
from fedkin.task_types.survival import BRESLOW, DRAWS

_LEAST = {"at_risk": 2, "draws": 1}  # smallest values


@dataclass(frozen=True)
class RiskSetOptions:
    """How risk sets are made.

    Attributes:
        at_risk: number of places for patients in a sample.
        draws: number of training samples for each event.
        ties: treatment of events at the same time: ``breslow`` or ``efron``.
        seed: seed of the draws.
    """

    at_risk: int = 8
    draws: int = DRAWS
    ties: str = BRESLOW
    seed: int = 0

    def __post_init__(self) -> None:
        for name, least in _LEAST.items():
            if getattr(self, name) < least:
                raise _wrong_number(name, getattr(self, name))
        check_ties(self.ties)

    @classmethod
    def of(cls, loss_options: Mapping[str, Any] | None, seed: int = 0) -> RiskSetOptions:
        """The options that a user gives as ``loss_options`` of the loss ``cox``.

        Args:
            loss_options: values of ``at_risk``, ``draws`` and ``ties``, by name.
            seed: seed of the draws.

        Raises:
            ConfigError: an option is unknown or out of range.
        """
        given = {name: value for name, value in (loss_options or {}).items() if value is not None}
        known = [field.name for field in fields(cls) if field.name != "seed"]
        for name in given:
            if name not in known:
                raise ConfigError(
                    f"{name} does not apply to loss = 'cox'; it has {', '.join(known)}"
                )
        # The user's values may have any type.
        for name in _LEAST.keys() & given.keys():
            given[name] = plain(given[name])
            if isinstance(given[name], bool) or not isinstance(given[name], int):
                raise _wrong_number(name, given[name])
        given["ties"] = str(given.get("ties", cls.ties))
        return cls(**given, seed=seed)


def _wrong_number(name: str, value: Any) -> ConfigError:
    """The error about a number of places or draws that is impossible."""
    return ConfigError(f"{name} must be an integer of at least {_LEAST[name]}, got {value!r}")
