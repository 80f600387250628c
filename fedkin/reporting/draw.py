"""``fk.draw``: figures and tables of a result, drawn on request."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from fedkin.core.errors import ConfigError
from fedkin.core.storage import user_path
from fedkin.reporting import membership_figure, run_figure, trust_graph_figure
from fedkin.reporting.style import check_figure
from fedkin.run.folder.run_folder import against_folder, make_folder
from fedkin.run.run import Run

if TYPE_CHECKING:
    from fedkin.analysis.advise.advice import Advice
    from fedkin.analysis.compare.comparison import Comparison
    from fedkin.analysis.eps_study import EpsStudy
    from fedkin.analysis.repeated_runs import RepeatedRuns


def draw(
    result: Run | RepeatedRuns | Comparison | EpsStudy | Advice, folder: str | Path | None = None
) -> Path:
    """Write the figure of a result as PNG and SVG.

    * Run: accuracy, discrepancy (distance of client models to their aggregate) and cluster sizes
      over the rounds (``figure``). A method without a server also gets the graph of which peers
      trust each other (``topology``). A method in which a client belongs to several clusters also
      gets each client's shares of the clusters (``membership``). Figures of the compared methods
      are in ``against/``.
    * Several seeds: mean curves, and gains over the methods that are compared.
    * Comparison: a panel for each setting, and the tables as Markdown and LaTeX.
    * Results of ``study_eps`` and ``advise``: the criteria by which eps, or the number of clusters,
      is chosen.

    Args:
        result: a result of ``simulate``, ``repeat``, ``compare``, ``study_eps`` or ``advise``, or
            of ``load``.
        folder: the folder for the files; default: the result's folder.

    Returns:
        The path of ``figure.png``.

    Raises:
        ConfigError: no folder is given and the result has none, the folder has the name of a figure
            file, or the result cannot be drawn.
        StorageError: the folder cannot be written, or has a figure of this name that fedkin did not
            write.

    Examples:
        >>> import fedkin as fk
        >>> from tempfile import TemporaryDirectory
        >>> data = fk.data.digits(clients=6)
        >>> run = fk.simulate(fk.FedAvg(), data, fk.models.mclr(data), rounds=1, cohort=6)
        >>> with TemporaryDirectory() as folder:
        ...     fk.draw(run, folder).name
        'figure.png'
    """
    place = getattr(result, "folder", None) if folder is None else folder
    if place is None:
        raise ConfigError("draw needs a folder, because this result has none; pass folder=")
    target = user_path(place)
    if target.suffix in (".png", ".svg", ".pdf") and not target.is_dir():
        raise ConfigError(
            f"draw writes figure.png and figure.svg into a folder, but {str(target)!r} looks like "
            "a figure file; pass a folder"
        )
    # The result's folder is fedkin's; in any other one, a figure of this name may be the user's.
    if folder is not None and place != getattr(result, "folder", None):
        check_figure(target / "figure")
    if isinstance(result, Run):
        make_folder(target)
        _draw_run(result, target)
    else:
        _draw_other(result, target)
    return target / "figure.png"


def _draw_run(run: Run, folder: Path) -> None:
    """Draw the figures of a run, and of the compared methods that have a folder."""
    for name, other in run.against.items():
        if (inner := against_folder(folder, name)).is_dir():
            _draw_run(other, inner)
    run_figure.save(run, folder)
    trust_graph_figure.save(run, folder)
    membership_figure.save(run, folder)


def _draw_other(result: RepeatedRuns | Comparison | EpsStudy | Advice, folder: Path) -> None:
    """Draw the figure of a result that is not a single run.

    Imports are local, so that the figure of a single run is fast.
    """
    from fedkin.analysis.advise.advice import Advice
    from fedkin.analysis.compare.comparison import Comparison
    from fedkin.analysis.eps_study import EpsStudy
    from fedkin.analysis.repeated_runs import RepeatedRuns
    from fedkin.reporting import advice_figure, comparison_tables, eps_figure, seeds_figure

    if not isinstance(result, (RepeatedRuns, Comparison, EpsStudy, Advice)):
        raise ConfigError(
            "expected a run, several seeds, a comparison, an eps study or advice, got "
            f"{result!r:.80}"
        )
    make_folder(folder)
    if isinstance(result, RepeatedRuns):
        seeds_figure.save(result, folder)
    elif isinstance(result, Comparison):
        comparison_tables.write(result, folder)
    elif isinstance(result, EpsStudy):
        eps_figure.save(result, folder / "figure")
    else:
        advice_figure.save(result, folder / "figure")
