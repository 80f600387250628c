"""The command ``fedkin place``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedkin.cli.common import Backbone, column_options, error_exit
from fedkin.cli.printed_tables import print_rows
from fedkin.core.object_repr import shell_command
from fedkin.core.storage import check_output, write_atomic
from fedkin.core.strict_json import json_text

if TYPE_CHECKING:
    from fedkin.export.reader import Export
    from fedkin.run.run import Run
    from fedkin.run.trained.place_table import PlacedClient

# The text with which a file of placements begins.
_BEGINS = "client,samples,cluster,"


Data = Annotated[
    Path,
    typer.Argument(
        metavar="DATA",
        help="The new clients' samples: .csv, .parquet or .npz, with labels unless the method "
        "places clients without them. Without a column of clients, all samples belong to one "
        "client.",
    ),
]
Columns = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[key=value]...",
        help="Columns: label=, client=, features=; of survival also event=.",
    ),
]
Models = Annotated[
    Path | None,
    typer.Option(
        "--models", metavar="DIR", help="An export of the run; show each client's model file."
    ),
]
Resamples = Annotated[
    int, typer.Option("--resamples", metavar="N", help="Resamples for the confidence.")
]
Out = Annotated[
    Path | None,
    typer.Option("--out", metavar="FILE.csv", help="Also write the table to this file."),
]


def place_command(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a finished run.")],
    data: Data,
    options: Columns = None,
    models: Models = None,
    backbone: Backbone = None,
    resamples: Resamples = 20,
    seed: Annotated[int, typer.Option("--seed", help="Seed of the resamples.")] = 0,
    out: Out = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the table as JSON instead.")
    ] = False,
) -> None:
    """Find the cluster of each new client of a table, by the method's rule for newcomers. The run
    stays as it is."""
    with error_exit():
        from fedkin.run.run import Run

        if out is not None:
            check_output(out, [data], _BEGINS)
        loaded = Run.load(run, backbone=backbone)
        export = _export_of(loaded, models)
        placed = _placed(
            loaded,
            data,
            options=column_options(options or []),
            export=export,
            resamples=resamples,
            seed=seed,
        )
        if out is not None:
            write_atomic(out, _csv(placed))
        if as_json:
            print(json_text([one._asdict() for one in placed]))
            return
        _print_table(placed, f"{data} in the clusters of {run}", export is not None)
        if out is not None:
            typer.echo(f"table: {out}")
        if export is not None:
            typer.echo(f"model files: {export.folder}")
            return
        exported = shell_command("fedkin", "export", run)
        typer.echo(f"model files: {exported} --out MODELS, then place with --models MODELS")


def _placed(
    run: Run, data: Path, *, options: dict[str, Any], **settings: Any
) -> list[PlacedClient]:
    """The clients of a file in the clusters of a run. A table may lack labels if the method reads
    none.

    Args:
        run: the run.
        data: the file.
        options: names of columns.
        settings: export, resamples and seed, as for ``place_clients``.
    """
    from fedkin.run.trained.external_evaluation import load_other
    from fedkin.run.trained.place_table import place_clients, place_unlabelled
    from fedkin.run.trained.unlabelled_clients import unlabelled_clients

    trained = run.trained
    own = run.config.data
    unlabelled = unlabelled_clients(trained, data, own=own, options=options, name=data.stem)
    if unlabelled is not None:
        return place_unlabelled(trained, unlabelled, **settings)
    samples = load_other(
        data,
        own=own,
        samples=trained.parts.samples,
        options=options,
        pooled=True,
        command="place",
        model=trained.parts.model,
    )
    return place_clients(trained, samples, name=data.stem, **settings)


def _export_of(run: Run, models: Path | None) -> Export | None:
    """The run's export in a folder; None without a folder. Raises ConfigError for the export of
    another run."""
    from fedkin.export import load
    from fedkin.run.trained.place_table import check_export

    if models is None:
        return None
    export = load(models)
    check_export(export, run.fingerprint)
    return export


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
