"""The figures of finished runs, for who asks for them: no run draws itself."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from fedkin.core.errors import ConfigError
from fedkin.reporting import run_figure, trust_graph_figure
from fedkin.run.results import Run
from fedkin.run.run_folder import AGAINST, make

if TYPE_CHECKING:
    from fedkin.analysis.repeat import RepeatedRuns


def draw(result: Run | RepeatedRuns, folder: str | Path | None = None) -> Path:
    """Write the figures of a finished run, or of its repetitions from several seeds, as PNG and SVG.

    ``figure``: accuracy, discrepancy and cluster sizes over the rounds, or mean curves over the seeds; ``topology``:
    who trusts whom, where clients are peers. A method that was run beside another has its own figures in its own
    folder, where there is one.

    Args:
        result: what ``simulate``, ``repeat``, ``Run.load`` or ``RepeatedRuns.load`` returned.
        folder: where to write; the run's own folder where nothing is said.

    Returns:
        The path of ``figure.png``.

    Raises:
        ConfigError: no folder is given, and the run has none.
        StorageError: the folder cannot be written.
    """
    target = folder or (result.folder if isinstance(result, Run) else None)
    if target is None:
        raise ConfigError("draw needs a folder: the run was not kept in one")
    target = Path(target)
    make(target)
    if isinstance(result, Run):
        for name, other in result.against.items():
            if (inner := target / AGAINST / name).is_dir():
                draw(other, inner)
        run_figure.save(result, target)
        trust_graph_figure.save(result, target)
    else:
        from fedkin.reporting import seeds_figure

        seeds_figure.save(result, target)
    return target / "figure.png"
