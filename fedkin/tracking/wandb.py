"""Tracker for Weights & Biases. It logs offline into the run's folder, unless the user is logged in
or sets $WANDB_MODE."""

from __future__ import annotations

import netrc
import os
from pathlib import Path
from typing import Any

from fedkin.core.records import Record
from fedkin.tracking.optional_import import import_library
from fedkin.tracking.tracker import flat_numbers, outermost_folder


class WandB:
    """Logs each run as a Weights & Biases run; a resumed run keeps its id."""

    def __init__(self) -> None:
        self._wandb = import_library("wandb", "wandb")

    def begin(self, name: str, description: dict[str, Any], folder: Path | None) -> None:
        """Start a Weights & Biases run, or continue it if the run is resumed."""
        assert folder is not None
        # W&B names its folders run-TIME-ID. A resumed run takes the id from the newest one.
        earlier = sorted((folder / "wandb").glob("*run-*-*"))
        mode = os.environ.get("WANDB_MODE") or ("online" if _logged_in() else "offline")
        quiet = self._wandb.Settings(
            silent=True, console="off", x_disable_stats=True, disable_git=True
        )
        self._run = self._wandb.init(
            project=os.environ.get("WANDB_PROJECT", "fedkin"),
            group=outermost_folder(folder).resolve().name,
            name=name,
            id=earlier[-1].name.rsplit("-", 1)[1] if earlier else None,
            resume="allow" if earlier and mode == "online" else None,
            dir=str(folder),
            mode=mode,  # type: ignore[arg-type]
            config=description,
            reinit="create_new",  # keep a run that the caller has open
            settings=quiet,
        )

    def __call__(self, record: Record) -> None:
        """Log the numbers of a round."""
        self._run.log(flat_numbers(record), step=record["round"])

    def end(self, summary: dict[str, Any] | None) -> None:
        """Store the summary, and end the Weights & Biases run. Without a summary, the run is marked
        as failed."""
        self._run.summary.update(summary or {})
        self._run.finish(exit_code=0 if summary is not None else 1)


def _logged_in() -> bool:
    """Whether Weights & Biases has an API key, in the environment or stored by its ``login``
    command."""
    if os.environ.get("WANDB_API_KEY"):
        return True
    try:
        hosts = netrc.netrc().hosts
    except (OSError, netrc.NetrcParseError):
        return False
    return any(host.endswith("wandb.ai") for host in hosts)
