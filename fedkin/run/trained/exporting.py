"""Export of a finished run's models, with a model card."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from fedkin.config.description import Description
from fedkin.core.errors import MethodError
from fedkin.core.method import UNASSIGNED
from fedkin.export.folder import ModelEntry, score_facts, share_facts, write
from fedkin.export.formats import MLFLOW
from fedkin.export.model_card import NO_OPTIONS, CardOptions, ModelScores
from fedkin.export.predictor import Predictor
from fedkin.options import PRIVACY_STATEMENT, SECTIONS
from fedkin.run.folder.client_table import Columns
from fedkin.run.trained.models import TrainedModels
from fedkin.service.mlflow_folder import INNER, write_mlflow


def export(
    trained: TrainedModels,
    config: Description,
    clients: Columns | None,
    digest: str,
    path: Path,
    format: str,
    with_backbone: bool = False,
    options: CardOptions = NO_OPTIONS,
    finished: bool = True,
) -> Path:
    """Write the models of a run into a new folder, with a model card.

    Args:
        trained: the run's trained models.
        config: the run's description.
        clients: the columns of the table of evaluated clients; None if there is none yet.
        digest: the run's fingerprint.
        path: the new folder.
        format: ``safetensors``, ``torch`` or ``onnx``; for adapters also ``peft`` or ``merged``.
        with_backbone: whether to copy the backbone of adapters into the folder.
        options: what the user says about the cards.
        finished: whether the run has ended, for the cards.

    Returns:
        The path of the model card.

    Raises:
        MethodError: no client has a cluster.
        ConfigError, ModelError, MissingExtra, StorageError: as ``export.folder.write``.
    """
    predictors = trained.all()
    if not predictors:
        raise MethodError(
            f"{trained.method}: no client has a cluster yet, so there is no model to export"
        )
    data = config.data
    facts = {
        "method": config.method,
        **{
            name: config.section(name)
            for name, section in SECTIONS.items()
            if section.titles and config.section(name)
        },
        "data": data["name"],
        "columns": {
            "label": _named(data, "label", "y"),
            "client": _named(data, "client", "client_id"),
        }
        | (getattr(trained.parts.samples, "columns", None) or {}),
        "model": None if config.from_python else config.model,
        "rounds": trained.rounds,
        "seed": trained.seed,
        "finished": finished,
        "run": digest,
        "without_cluster": [
            trained.client_name(int(i)) for i in np.flatnonzero(_assignment(trained) == UNASSIGNED)
        ],
    }
    vocabulary = getattr(trained.parts.samples, "vocabulary", None)
    facts |= {} if vocabulary is None else {"words": len(vocabulary)}
    entries = [_entry(trained, predictor, clients) for predictor in predictors]
    write_as = partial(write, entries, facts, with_backbone=with_backbone, options=options)
    if format == MLFLOW:
        return write_mlflow(partial(write_as, format=INNER), path)
    return write_as(path, format=format)


def _named(data: dict[str, Any], option: str, default: str) -> str:
    """The name of a column in the run's table of samples: the value of an option of [data] (e.g.
    ``label``), or the default name."""
    return default if data.get(option) is None else str(data[option])


def _assignment(trained: TrainedModels) -> np.ndarray:
    """The final cluster of each of the run's clients."""
    return trained.state.assignment


def _entry(trained: TrainedModels, predictor: Predictor, clients: Columns | None) -> ModelEntry:
    """A model for the export, with the names of its clients and their test accuracy if they were
    evaluated."""
    # Personal models have the name of their client, other models the number of their cluster.
    if predictor.name.startswith("client-"):
        name = predictor.name.removeprefix("client-")
        numbers = [
            number
            for number in range(len(_assignment(trained)))
            if trained.client_name(number) == name
        ]
    else:
        numbers = np.flatnonzero(_assignment(trained) == predictor.cluster).tolist()
    names = [trained.client_name(number) for number in numbers]
    if clients is None:
        return ModelEntry(predictor, names)
    evaluated = np.isin(clients["client"], numbers)
    own = {name: column[evaluated] for name, column in clients.items()}
    samples = own["test_samples"]
    scored = _scores(predictor, own)
    if predictor.predicts_numbers:
        measures = predictor.task_type.measures
        scores = {name: own[name] for name in measures if name in own}
        return ModelEntry(predictor, names, score_facts(scores, samples), scored)
    facts = share_facts(predictor.task_type.measures[0], own["correct"], samples)
    return ModelEntry(predictor, names, facts, scored)


def stored_statement(folder: Path | None) -> dict[str, Any] | None:
    """The privacy statement in a run's folder; None if it has none, or a damaged one."""
    if folder is None:
        return None
    try:
        statement = json.loads((folder / PRIVACY_STATEMENT).read_text())
    except (OSError, ValueError):
        return None
    return statement if isinstance(statement, dict) else None


def _scores(predictor: Predictor, own: Columns) -> ModelScores | None:
    """The scores of a model's clients, from their entries in the columns of all clients; None
    without the score."""
    measure = predictor.task_type.names.score
    if measure not in own:
        return None
    return ModelScores(
        train_samples=own["train_samples"],
        test_samples=own["test_samples"],
        scores=own[measure],
        measure=measure,
        higher_is_better=predictor.task_type.measure.sign > 0,
    )
