"""``fedkin data``: what data there are, and who has what."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedkin.cli.common import error_exit, parse_option, print_table

if TYPE_CHECKING:
    from fedkin.data.federated import FederatedData

data_app = typer.Typer(no_args_is_help=True, help="What data there are, and who has what.")


@data_app.command("list")
def list_command() -> None:
    """All named data sets, and where they are found."""
    with error_exit():
        from fedkin.data.describe import available

        print_table(available(), "data sets")
        typer.echo("also: file (path=..., your own file or folder in LEAF's layout) and planted (a known true cluster)")


@data_app.command("describe")
def describe_command(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A data set: see `fedkin data list`.")],
    options: Annotated[list[str] | None, typer.Argument(metavar="[key=value]...", help="Its options.")] = None,
    out: Annotated[Path | None, typer.Option("--out", metavar="FILE", help="The picture; data-NAME.png.")] = None,
) -> None:
    """A table and a picture of who has what."""
    with error_exit():
        from fedkin.data.describe import picture, table

        data = _dataset(name, options or [])
        print_table(table(data).reset_index(), data.name)
        paths = picture(data, out or Path(f"data-{name}.png"))
        typer.echo(f"picture: {' and '.join(map(str, paths))}")


@data_app.command("pni")
def pni_command(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A data set: see `fedkin data list`.")],
    options: Annotated[list[str] | None, typer.Argument(metavar="[key=value]...", help="Its options.")] = None,
    model: Annotated[str, typer.Option("--model", metavar="NAME", help="What the random models look like.")] = "mclr",
    models: Annotated[int, typer.Option("--models", metavar="D", help="Random models to average over.")] = 10,
    seed: Annotated[int, typer.Option("--seed", help="Of the first random model; the next have the next.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print the numbers as JSON instead.")] = False,
) -> None:
    """How far the clients differ: FedSim's privacy-preserving non-IID index. Compare like with like only."""
    with error_exit():
        from fedkin.analysis import non_iid_index
        from fedkin.config import registry, run

        chosen = run.named("model", registry.models(), {"name": model}, lambda _: "--model")
        data = _dataset(name, options or [])
        made = registry.make(registry.models(), chosen, data)
        found = non_iid_index.non_iid_index(data, made, models=models, seed=seed)
        if as_json:
            print(json.dumps({"data": data.name, "model": made.name, "seed": seed, **found.summary()}))
            return
        print_table(non_iid_index.figures(found).reset_index(), f"{data.name}, {made.name}")
        print_table(non_iid_index.extremes(found, data), "clients by their index")


def _dataset(name: str, options: list[str]) -> FederatedData:
    """A named data set with ``key=value`` options."""
    from fedkin.config import registry, run

    values = {"name": name, **dict(parse_option(text) for text in options)}
    return registry.make(registry.datasets(), run.named("data set", registry.datasets(), values, str))
