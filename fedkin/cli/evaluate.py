"""The command ``fedkin evaluate``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedkin.cli.common import Backbone, column_options, error_exit
from fedkin.cli.printed_tables import print_rows, print_table
from fedkin.core.errors import ConfigError
from fedkin.core.strict_json import json_text

if TYPE_CHECKING:
    from fedkin.data.federated import FederatedData
    from fedkin.run.run import Run

_SHOWN = ("accuracy", "balanced_accuracy", "macro_f1", "auroc", "ece")


Columns = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[key=value]...",
        help="Columns of the external data: label=, client=, features=; of survival also event=.",
    ),
]
Split = Annotated[
    str | None,
    typer.Option(
        "--split", help="test, train or validation (default: test; with --data all samples)."
    ),
]
FineTune = Annotated[
    int | None,
    typer.Option(
        "--fine-tune",
        metavar="E",
        help="Also evaluate after up to E epochs of local fine-tuning.",
    ),
]
OtherData = Annotated[
    Path | None,
    typer.Option(
        "--data",
        metavar="FILE",
        help="External data: .csv, .parquet or .npz; clients are matched by name.",
    ),
]
Cluster = Annotated[
    int | None,
    typer.Option(
        "--cluster", metavar="K", help="Predict all samples of --data with this cluster's model."
    ),
]


def evaluate_command(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a finished run.")],
    options: Columns = None,
    split: Split = None,
    fine_tune: FineTune = None,
    target: Annotated[
        float | None, typer.Option("--target", help="Target accuracy (default: the run's target).")
    ] = None,
    data: OtherData = None,
    cluster: Cluster = None,
    backbone: Backbone = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="DIR", help="Folder for the files (default: RUN)."),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the summary as JSON instead.")
    ] = False,
) -> None:
    """Evaluate a finished run: F1, AUROC and calibration by client and cluster, and fairness across
    clients; of labels that are numbers, the measures of their task type."""
    with error_exit():
        from fedkin.config.registry import method_title
        from fedkin.run.run import Run

        loaded = Run.load(run, backbone=backbone)
        # With --cluster only the main run is evaluated, since other runs have other clusters.
        evaluated = [loaded] if cluster is not None else [loaded, *loaded.against.values()]
        other = _other(loaded, data, options or [], cluster is not None)
        scores = {}
        for method_run in evaluated:
            title = method_title(method_run.config.method_with_options)
            scores[title] = method_run.evaluate(
                split,
                fine_tune_epochs=fine_tune,
                target=target,
                data=other,
                cluster=cluster,
            )
        main_title, first = next(iter(scores.items()))
        paths = first.save(out or run)
        summaries = [evaluation.summary for evaluation in scores.values()]
        if as_json:
            print(json_text(summaries))
            return
        print_rows(
            ["measure", *scores],
            _rows(summaries),
            f"{first.split} samples" + (f" of {data}" if data else ""),
        )
        print_table(_rounded(first.clusters), f"{main_title}, by cluster")
        typer.echo(f"clients: {paths[0]}")


def _other(run: Run, path: Path | None, options: list[str], pooled: bool) -> FederatedData | None:
    """Load the external data of ``--data``; None without ``--data``. ``pooled``: a file without a
    column of clients is taken as one client's data."""
    from fedkin.run.trained.external_evaluation import load_other

    if path is None and options:
        option = f"--data FILE {options[0]}" if "=" in options[0] else f"--data {options[0]}"
        raise ConfigError(
            f"{options[0]!r} applies to external data only; use {option} (see: fedkin evaluate "
            "--help)"
        )
    chosen = column_options(options)
    if path is None:
        return None
    parts = run._for_other_data().parts
    return load_other(
        path, run.config.data, parts.samples, options=chosen, pooled=pooled, model=parts.model
    )


def _rows(summaries: list[dict[str, Any]]) -> list[list[str]]:
    """The rows of the printed table: one for each measure, with the value of each method."""
    names = [name for name in summaries[0] if name not in ("method", "split", "data_digest")]
    rows = []
    for name in names:
        values = [_number(summary.get(name)) for summary in summaries]
        rows.append([name.replace("_", " "), *values])
    return rows


def _number(value: Any) -> str:
    """A value of a table as text; a dash if it is unknown."""
    if value is None:
        return "-"
    return f"{value:.4f}" if isinstance(value, float) else f"{value:,}"


def _rounded(frame: Any) -> Any:
    """A table with its measures rounded to four digits, and spaces in its headings."""
    from fedkin.measures.scores import OTHER_MEASURES

    rounded = frame.round({name: 4 for name in (*_SHOWN, *OTHER_MEASURES) if name in frame})
    return rounded.rename(columns=lambda name: name.replace("_", " "))
