"""``fedkin report``: a run, its seeds or a comparison as one page, and as figures for a paper.

``read_runs`` reads what there is, ``contents`` turns it into plain JSON, and ``page`` and
``paper_figures`` draw that.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from fedkin.analysis.repeated_runs import RepeatedRuns
from fedkin.core.errors import ConfigError
from fedkin.core.storage import check_output, user_path, write_atomic
from fedkin.reporting.html.contents import contents
from fedkin.reporting.html.page import page
from fedkin.reporting.html.read_runs import read_runs
from fedkin.run.results import Run

if TYPE_CHECKING:
    from fedkin.analysis.compare.comparison import Comparison
    from fedkin.data.federated import FederatedData
    from fedkin.simulation.workers import AnyModel

FILE = "report.html"


def report(
    result: Run | RepeatedRuns | Comparison | str | Path,
    out: str | Path | None = None,
    *,
    figures: str | Path | None = None,
    similarity: bool = False,
    data: FederatedData | None = None,
    model: AnyModel | None = None,
) -> Path:
    """Write a report: one HTML file that opens anywhere and needs no network.

    Args:
        result: a run, several seeds or a comparison, or the folder of one, finished or not.
        out: the file; ``report.html`` in the folder where nothing is said.
        figures: a folder for the same charts as PDF, SVG and PNG, as wide as a paper's column.
        similarity: whether to add the map of the clients, their similarity matrix and labels by
            cluster. At most 200 clients train one local epoch for them, once; the result is kept in
            the run's folder (``similarity.safetensors``), and later reports show it by themselves.
        data: for ``similarity`` of a run started from Python: its data; a run from a configuration
            needs none.
        model: for ``similarity`` of a run started from Python: its model.

    Returns:
        Path of the file.

    Raises:
        CheckpointError: a folder in which nothing can be shown.
        ConfigError: no ``out`` for what has no folder; data without a model, or the reverse, or
            without ``similarity``; what is no run.
        StorageError: a file that cannot be written.
    """
    if (data is None) != (model is None):
        raise ConfigError("data and model belong together: give both, or neither")
    if data is not None and not similarity:
        raise ConfigError(
            "a report trains no clients by default: give similarity=True with data and model"
        )
    runs = read_runs(result)
    if out is None and runs.folder is None:
        raise ConfigError("this run is in no folder; say where its report goes: out='report.html'")
    target = user_path(out) if out is not None else Path(str(runs.folder)) / FILE
    if out is not None and target != Path(str(runs.folder)) / FILE:
        check_output(target)
    charts = contents(runs, data, model, similarity)
    if figures is not None:  # before the page, so that a refused figure leaves nothing
        from fedkin.reporting.html.paper_figures import save

        save(charts, user_path(figures))
    write_atomic(target, page(charts))
    return target
