"""Export of models from the folder of a finished or unfinished run."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from fedkin.config import registry
from fedkin.core.errors import ConfigError
from fedkin.core.site_names import stored_names
from fedkin.data.client_names import ClientNames
from fedkin.export.model_card import NO_OPTIONS, CardOptions
from fedkin.run.folder import checkpoint, run_folder
from fedkin.run.folder.resuming import how_to_resume
from fedkin.run.run import SUMMARY, Run
from fedkin.run.trained.exporting import export
from fedkin.run.trained.models import TrainedModels
from fedkin.run.trained.rebuild import parts_again


def export_folder(
    run: Path,
    path: Path,
    format: str,
    last_checkpoint: bool = False,
    with_backbone: bool = False,
    backbone: Path | None = None,
    options: CardOptions = NO_OPTIONS,
) -> Path:
    """Write the models of a stored run into a new folder.

    Args:
        run: the run's folder.
        path: the new folder.
        format: ``safetensors``, ``torch`` or ``onnx``; for adapters also ``peft`` or ``merged``.
        last_checkpoint: whether to use the models of the last checkpoint, even if the run is
            unfinished.
        with_backbone: whether to copy the backbone of adapters into the folder.
        backbone: folder of the backbone of adapters, if it is not where the run had it.
        options: what the user says about the cards.

    Returns:
        The path of the model card.

    Raises:
        ConfigError: the run is unfinished and ``last_checkpoint`` is False, or the run was started
            from Python, so that its model and data must be given to ``Run.load``.
        CheckpointError: the folder holds no run, or the run's data have changed since it ran.
        MethodError, ModelError, MissingExtra, StorageError: as ``export``.
    """
    config = run_folder.read_config(run)
    finished = (run / SUMMARY).exists()
    has_several_seeds = config.seeds is not None
    if not finished and not last_checkpoint and not has_several_seeds:
        raise ConfigError(
            f"{run} holds a run that is not finished; {how_to_resume(run, config)}, or export its "
            "last checkpoint (--checkpoint)"
        )
    # For a run of several seeds, ``Run.load`` says which of its folders can be exported.
    if not last_checkpoint or has_several_seeds:
        return Run.load(run, backbone=backbone).export(
            path, format, with_backbone, license=options.license, card_clients=options.clients
        )
    # A checkpoint names the class of its state, which must be imported before it is read.
    registry.define_states(config.method_name)
    newest, digest = checkpoint.newest(run / run_folder.CHECKPOINTS)
    parts = parts_again(config, run, digest, backbone=backbone)
    # The names of real clients are not in the data, but in the checkpoint.
    of_data = getattr(parts.samples, "client_names", None)
    names = ClientNames.of(of_data or stored_names(newest.memory))
    trained = TrainedModels(
        method=config.method_with_options,
        parts=parts,
        state=newest.state,
        memory=newest.memory,
        named_clients=np.arange(len(names)),
        names=names,
        seed=config.seed,
        rounds=newest.round,
    )
    return export(
        trained,
        config,
        clients=None,
        digest=digest,
        path=path,
        format=format,
        with_backbone=with_backbone,
        options=options,
        finished=finished,
    )
