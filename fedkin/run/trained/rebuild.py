"""Rebuilding of a finished run's method, model and data from its folder. It is checked that data
and model are the same as in the run."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float64

from fedkin.config.description import Description
from fedkin.config.server import DataDescription
from fedkin.core.errors import CheckpointError
from fedkin.core.method import Method
from fedkin.data.digest import data_digest
from fedkin.data.federated import FederatedData
from fedkin.data.files import is_table_file
from fedkin.data.table_scaling import with_transform
from fedkin.data.table_transform import NONE, TableTransform
from fedkin.run.folder.client_table import Columns
from fedkin.run.folder.data_path import located, with_backbone
from fedkin.run.folder.environment_file import read_environment
from fedkin.run.folder.fingerprint import (
    environment,
    environment_changes,
    fingerprint,
    model_digest,
)
from fedkin.run.folder.kept_label_statistics import kept_label_statistics
from fedkin.run.folder.run_folder import main_folder
from fedkin.run.folder.transform_file import read_transform
from fedkin.run.trained.ingredients import Ingredients, parts_of

_log = logging.getLogger("fedkin")
_CURE = (
    "test samples could be among the samples that the run trained on. Restore the original data. "
    "For other data, use run.evaluate(data=...) or `fedkin evaluate RUN --data FILE`"
)


def parts_again(
    config: Description,
    folder: Path | None,
    identity: str,
    model: Any = None,
    method: Method | None = None,
    backbone: str | Path | None = None,
) -> Ingredients:
    """Rebuild a run's method, model and data from its description, and check that data and model
    are the same.

    Args:
        config: the run's description.
        folder: the run's folder. A relative path of the data starts at the folder in which the run
            was started.
        identity: the run's fingerprint.
        model, method: as for ``parts_of``. If the model is given, a difference from the run's data
            or model only causes a warning.
        backbone: folder of the backbone of adapters; None: where the run had it.

    Raises:
        CheckpointError: the data or model differ from the run's, although the environment (e.g.
            versions of libraries) is the same.
        ConfigError, DataError: as for ``parts_of``.
    """
    stored = read_environment(folder)
    transform = read_transform(folder)
    placed = located(config, folder, stored)
    if model is None or backbone is not None:
        placed = with_backbone(placed, backbone)
    loadable = _as_scaled(placed, folder, transform)
    parts = _with_transform(parts_of(loadable, model, method=method), transform)
    parts = _with_labels(parts, kept_label_statistics(main_folder(folder)))
    if isinstance(parts.samples, FederatedData) and not _is_own(config, parts, identity):
        what = config.data.get("path") or config.data_name
        # The fingerprint also depends on versions (e.g. of JAX). If they have changed, another
        # fingerprint does not prove that the data have changed.
        changes = environment_changes(stored, environment(config))
        if not changes and model is None:
            raise CheckpointError(f"{what} has changed since the run, so {_CURE}")
        _log.warning(
            "%s: it cannot be checked that these data are the run's training data (%s)",
            what,
            changes or "the model was given",
        )
    return parts


def _as_scaled(
    config: Description, folder: Path | None, transform: TableTransform | None
) -> Description:
    """A run's description that scales the columns of a table as the run did.

    Args:
        config: the description, as in the run's config.toml.
        folder: the run's folder.
        transform: the run's transform; None if the run has not changed any column.
    """
    data = config.data
    if data.get("name") != "file":
        return config
    if transform is not None and data.get("scale_from") is not None:
        # The run's own copy is used, since the file with the statistics may have changed.
        if transform.encoding is not None:
            return config.with_sections({"data": {**data, "scale_from": transform.values()}})
        numbers = {
            "mean": dict(zip(transform.columns, transform.mean, strict=True)),
            "scale": dict(zip(transform.columns, transform.scale, strict=True)),
        }
        return config.with_sections({"data": {**data, "scale_from": numbers}})
    is_unscaled = folder is not None and transform is None and "scale" not in data
    if is_unscaled and is_table_file(str(data.get("path", ""))):
        # Earlier versions of fedkin did not scale tables.
        return config.with_sections({"data": {**data, "scale": NONE}})
    return config


def _with_transform(parts: Ingredients, transform: TableTransform | None) -> Ingredients:
    """The parts of a run whose data have the run's scaling, also if the data have changed since the
    run."""
    samples = parts.samples
    if transform is not None and isinstance(samples, DataDescription):
        # The sites have agreed on the scaling when the run began.
        return replace(parts, samples=replace(samples, transform=transform))
    if transform is None or not isinstance(samples, FederatedData):
        return parts
    if samples.transform == transform or samples.feature_names is None:
        return parts
    own = None if samples.transform is None else samples.transform.encoding
    if own != transform.encoding:
        # The features are others; the fingerprint tells that the data have changed.
        return parts
    return replace(parts, samples=with_transform(samples, transform))


def _with_labels(parts: Ingredients, statistics: Float64[np.ndarray, "L"] | None) -> Ingredients:
    """The parts of a run whose labels have the statistics that its server has computed with the
    sites; None if it has computed none."""
    samples = parts.samples
    if statistics is None or not isinstance(samples, DataDescription):
        return parts
    task_type = samples.task_type.with_statistics(statistics)
    return replace(parts, samples=replace(samples, task_type=task_type))


def _is_own(config: Description, parts: Ingredients, identity: str) -> bool:
    """Whether rebuilt data and model are those of the run, by its fingerprint; True if the
    fingerprint is unknown (empty), since nothing can be compared then."""
    return (
        not identity
        or fingerprint(config, data_digest(parts.data), model_digest(parts.model, parts.data))
        == identity
    )


def check_given(config: Description, parts: Ingredients, clients: Columns, identity: str) -> None:
    """Compare given data and model with the run's, and log a warning if they differ.

    Args:
        config: the run's description.
        parts: the run's method, and the given data and model.
        clients: the columns of the run's table of evaluated clients.
        identity: the run's fingerprint.

    Raises:
        CheckpointError: the clients have other names.
    """
    check_names(parts, clients)
    if isinstance(parts.samples, FederatedData) and not _is_own(config, parts, identity):
        _log.warning("%s: data or model differ from the run's, so %s", parts.data.name, _CURE)


def check_names(parts: Ingredients, clients: Columns) -> None:
    """Raise CheckpointError if the clients of the data have other names than the run's clients.

    Args:
        parts: the run's method and model, and the data to check.
        clients: the columns of the run's table of evaluated clients.
    """
    if not isinstance(parts.samples, FederatedData):
        return
    names = parts.data.client_names
    if (
        names is not None
        and "name" in clients
        and len(names) > int(clients["client"].max(initial=-1))
    ):
        for number, name in zip(clients["client"].tolist(), clients["name"].tolist(), strict=True):
            if str(names[number]) != str(name):
                raise CheckpointError(
                    f"the client at position {number} is {name!r} in the run, but "
                    f"{names[number]!r} in these data; give the run's own data, or use "
                    "run.evaluate(data=...) for other data, whose clients are matched by name"
                )
