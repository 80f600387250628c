"""Checks of calls against the model, before anything is computed."""

from __future__ import annotations

import numpy as np
from jaxtyping import Int

from fedkin.core.errors import ConfigError, ModelError
from fedkin.core.world import LocalTraining
from fedkin.simulation.workers import AnyModel


def check_ids(ids: Int[np.ndarray, "N"] | None, clients: int) -> Int[np.ndarray, "N"]:
    """The numbers of the clients in streams: 0 .. N-1 by default.

    Raises:
        ConfigError: not one for each client, or not ascending from 0 up.
    """
    if ids is None:
        return np.arange(clients)
    if len(ids) != clients or ids.min(initial=0) < 0 or (np.diff(ids) <= 0).any():
        raise ConfigError(f"ids must be one number for each of {clients} clients, ascending from 0 up, got {ids}")
    return ids


def check_work(
    model: AnyModel, work: LocalTraining, model_index: Int[np.ndarray, "n"] | None, gradient: bool = False
) -> None:
    """Refuse (ModelError) training that does not fit: detectors need a class each, other models none.

    Args:
        model: the model.
        work: the local training; ``positive`` has the classes of detectors.
        model_index: model of each row; None, which detectors do not allow, for the one with the lowest loss.
        gradient: whether full gradients are requested, which detectors do not have.
    """
    detects = model.spec.detects
    if detects != (work.positive is not None) or (detects and (model_index is None or gradient)):
        raise ModelError(
            f"model {model.name!r} is {'a' if detects else 'no'} detector of one class among all: method athena trains "
            "detectors, and the other methods train models with a score for every class"
        )


def check_detects(model: AnyModel, detects: bool) -> None:
    """Refuse (ModelError) an operation that is not defined for detectors, or for detectors only."""
    if model.spec.detects != detects:
        expected = "a detector" if detects else "a model with a score for every class"
        raise ModelError(f"model {model.name!r} does not support this operation, which needs {expected}")


def check_scoring(model: AnyModel, model_index: Int[np.ndarray, "n ..."], classes: int) -> None:
    """Refuse (ModelError) scoring that does not fit: detectors are scored together, other models one by one.

    Args:
        model: the model.
        model_index: model of each row, [n]; of detectors [n C], one of each class.
        classes: C.
    """
    expected = (classes,) if model.spec.detects else ()
    if model_index.shape[1:] != expected:
        raise ModelError(
            f"model {model.name!r} is {'a' if model.spec.detects else 'no'} detector: detectors are scored together, "
            f"one of each of {classes} classes, and other models one by one; got shape {model_index.shape}"
        )
