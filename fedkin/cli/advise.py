"""The command ``fedkin advise``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedkin.cli.common import (
    check_figure_writable,
    error_exit,
    load_config,
    print_cost_of_looking,
)
from fedkin.cli.printed_tables import print_table
from fedkin.core.errors import ConfigError
from fedkin.core.strict_json import json_text

if TYPE_CHECKING:
    import pandas as pd

    from fedkin.analysis.advise import Advice
    from fedkin.analysis.clusters_or_levels import ClustersOrLevels


def advise_command(
    settings: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="FILE.toml [section.key=value]... | RUN",
            help="A configuration with data, model and local training; or the folder of a run "
            "with a monitor.",
        ),
    ] = None,
    private_labels: Annotated[
        bool,
        typer.Option(
            "--private-labels", help="Leave out measures that need the label counts of the clients."
        ),
    ] = False,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="File of the figure.")
    ] = None,
    verbose: Annotated[
        bool,
        typer.Option(
            "--verbose",
            help="Print all measures of heterogeneity and all criteria for the clusters.",
        ),
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print all numbers as JSON instead.")
    ] = False,
) -> None:
    """Advise whether to cluster clients, into how many clusters, and by which method. The advice
    says what the method gains and what it costs.

    FILE.toml is a configuration as for `fedkin run`; its method, scenario and shift are ignored. Of
    a run with a monitor of clusters, say what the monitor has found and what to do."""
    with error_exit():
        if settings and len(settings) == 1 and Path(settings[0]).is_dir():
            _check_options(private_labels=private_labels, out=out, verbose=verbose)
            _advise_on_run(Path(settings[0]), as_json)
            return
        from fedkin.analysis.advise import of_config

        if out is not None:
            check_figure_writable(out, "advice.png")
        config = load_config(settings or [], None)
        advice = of_config(
            config,
            private_labels=private_labels,
            progress=lambda line: print(line, file=sys.stderr),
        )
        if as_json:
            print(json_text(advice.summary()))
        else:
            _print(advice, verbose)
        for line in _limits(advice, private_labels):
            typer.echo(line, err=as_json)
        print_cost_of_looking(config, to_stderr=as_json)
        # Draw the figure last, so that the advice is printed even if drawing fails.
        if out is not None:
            typer.echo(f"figure: {' and '.join(map(str, _draw(advice, out)))}", err=as_json)


def _check_options(private_labels: bool, out: Path | None, verbose: bool) -> None:
    """Raise ConfigError for options that advice on a run does not have."""
    given = {"--private-labels": private_labels, "--out": out is not None, "--verbose": verbose}
    names = [name for name, is_given in given.items() if is_given]
    if names:
        verb = "apply" if len(names) > 1 else "applies"
        raise ConfigError(
            f"{', '.join(names)} {verb} to a configuration, not to the folder of a run; leave out "
            f"{'them' if len(names) > 1 else 'it'}"
        )


def _advise_on_run(folder: Path, as_json: bool) -> None:
    """Print the advice from what the monitor of a run has found."""
    from fedkin.analysis.advise.watched_run import of_run
    from fedkin.run.run import Run

    advice = of_run(Run.load(folder))
    if as_json:
        print(json_text(advice.summary()))
        return
    typer.echo(advice.verdict)
    for step in advice.steps:
        typer.echo(f"* {step}")


def _limits(advice: Advice, private_labels: bool) -> list[str]:
    """Lines that say what the advice does not cover: what its intervals leave out, and that private
    labels were simulated."""
    lines = []
    if advice.pilots is not None:
        lines.append(
            "pilots: cohorts are drawn round robin; 95% intervals cover initial models, cohorts "
            "and batches, for this federation only"
        )
    if private_labels:
        lines.append(
            "private labels: the advice is computed by a simulation on local data, not over a "
            "network"
        )
    return lines


def _draw(advice: Advice, out: Path) -> list[Path]:
    """Draw the figure of the advice. Returns the paths of the written files."""
    from fedkin.reporting import advice_figure

    return advice_figure.save(advice, out)


def _print(advice: Advice, verbose: bool) -> None:
    """Print the verdict, the measurements behind it, the gains in the pilots (short runs of several
    methods), and the advised configuration."""
    typer.echo(f"{advice.verdict}: {advice.why}\n")
    for line in (_heterogeneity(advice), _number_of_clusters(advice)):
        typer.echo(line)
    if verbose:
        _print_measurements(advice)
    else:
        typer.echo("for other measures and criteria, use --verbose")
    if advice.levels is not None:
        _print_levels(advice.levels)
    if advice.pilots is not None:
        from fedkin.analysis.advise.pilot_runs import errors_in, gain_words

        title = (
            f"gains over FedAvg with {advice.pilot_clusters} clusters, in "
            f"{gain_words(advice.pilots)}; bytes per client and round"
        )
        texts = advice.pilots.filter(like="bytes").map("{:,.0f}".format)
        errors = advice.pilots[errors_in(advice.pilots)].map("{:,.4g}".format)
        print_table(_formatted(advice.pilots.assign(**texts, **errors), ",.1f"), title)
    if advice.prior is not None:
        typer.echo(str(advice.prior))
    typer.echo(f"\n{advice.toml()}")
    typer.echo(
        "next: add these sections to a file with [data] and [model], then run it: fedkin run "
        "FILE.toml"
    )


def _print_levels(levels: ClustersOrLevels) -> None:
    """Print the comparison of clusters with own intercepts."""
    typer.echo(
        f"share of the variance between clients (ICC): labels {levels.icc:.3f}, residuals of the "
        f"shared model {levels.residual_icc:.3f}"
    )
    title = (
        f"clusters or levels, means over {len(levels.draws)} draws: share of the constant's loss "
        "that a model saves (D2); clients that lose more than 2% against a local model"
    )
    print_table(_formatted(levels.table, ",.3g"), title)
    print_table(_formatted(levels.gains, "+.1f"), "gains, in percent of the loss; 95% intervals")


def _heterogeneity(advice: Advice) -> str:
    """A line about the clients' heterogeneity, compared with an IID split."""
    for measure in ("label divergence", "gradient dissimilarity", "PNI"):
        if measure in advice.heterogeneity.index:
            row = advice.heterogeneity.loc[measure]
            # The ratio is NaN, which differs from itself, if the measure is 0 in the IID split.
            has_ratio = row["ratio"] == row["ratio"]
            times = f" (ratio {row['ratio']:.1f})" if has_ratio else ""
            return (
                f"heterogeneity: {measure} {row['value']:.3g}; in an IID split of the same data "
                f"{row['iid']:.3g}{times}"
            )
    return "heterogeneity: not measured"


def _number_of_clusters(advice: Advice) -> str:
    """A line with the advised number of clusters and its split-half stability. For the stability,
    clusters are formed from one half of each client's data, and clients are then assigned to them
    by the other half. The stability is the share of clients that are assigned to the same cluster
    again, in the cluster in which this share is smallest."""
    from fedkin.analysis.advise.split_half_stability import THRESHOLD

    count = advice.cluster_count
    where = f"of {len(count.clients):,} clients"
    meaning = (
        "of the clients of every cluster stay in it if clusters are formed from one half of each "
        f"client's data, and clients are then assigned by the other half ({where})"
    )
    if count.clusters == 1:
        return f"number of clusters: 1: {advice.instability}; stability is the share {meaning}"
    share = count.stability[count.clusters - 1]
    largest = " (the largest number tried)" if count.clusters == count.max_clusters else ""
    return (
        f"number of clusters: {count.clusters}{largest}, by split-half stability: at least "
        f"{share:.0%} {meaning}; required are {THRESHOLD:.0%}, and more than the "
        f"{count.chance:.0%} of IID splits of the same data"
    )


def _print_measurements(advice: Advice) -> None:
    """Print all measures of heterogeneity, and the number of clusters by every criterion."""
    count = advice.cluster_count
    print_table(
        _formatted(advice.heterogeneity, ".4g"),
        "heterogeneity of the clients, compared with an IID split",
    )
    title = f"number of clusters, from {len(count.clients):,} of {advice.clients:,} clients"
    print_table(_formatted(advice.criteria, ".3g"), title)
    others = [f"{criterion} {number}" for criterion, number in count.estimates.items()][1:]
    typer.echo(
        f"number of clusters by the other criteria, which do not decide: {', '.join(others)}"
    )


def _formatted(table: pd.DataFrame, form: str) -> pd.DataFrame:
    """Format the numbers of a table as text, with a dash for NaN. Text stays unchanged."""

    def formatted(value: Any) -> str:
        if isinstance(value, str):
            return value
        # NaN differs from itself.
        return "-" if value != value else format(value, form)

    return table.map(formatted).reset_index().map(str).rename(columns=_heading)


def _heading(column: object) -> str:
    """The heading of a column: the short name of a measure, else the column's name with spaces."""
    from fedkin.measures.table import MEASURES

    return MEASURES[str(column)].narrow if column in MEASURES else str(column).replace("_", " ")
