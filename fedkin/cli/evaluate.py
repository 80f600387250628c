"""``fedkin evaluate``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from fedkin.cli.common import error_exit, print_rows, print_table

_SHOWN = ("accuracy", "balanced_accuracy", "macro_f1", "auroc", "ece")


def evaluate_command(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a finished run.")],
    split: Annotated[str, typer.Option("--split", help="test, train or validation.")] = "test",
    fine_tune: Annotated[
        int | None,
        typer.Option("--fine-tune", metavar="E", help="Also after up to E epochs of each client's own training."),
    ] = None,
    target: Annotated[float | None, typer.Option("--target", help="Accuracy; by default that of the run.")] = None,
    out: Annotated[Path | None, typer.Option("--out", metavar="DIR", help="Folder of the files; RUN itself.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON instead.")] = False,
) -> None:
    """Evaluate a finished run: F1, AUROC and calibration, per client and cluster, and fairness across clients."""
    with error_exit():
        from fedkin.config.registry import method_title
        from fedkin.run.description import method_in
        from fedkin.run.results import Run

        loaded = Run.load(run)
        runs = {method_title(method_in(one.config)): one for one in (loaded, *loaded.against.values())}
        found = {name: one.evaluate(split, fine_tune, target) for name, one in runs.items()}
        first = next(iter(found.values()))
        paths = first.save(out or run)
        summaries = [evaluation.summary for evaluation in found.values()]
        if as_json:
            print(json.dumps(summaries))
            return
        print_rows(["measure", *found], _rows(summaries), f"{split} samples")
        print_table(_rounded(first.clusters), f"{next(iter(found))}, by cluster")
        typer.echo(f"clients: {paths[0]}")


def _rows(summaries: list[dict[str, Any]]) -> list[list[str]]:
    """A row for each measure, with the value of each method."""
    names = [name for name in summaries[0] if name not in ("method", "split")]
    return [[name.replace("_", " "), *(_number(one.get(name)) for one in summaries)] for name in names]


def _number(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:.4f}" if isinstance(value, float) else f"{value:,}"


def _rounded(frame: Any) -> Any:
    rounded = frame.round({name: 4 for name in _SHOWN if name in frame})
    return rounded.rename(columns=lambda name: name.replace("_", " "))
