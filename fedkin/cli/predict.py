"""The command ``fedkin predict``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedkin.cli.common import error_exit, print_text
from fedkin.core.storage import check_output, write_atomic

if TYPE_CHECKING:
    from fedkin.export.predict_table import Predictions


def predict_command(
    export: Annotated[
        Path, typer.Argument(metavar="EXPORT", help="A folder that `fedkin export` wrote.")
    ],
    data: Annotated[
        Path,
        typer.Argument(metavar="DATA", help="Samples: a .csv or .parquet table, or .npz with x."),
    ],
    client: Annotated[
        str | None, typer.Option("--client", metavar="NAME", help="Use this client's model.")
    ] = None,
    cluster: Annotated[
        int | None, typer.Option("--cluster", metavar="K", help="Use this cluster's model.")
    ] = None,
    model: Annotated[
        str | None,
        typer.Option("--model", metavar="NAME", help="Use this model, by its name in card.json."),
    ] = None,
    backbone: Annotated[
        Path | None,
        typer.Option(
            "--backbone",
            metavar="FOLDER",
            help="The backbone of adapters, if the export has no copy of it.",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            metavar="FILE.csv",
            help="Write the predictions to this file (default: print them).",
        ),
    ] = None,
) -> None:
    """Predict the class of each sample (row) of a table, with probabilities; or its number, in the
    unit of the label (a column for each quantile). If the table has a
    column of clients, each sample is predicted with its client's model, unless an option selects
    one model."""
    with error_exit():
        from fedkin.export import load
        from fedkin.export.predict_table import BEGINS, predict_file

        if out is not None:
            check_output(out, [data], BEGINS)
        loaded = load(export, backbone=backbone)
        predictions = predict_file(loaded, data, model=model, client=client, cluster=cluster)
        text = predictions.table.to_csv(index=False)
        if out is None:
            print_text(text)
        else:
            write_atomic(out, text)
            typer.echo(f"predictions: {out} ({len(predictions.table):,} rows)")
        if predictions.scores is not None:
            print(_scores(predictions, data), file=sys.stderr)
        if predictions.accuracy is not None:
            print(_accuracy(predictions, data), file=sys.stderr)


def _accuracy(predictions: Predictions, data: Path) -> str:
    """A line with the accuracy of the predictions."""
    return f"accuracy on the labels of {_scored(predictions, data)}: {predictions.accuracy:.3f}"


def _scores(predictions: Predictions, data: Path) -> str:
    """A line with the scores of predicted numbers."""
    scores = (predictions.scores or {}).items()
    texts = [f"{name.replace('_', ' ')} {value:.4g}" for name, value in scores]
    return f"on the labels of {_scored(predictions, data)}: {', '.join(texts)}"


def _scored(predictions: Predictions, data: Path) -> str:
    """The scored samples: their file, and their number if some samples have no label."""
    rows = len(predictions.table)
    if predictions.scored == rows:
        return str(data)
    return f"{predictions.scored:,} of {rows:,} rows, those with a label, in {data}"
