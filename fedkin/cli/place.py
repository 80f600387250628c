"""The command ``fedkin place``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedkin.cli.common import error_exit, parse_option, print_rows
from fedkin.core.object_repr import shell_command
from fedkin.core.storage import check_output, write_atomic

if TYPE_CHECKING:
    from fedkin.run.trained.place_table import PlacedClient

# The text with which a file of placements begins.
_BEGINS = "client,samples,cluster,"


def place_command(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a finished run.")],
    data: Annotated[
        Path,
        typer.Argument(
            metavar="DATA",
            help="The new clients' labelled samples: .csv, .parquet or .npz. Without a column of "
            "clients, all samples belong to one client.",
        ),
    ],
    options: Annotated[
        list[str] | None,
        typer.Argument(metavar="[key=value]...", help="Columns: label=, client=, features=."),
    ] = None,
    models: Annotated[
        Path | None,
        typer.Option(
            "--models", metavar="DIR", help="An export of the run; show each client's model file."
        ),
    ] = None,
    resamples: Annotated[
        int, typer.Option("--resamples", metavar="N", help="Resamples for the confidence.")
    ] = 20,
    seed: Annotated[int, typer.Option("--seed", help="Seed of the resamples.")] = 0,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="FILE.csv", help="Also write the table to this file."),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the table as JSON instead.")
    ] = False,
) -> None:
    """Find the cluster of each new client of a table, by the method's rule for newcomers. The run
    stays as it is."""
    with error_exit():
        from fedkin.export import load
        from fedkin.run.run import Run
        from fedkin.run.trained.external_evaluation import load_other
        from fedkin.run.trained.place_table import check_export, place_clients

        if out is not None:
            check_output(out, [data], _BEGINS)
        loaded = Run.load(run)
        export = None if models is None else load(models)
        if export is not None:
            check_export(export, loaded.fingerprint)
        trained = loaded.trained
        chosen = dict(parse_option(text) for text in options or [])
        samples = load_other(
            data,
            loaded.config.data,
            trained.parts.samples,
            options=chosen,
            pooled=True,
            command="place",
        )
        placed = place_clients(
            trained, samples, name=data.stem, export=export, resamples=resamples, seed=seed
        )
        if out is not None:
            write_atomic(out, _csv(placed))
        if as_json:
            print(json.dumps([one._asdict() for one in placed]))
            return
        _print_table(placed, f"{data} in the clusters of {run}", export is not None)
        if out is not None:
            typer.echo(f"table: {out}")
        if export is None:
            exported = shell_command("fedkin", "export", run, "--out", "MODELS")
            typer.echo(f"model files: {exported}, then place with --models MODELS")
        else:
            typer.echo(f"model files: {export.folder}")


def _print_table(placed: list[PlacedClient], title: str, with_models: bool) -> None:
    """Print the table of placed clients."""
    heads = ["client", "samples", "cluster", "confidence", "decided by"]
    rows = []
    for one in placed:
        cluster = "-" if one.cluster is None else str(one.cluster)
        confidence = "-" if one.confidence is None else f"{one.confidence:.0%}"
        row = [one.client, one.samples, cluster, confidence, one.decided]
        if with_models:
            row.append("-" if one.model is None else Path(one.model).name)
        rows.append(row)
    if with_models:
        heads.append("model file")
    print_rows(heads, rows, title, unbroken=("model file",))


def _csv(placed: list[PlacedClient]) -> str:
    """The table of placed clients as CSV."""
    import pandas as pd

    frame = pd.DataFrame([one._asdict() for one in placed])
    frame["cluster"] = frame["cluster"].astype("Int64")
    return frame.to_csv(index=False)
