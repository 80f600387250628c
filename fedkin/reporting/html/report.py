"""``fk.report``: an HTML page and paper figures about a run, several seeds or a comparison.

``read_runs`` reads the runs, ``contents`` converts them to plain JSON, and ``page`` and
``paper_figures`` draw the contents.
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
from fedkin.run.run import Run

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
    """Write a report: one self-contained HTML file that needs no network.

    Args:
        result: a run, several seeds or a comparison, or the folder of one of these. It need not be
            finished.
        out: the file; default: ``report.html`` in the result's folder.
        figures: folder for the same charts as PDF, SVG and PNG, one paper column wide, and for the
            critical-difference diagram of a comparison that tests ranks; default: no figures.
        similarity: whether to add the map of the clients, their similarity matrix and labels by
            cluster. For this, at most 200 clients train one local epoch, once. The result is stored
            in the run's folder (``similarity.safetensors``), and later reports include it
            automatically.
        data: the run's data, for ``similarity`` of a run that was started from Python. Other runs
            do not need it.
        model: the run's model, for ``similarity`` of a run that was started from Python.

    Returns:
        Path of the file.

    Raises:
        CheckpointError: the folder has no rounds to show.
        ConfigError: ``out`` is missing and the result has no folder; only one of ``data`` and
            ``model`` is given, or they are given without ``similarity``; or the result is of
            another type.
        StorageError: a file cannot be written.

    Examples:
        >>> import fedkin as fk
        >>> from tempfile import TemporaryDirectory
        >>> data = fk.data.digits(clients=6)
        >>> run = fk.simulate(fk.FedAvg(), data, fk.models.mclr(data), rounds=1, cohort=6)
        >>> with TemporaryDirectory() as folder:
        ...     fk.report(run, f"{folder}/report.html").name
        'report.html'
    """
    if (data is None) != (model is None):
        raise ConfigError("data and model belong together; give both or neither")
    if data is not None and not similarity:
        raise ConfigError(
            "a report uses data and model only for client similarity; pass similarity=True too, or "
            "leave them out"
        )
    runs = read_runs(result)
    if out is None and runs.folder is None:
        raise ConfigError("this run has no folder; give the file of the report: out='report.html'")
    target = user_path(out) if out is not None else Path(str(runs.folder)) / FILE
    if out is not None and target != Path(str(runs.folder)) / FILE:
        check_output(target)
    charts = contents(runs, data, model, similarity)
    if figures is not None:  # before the page, so that no page is written if a figure fails
        from fedkin.reporting.html.paper_figures import save

        ranks = None if runs.comparison is None else runs.comparison.ranks()
        save(charts, user_path(figures), ranks)
    write_atomic(target, page(charts))
    return target
