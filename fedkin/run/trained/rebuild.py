"""What a finished run was made of, made again from its folder: its data from where they were, and
the same ones."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedkin.config.description import Description
from fedkin.core.errors import CheckpointError
from fedkin.core.method import Method
from fedkin.data.digest import data_digest
from fedkin.data.federated import FederatedData
from fedkin.run.folder.data_path import located
from fedkin.run.folder.fingerprint import (
    environment,
    environment_changes,
    fingerprint,
    model_digest,
)
from fedkin.run.trained.ingredients import Ingredients, parts_of

if TYPE_CHECKING:
    import pandas as pd

_log = logging.getLogger("fedkin")
_CURE = (
    "samples that it trained on could be tested. Put back what it was trained on; for other data, "
    "run.evaluate(data=...) or fedkin evaluate RUN --data FILE"
)


def parts_again(
    config: Description,
    folder: Path | None,
    identity: str,
    model: Any = None,
    method: Method | None = None,
) -> Ingredients:
    """The parts of a run, from its description.

    Args:
        config: the description.
        folder: of the run; a relative path of its data is taken from where the run was started.
        identity: the run's fingerprint.
        model, method: as ``parts_of``; with a given model other data are no more than warned of.

    Raises:
        CheckpointError: data that are not the run's.
        ConfigError, DataError: as ``parts_of``.
    """
    stored = _environment(folder)
    parts = parts_of(located(config, folder, stored), model, method=method)
    if isinstance(parts.samples, FederatedData) and not _is_own(config, parts, identity):
        what = config.data.get("path") or config.data_name
        changes = environment_changes(stored, environment(config))
        if not changes and model is None:
            raise CheckpointError(f"{what} has changed since the run was made, so {_CURE}")
        _log.warning(
            "%s: whether it is what the run was trained on cannot be told (%s)",
            what,
            changes or "its model was given",
        )
    return parts


def _is_own(config: Description, parts: Ingredients, identity: str) -> bool:
    """Whether data and model are those of the run with this fingerprint, if it is known."""
    return (
        not identity
        or fingerprint(config, data_digest(parts.data), model_digest(parts.model, parts.data))
        == identity
    )


def check_given(
    config: Description, parts: Ingredients, clients: pd.DataFrame, identity: str
) -> None:
    """Compare data that were given with those of the run; warn where they are not the same.

    Args:
        config: the run's description.
        parts: with the given data.
        clients: the run's table of scored clients.
        identity: the run's fingerprint.

    Raises:
        CheckpointError: clients of other names.
    """
    check_names(parts, clients)
    if isinstance(parts.samples, FederatedData) and not _is_own(config, parts, identity):
        _log.warning(
            "%s is not what the run was trained on, with this model: %s", parts.data.name, _CURE
        )


def check_names(parts: Ingredients, clients: pd.DataFrame) -> None:
    """Refuse (CheckpointError) data whose clients have other names than those of the run.

    Args:
        parts: with the data.
        clients: the run's table of scored clients.
    """
    if not isinstance(parts.samples, FederatedData):
        return
    names = parts.data.client_names
    if (
        names is not None
        and "name" in clients
        and len(names) > int(clients["client"].to_numpy().max(initial=-1))
    ):
        for number, name in zip(clients["client"], clients["name"], strict=True):
            if str(names[number]) != str(name):
                raise CheckpointError(
                    f"the client at position {number} of the run is {name!r}, and of these data "
                    f"{names[number]!r}; give the run's own data, or run.evaluate(data=...) for "
                    "others, whose clients are matched by name"
                )


def _environment(folder: Path | None) -> dict[str, Any]:
    """The environment.json of a folder; empty where nothing is known."""
    try:
        return {} if folder is None else dict(json.loads((folder / "environment.json").read_text()))
    except (OSError, ValueError, TypeError):
        return {}
