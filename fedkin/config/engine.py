"""What computes the clients of a simulation: this process, or a cluster."""

from __future__ import annotations

from fedkin.core.errors import ConfigError


def check_engine(engine: str | None) -> str | None:
    """The engine: None for this process, ``ray``, or ``ray:`` and an address. Raises ConfigError for anything else."""
    if engine is not None and engine != "ray" and not (isinstance(engine, str) and engine.startswith("ray:")):
        raise ConfigError(f"expected the engine ray, or ray: and the address of a cluster (ray:auto), got {engine!r}")
    return engine


def check_sums(sum_by_actor: bool, engine: str | None) -> bool:
    """Whether actors add up the updates of their clients. Raises ConfigError where no engine has actors."""
    if sum_by_actor and engine is None:
        raise ConfigError("run.sum_by_actor is for actors: set run.engine=ray")
    return sum_by_actor
