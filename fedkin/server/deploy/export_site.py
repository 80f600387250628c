"""Export of the models that a site has stored: its cluster's model, and the same model after the
site's last local training."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from fedkin.config import registry
from fedkin.config.schema import error_context
from fedkin.config.server import ClientConfig
from fedkin.core.codec import decode
from fedkin.core.columns import CommonScaling
from fedkin.core.errors import ConfigError, ModelError
from fedkin.data.federated import FederatedData
from fedkin.data.table_transform import TableTransform, scaling_transform
from fedkin.export.folder import ModelEntry, write
from fedkin.export.formats import MLFLOW
from fedkin.export.model_card import NO_OPTIONS, CardOptions
from fedkin.export.predictor import Predictor
from fedkin.server.column_messages import scaling_in
from fedkin.server.deploy.build_node import labelled_values, scaled_values
from fedkin.service.mlflow_folder import INNER, write_mlflow
from fedkin.simulation.torch import wrap_module
from fedkin.task_types.task_type import TaskType

_SUFFIX = "-models.safetensors"


def export_site(
    config: ClientConfig,
    path: Path,
    format: str,
    with_backbone: bool = False,
    options: CardOptions = NO_OPTIONS,
) -> Path:
    """Write the models that a site stored in its newest run.

    ``cluster`` is the model of the site's cluster. ``personal`` is the cluster's model after the
    site's last local training.

    Args:
        config: configuration of the site.
        path: path of a new folder.
        format: ``safetensors``, ``torch`` or ``onnx``; for adapters also ``peft`` or ``merged``.
        with_backbone: whether to copy the backbone of adapters into the folder.
        options: what the user says about the cards.

    Returns:
        The path of the model card.

    Raises:
        ConfigError: the site has stored no model.
        DataError: the site's table exists but cannot be read.
        ModelError, MissingExtra, StorageError: as in ``export.folder.write``.
    """
    site = config.site
    described = config.data_description()
    run, arrays = _newest(Path(site.folder), site.name)
    samples = replace(
        described,
        feature_names=_feature_names(config),
        transform=_transform(config, described.transform, scaling_in(arrays)),
        task_type=_task_type(config, described.task_type, scaling_in(arrays)),
    )
    with error_context("model"):
        model = wrap_module(config.model.make(samples))
    labels = config.data_values.get("label_names") or config.samples.labels
    entries = []
    for name in ("cluster", "personal"):
        if name not in arrays:
            continue
        if arrays[name].shape != (model.spec.parameters,):
            raise ModelError(
                f"{site.folder}: {run} has stored models with {arrays[name].size} parameters, but "
                f"[model] has {model.spec.parameters}; give [model] the run's settings"
            )
        predictor = Predictor(
            name=name,
            model=model,
            vectors=arrays[name][None],
            samples=samples,
            label_names=labels,
        )
        entries.append(ModelEntry(predictor, [site.name] if name == "cluster" else []))
    columns = config.samples.columns() or {
        "label": config.data_values.get("label") or "y",
        "client": config.data_values.get("client") or "client_id",
    }
    if config.data_values.get("event") is not None:
        columns["event"] = config.data_values["event"]
    facts = {
        "method": None,
        "data": site.name,
        "columns": columns,
        "model": config.model.values,
        "run": run,
    }
    if config.samples.words is not None:
        facts["words"] = config.samples.words
    write_as = partial(write, entries, facts, with_backbone=with_backbone, options=options)
    if format == MLFLOW:
        return write_mlflow(partial(write_as, format=INNER), path)
    return write_as(path, format=format)


def _feature_names(config: ClientConfig) -> tuple[str, ...] | None:
    """The site's feature columns in training order; None if the data are missing or not a table."""
    data = config.data_values
    if config.samples.features:
        return tuple(config.samples.features)
    if data.get("name") != "file" or Path(data["path"]).suffix == ".npz":
        return None
    if data.get("features"):
        return tuple(map(str, data["features"]))
    if not Path(data["path"]).is_file():
        return None
    return _own_table(config).feature_names


def _transform(
    config: ClientConfig, described: TableTransform | None, received: CommonScaling | None
) -> TableTransform | None:
    """How the site's table is renamed and scaled.

    Args:
        config: configuration of the site.
        described: the scaling in [samples]. Without the table it is the only one that is known.
        received: the scaling that the server has computed and sent with the models; None if it has
            sent none.
    """
    data = config.data_values
    columns = None if received is None or received.mean is None else received
    if columns is not None and config.samples.features is not None:
        return scaling_transform(columns, config.samples.features, data.get("rename"))
    changes = described is not None or data.get("scale_from") or data.get("rename")
    if not changes or data.get("name") != "file" or not Path(data["path"]).is_file():
        return described
    return _own_table(config).transform


def _own_table(config: ClientConfig) -> FederatedData:
    """The site's table, as it is read for training."""
    values = labelled_values(config, config.data_values)
    return registry.make(registry.datasets(), scaled_values(config, values))


def _task_type(
    config: ClientConfig, described: TaskType, received: CommonScaling | None
) -> TaskType:
    """What the labels are, with the statistics that the server has sent with the models. Of a
    forecast, with the scales of the site's own series; without the table they are unknown."""
    if described.by_time:
        path = Path(str(config.data_values.get("path", "")))
        return _own_table(config).task_type if path.is_file() else described
    if received is None or received.labels is None:
        return described
    return described.with_statistics(received.labels)


def _newest(folder: Path, site: str) -> tuple[str, dict[str, np.ndarray]]:
    """The run whose models were stored last: its name, and its models by name."""

    def age(file: Path) -> tuple[int, str]:
        return file.stat().st_mtime_ns, file.name

    files = sorted(folder.glob(f"*{_SUFFIX}"), key=age)
    if not files:
        raise ConfigError(
            f"{folder} holds no model of {site}: a site stores its cluster's model when it takes "
            "part in a run and has a single client; otherwise the server's run folder has the "
            "models (fedkin export RUN)"
        )
    newest = files[-1]
    try:
        return newest.name.removesuffix(_SUFFIX), decode(newest.read_bytes()).arrays
    except (OSError, ValueError) as error:
        raise ConfigError(f"{newest} cannot be read: {error}") from error
