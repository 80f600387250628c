"""The plain address ``POST /predict``: rows and a client in, predictions out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from fedkin.service.json_body import (
    InvalidBodyError,
    check_keys,
    optional_number,
    optional_text,
    rows_of,
)
from fedkin.service.models import LoadedModels, UnknownClientError

_KEYS = ("rows", "client", "clients", "cluster", "labelled")
_LABELLED = ("rows", "labels")


def predicted(served: LoadedModels, body: Mapping[str, Any]) -> dict[str, Any]:
    """The answer of ``POST /predict``.

    Args:
        served: the models.
        body: ``rows``, and ``client`` (of all rows), ``clients`` (one for each row) or
            ``cluster``; to place an unknown client, ``labelled`` with ``rows`` and ``labels``.

    Raises:
        ConfigError: a client or cluster is unknown.
        DataError: rows are not valid.
        ModelError: scores are not finite.
    """
    check_keys(body, _KEYS)
    x = rows_of(body.get("rows"), "rows")
    if body.get("clients") is not None:
        return _by_row(served, x, body)
    placed: dict[str, Any] = {}
    try:
        name = served.name_of(optional_text(body, "client"), optional_number(body, "cluster"))
    except UnknownClientError as error:
        if body.get("labelled") is None:
            raise UnknownClientError(
                f"{error}; give its labelled rows to place it: labelled = {{rows, labels}}, or "
                "name a cluster"
            ) from error
        placement = _placed(served, body["labelled"])
        name = placement.model
        placed = {"placed": {"rule": "lowest loss", **placement._asdict()}}
    model, predictions, probabilities = served.predict(name, x)
    answer: dict[str, Any] = {"model": model, "predictions": predictions}
    if probabilities is not None:
        answer["probabilities"] = probabilities
    return answer | placed


def _placed(served: LoadedModels, labelled: Any) -> Any:
    """The model for a new client with labelled rows."""
    if not isinstance(labelled, dict):
        raise InvalidBodyError("labelled: expected an object with rows and labels")
    check_keys(labelled, _LABELLED)
    return served.place(rows_of(labelled.get("rows"), "labelled.rows"), labelled.get("labels"))


def _by_row(served: LoadedModels, x: Any, body: Mapping[str, Any]) -> dict[str, Any]:
    """Predictions of rows of several clients, each with its client's model."""
    clients = body["clients"]
    others = [key for key in ("client", "cluster", "labelled") if body.get(key) is not None]
    if others:
        raise InvalidBodyError(f"clients cannot be combined with {others[0]}")
    if not isinstance(clients, list) or len(clients) != len(x):
        raise InvalidBodyError(f"clients: expected a list with a client for each of {len(x)} rows")
    named = [optional_text({"clients": client}, "clients") for client in clients]
    if None in named:
        raise InvalidBodyError("clients: expected a name for each row")
    models = np.array([served.name_of(client) for client in named])
    predictions: list[Any] = [None] * len(models)
    probabilities: list[Any] = [None] * len(models)
    for name in np.unique(models):
        positions = np.flatnonzero(models == name)
        rows = x.iloc[positions] if hasattr(x, "iloc") else [x[i] for i in positions]
        found = served.predict(str(name), rows)
        for place, position in enumerate(positions):
            predictions[position] = found.predictions[place]
            if found.probabilities is not None:
                probabilities[position] = found.probabilities[place]
    answer: dict[str, Any] = {"models": models.tolist(), "predictions": predictions}
    if probabilities[0] is not None:
        answer["probabilities"] = probabilities
    return answer
