"""The commands ``fedkin data``: data sets, their distribution over clients, and heterogeneity of
clients."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedkin.cli.common import error_exit, parse_option
from fedkin.cli.printed_tables import print_rows, print_table
from fedkin.core.object_repr import count, shell_command
from fedkin.core.storage import check_output, write_atomic
from fedkin.core.strict_json import json_text

if TYPE_CHECKING:
    import pandas as pd

    from fedkin.data.federated import FederatedData

_NAME_HELP = (
    "A data set (`fedkin data list`), a file of samples, or a TOML file that has a data section."
)
_OPTIONS_HELP = "Options of the data set: key=value, or data.key=value as for fedkin run."

# The texts with which the files of `sums` and of `join` begin.
_SUMS_BEGIN = '{\n "table_sums"'
_COLUMNS_BEGIN = '{\n "kind": "standard"'
# Most columns of a table that are shown.
_SHOWN_COLUMNS = 40

data_app = typer.Typer(
    no_args_is_help=True, help="Data sets, and how they are distributed over clients."
)


@data_app.command("list")
def list_command() -> None:
    """List all data sets of the library, and where their files are."""
    with error_exit():
        from fedkin.data.catalogue import FoundEntry, found_entries

        entries = [entry._replace(where=_at_slashes(entry.where)) for entry in found_entries()]
        print_rows(FoundEntry._fields, entries, "data sets", unbroken=("where",))
        typer.echo(
            "also: file (path=..., your own file or folder in LEAF's layout) and planted "
            "(synthetic data with known true clusters)"
        )


@data_app.command("describe")
def describe_command(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME",
            help=_NAME_HELP,
        ),
    ],
    options: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[key=value]...",
            help=_OPTIONS_HELP,
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            metavar="FILE",
            help="Write the figure to this file, as PNG and SVG (default: data-NAME.png).",
        ),
    ] = None,
) -> None:
    """Show how a data set is distributed over clients, as a table and a figure.

    For a table of the user also show each column: mean, standard deviation (SD) and range of the
    training samples before scaling, and the scaling."""
    with error_exit():
        from fedkin.data.describe import column_table, table
        from fedkin.data.label_figure import picture
        from fedkin.reporting.style import check_figure

        target = out or Path(f"data-{Path(name).stem}.png")
        check_figure(target)
        data = _dataset(name, options or [])
        statistics = table(data)
        rows = [
            [quantity, *values]
            for quantity, values in zip(statistics.index, statistics.to_numpy(), strict=True)
        ]
        print_rows([data.name, *statistics.columns], rows, data.name)
        _print_columns(data, column_table(data))
        paths = picture(data, target)
        typer.echo(f"figure: {' and '.join(map(str, paths))}")


def _print_columns(data: FederatedData, columns: pd.DataFrame | None) -> None:
    """Print the statistics of a table's columns before scaling; nothing for other data."""
    if columns is None:
        return
    shown = columns.head(_SHOWN_COLUMNS)
    rows = [
        [name, *(f"{number:.5g}" for number in numbers), scaling]
        for name, *numbers, scaling in shown.itertuples()
    ]
    kind = "none" if data.transform is None else data.transform.kind
    title = f"columns of the training samples before scaling; scale: {kind}"
    numbers = [name for name in columns.columns if name != "scaling"]
    print_rows(["column", *columns.columns], rows, title, unbroken=numbers)
    if len(columns) > len(shown):
        typer.echo(f"and {len(columns) - len(shown):,} more columns")


@data_app.command("make")
def make_command(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME",
            help=_NAME_HELP,
        ),
    ],
    options: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[key=value]...",
            help=_OPTIONS_HELP,
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", metavar="FOLDER", help="A new folder for the data (default: data-NAME)."
        ),
    ] = None,
) -> None:
    """Write a data set into a folder of arrays, which runs read from disk. The data may be larger
    than memory.

    Synthetic data are written while they are drawn: `fedkin data make synthetic clients=1000000
    samples=20`."""
    with error_exit():
        from fedkin.data.packed import pack

        folder = out or Path(f"data-{Path(name).stem}")
        data = pack(lambda: _dataset(name, options or []), folder)
        typer.echo(
            f"{data!r}\nin {folder}; use it in a run with "
            f"{shell_command('data.name=file', f'data.path={folder}')}"
        )


@data_app.command("pni")
def pni_command(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME",
            help=_NAME_HELP,
        ),
    ],
    options: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[key=value]...",
            help=_OPTIONS_HELP,
        ),
    ] = None,
    model: Annotated[
        str, typer.Option("--model", metavar="NAME", help="Kind of the random models.")
    ] = "mclr",
    models: Annotated[
        int, typer.Option("--models", metavar="D", help="Random models to average over.")
    ] = 10,
    seed: Annotated[int, typer.Option("--seed", help="Seed of the first random model.")] = 0,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the numbers as JSON instead.")
    ] = False,
) -> None:
    """Measure the heterogeneity of clients by FedSim's privacy-preserving non-IID index (PNI).

    Indices are comparable only for the same model and number of clients."""
    with error_exit():
        from fedkin.analysis import non_iid_index
        from fedkin.config import registry

        entry = registry.resolve("model", registry.models(), {"name": model}, lambda _: "--model")
        data = _dataset(name, options or [])
        random_model = entry.make(data)
        index = non_iid_index.non_iid_index(data, random_model, models=models, seed=seed)
        if as_json:
            summary = {"data": data.name, "model": random_model.name, "seed": seed}
            print(json_text(summary | index.summary()))
            return
        title = f"{data.name}, {random_model.name}"
        print_table(non_iid_index.index_table(index).reset_index(), title)
        print_table(non_iid_index.extreme_clients(index, data), "clients by their index")


@data_app.command("sums")
def sums_command(
    name: Annotated[
        str,
        typer.Argument(metavar="NAME", help=_NAME_HELP),
    ],
    options: Annotated[
        list[str] | None,
        typer.Argument(metavar="[key=value]...", help=_OPTIONS_HELP),
    ] = None,
    out: Annotated[
        Path, typer.Option("--out", metavar="FILE.json", help="The file of the sums.")
    ] = Path("sums.json"),
    least: Annotated[
        int,
        typer.Option(
            "--least",
            metavar="N",
            help="Leave out the names of categories that fewer training samples have.",
        ),
    ] = 1,
) -> None:
    """Write the sums of a site's table, from which `fedkin data join` makes the encoding and
    scaling of all sites: counts, means and squares of numbers, and counts of categories.

    The file has the sums of each client, and the command prints those of all clients together.
    Read it before you send it: names of categories are in it."""
    with error_exit():
        from fedkin.data.table_options import FOR_SUMS
        from fedkin.data.table_sums import LEAST_SAMPLES, table_sums

        check_output(out, [Path(name)], _SUMS_BEGIN)
        sums = table_sums(_dataset(name, options or [], scale_from=FOR_SUMS))
        sums = sums.without_rare_names(least)
        sums.save(out)
        rows = [[fact.column, fact.kind, fact.missing, fact.content] for fact in sums.facts()]
        heads = ["column", "kind", "missing", "what the file says"]
        samples = sum(client.samples for client in sums.clients)
        clients = count(len(sums.clients), "client")
        print_rows(heads, rows, f"{name}: {samples:,} training samples of {clients}")
        if sums.small_clients:
            typer.echo(
                f"{count(sums.small_clients, 'client')} with fewer than {LEAST_SAMPLES} training "
                "samples: sums of so few samples say much about each"
            )
        typer.echo(f"sums: {out}")


@data_app.command("join")
def join_command(
    sums: Annotated[
        list[Path], typer.Argument(metavar="SUMS.json...", help="The files of all sites.")
    ],
    out: Annotated[
        Path, typer.Option("--out", metavar="FILE.json", help="The file for all sites.")
    ] = Path("columns.json"),
    min_frequency: Annotated[
        int | None,
        typer.Option(
            "--min-frequency",
            metavar="N",
            help="A category with fewer training samples has no feature; by default 10.",
        ),
    ] = None,
    min_clients: Annotated[
        int | None,
        typer.Option(
            "--min-clients",
            metavar="N",
            help="A category that fewer clients have has no feature; by default 2.",
        ),
    ] = None,
) -> None:
    """Join the sums of all sites' tables into one file, by which every site encodes and scales its
    table: data.scale_from, or samples.scale_from with a server."""
    with error_exit():
        from fedkin.data.table_options import TableOptions
        from fedkin.data.table_sums import TableSums, joined

        check_output(out, sums, _COLUMNS_BEGIN)
        rules = TableOptions.of(min_frequency=min_frequency, min_clients=min_clients).rules
        sites = [TableSums.load(path) for path in sums]
        transform = joined(sites, rules, [str(path) for path in sums])
        write_atomic(out, json.dumps(transform.values(), indent=1, ensure_ascii=False) + "\n")
        rows = [
            [name, f"{mean:.5g}", f"{scale:.5g}"]
            for name, mean, scale in zip(
                transform.columns, transform.mean, transform.scale, strict=True
            )
        ]
        print_rows(["feature", "mean", "scale"], rows, f"features of all sites: {len(rows)}")
        typer.echo(f"columns: {out}; use it with {shell_command(f'data.scale_from={out}')}")


def _at_slashes(path: str, width: int = 24) -> str:
    """A path broken into lines of at most ``width`` characters, after slashes and spaces. Longer
    parts stay whole."""
    lines = [""]
    for part in re.findall(r"[^/ ]*[/ ]|[^/ ]+", path):
        if lines[-1] and len(lines[-1] + part) > width:
            lines.append("")
        lines[-1] += part
    return "\n".join(lines)


def _dataset(name: str, options: list[str], scale_from: Any = None) -> FederatedData:
    """Load a data set of the library, a user's file, or the data of a configuration's section
    [data].

    Args:
        name: name of the data set, a file, or a configuration.
        options: ``key=value``, or ``data.key=value`` as for ``fedkin run``.
        scale_from: how columns are read, in place of the options' own; None for these.
    """
    from fedkin.config import registry
    from fedkin.config.declarations import NAMED
    from fedkin.config.loader import Sections, read
    from fedkin.config.schema import DEFAULT, check_integer

    overrides = [f"data.{key}={value}" for key, value in map(_key_and_value, options)]
    if name.endswith(".toml"):
        raw, place = read(Path(name), overrides, declared=NAMED)
        section = Sections({"data": raw.get("data", {})}, ["data"], place)["data"]
        values = {"name": registry.default_dataset(section)} | section
    else:
        named = {"name": "file", "path": name} if _is_path(name) else {"name": name}
        raw, _ = read(None, overrides, {"data": named}, NAMED)
        values = raw["data"]
    if scale_from is not None:
        values = {key: value for key, value in values.items() if key != "scale"}
        values["scale_from"] = scale_from
    entry = registry.resolve("data set", registry.datasets(), values, str)
    # The data of a file that says data.seed = "run" are those of its first seed.
    seed = raw.get("run", {}).get("seed", DEFAULT)
    seed = 0 if seed == DEFAULT else seed
    check_integer("run.seed", seed, 0)
    return entry.drawn(seed).make()


def _is_path(name: str) -> bool:
    """Whether an argument is the path of a file or folder, not the name of a data set."""
    return "/" in name or (Path(name).suffix != "" and ":" not in name)


def _key_and_value(text: str) -> tuple[str, str]:
    """Split an option of a data set (``key=value`` or ``data.key=value``) into its key and the text
    of its value."""
    key, _ = parse_option(text)
    return key.strip().removeprefix("data."), text.partition("=")[2]
