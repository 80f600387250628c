"""Representation of a run as text (three lines), and as a small table in a notebook."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fedkin.config.registry import method_title
from fedkin.core.object_repr import client_list, count, html_table
from fedkin.measures.measure import Measure
from fedkin.measures.number_texts import percent
from fedkin.measures.run_scores import scores_in
from fedkin.measures.table import MEASURES
from fedkin.options.robust.splitting import SUSPECT
from fedkin.run.folder.client_table import Columns
from fedkin.run.number_notes import number_line

LISTED = 8  # largest number of suspects in a line


def text(
    summary: Mapping[str, Any],
    against: Sequence[Mapping[str, Any]],
    names: Sequence[str] | None = None,
    own: Sequence[Measure] = (),
) -> str:
    """A summary of a run in three lines: method and data, scores (such as the accuracy), and
    clusters.

    Args:
        summary: ``Run.summary``.
        against: summaries of the compared methods.
        names: names of all clients by position; None if clients have no names.
        own: the user's measures.
    """
    roles = scores_in(summary)
    final = roles.final
    best = summary[roles.best.name]
    chosen = " (chosen on validation samples)" * (roles.validation.name in summary)
    last = f"{roles.of_round.head} {final.text_with_unit(summary[final.name])}"
    scores = [number_line(summary) or last]
    if best is not None:
        shown = f"{roles.best.text_with_unit(best)} in round {summary['best_round']}{chosen}"
        scores.append(f"best {shown}")
    worst = f"{roles.worst_words} of clients"
    scores.append(f"{worst} {roles.worst.text_with_unit(summary[roles.worst.name])}")
    scores += [f"{measure.head} {measure.text_with_unit(summary[measure.name])}" for measure in own]
    compared = "".join(
        f"; {method_title(other['method'])} on the same data: "
        f"{final.text_with_unit(other[final.name])}"
        for other in against
    )
    robust = robust_text(summary, names)
    attacked = f"\n  {robust}" if robust else ""
    return (
        f"Run of {_title(summary)}: {count(summary['rounds'], 'round')}, seed {summary['seed']}\n"
        f"  {', '.join(scores)}{attacked}\n  {_clusters(summary)}{compared}"
    )


def names_by_position(clients: Columns) -> list[str] | None:
    """Names of clients by position, from a run's table of clients; None if clients have no names.

    Args:
        clients: the columns of the table. A client that is not in the table gets its position as
            its name.
    """
    if "name" not in clients:
        return None
    names = {
        int(client): str(name)
        for client, name in zip(clients["client"], clients["name"], strict=True)
    }
    return [names.get(position, str(position)) for position in range(max(names, default=-1) + 1)]


def robust_text(summary: Mapping[str, Any], names: Sequence[str] | None = None) -> str:
    """One line about attacking clients, or about clients that a robust rule suspects; empty for
    other runs.

    Args:
        summary: summary of any run.
        names: names of all clients by position; None if clients have no names.
    """
    if "attackers" in summary:
        return attack_text(summary)
    if "rule_weights" not in summary:
        return ""
    clients = suspects(summary)
    more = ", ..." if len(clients) > LISTED else ""
    listed = f" ({client_list(clients[:LISTED], names)}{more})" if clients else ""
    return f"the rule suspects {count(len(clients), 'client')}{listed}"


def attack_text(summary: Mapping[str, Any]) -> str:
    """One line with the score of honest clients (such as the accuracy), the number of attackers,
    and the share of attackers that are in clusters without honest clients.

    Args:
        summary: summary of a run with attacks.
    """
    agreement = summary["honest_ari"]
    alone = summary["attackers_alone"]
    scores = scores_in(summary)
    honest, worst, *_ = scores.honest
    parts = [f"{scores.of_round.head} {honest.text_with_unit(summary[honest.name])}"]
    parts += [f"{scores.worst_words} {worst.text_with_unit(summary[worst.name])}"]
    parts += [] if agreement is None else [f"ARI {MEASURES['honest_ari'].text(agreement)}"]
    shown = "" if alone is None else f", {percent(alone, digits=0)} alone"
    suspects = f"; {_suspects(summary)}" if "rule_weights" in summary else ""
    attackers = count(len(summary["attackers"]), "attacker")
    return f"honest clients: {', '.join(parts)}; {attackers}{shown}{suspects}"


def suspects(summary: Mapping[str, Any]) -> list[int]:
    """Positions of the clients to whose updates the robust rule gives less than half of the weight
    that they have in a plain mean.

    Args:
        summary: summary of a run with a robust rule.
    """
    return [
        client
        for client, weight in enumerate(summary["rule_weights"])
        if weight is not None and weight < SUSPECT
    ]


def _suspects(summary: Mapping[str, Any]) -> str:
    """Text with the number of clients that a robust rule suspects, and how many of them are
    attackers."""
    clients = suspects(summary)
    guilty = len(set(clients) & set(summary["attackers"]))
    return f"the rule suspects {count(len(clients), 'client')}, {guilty} of them attackers"


def html(summaries: Sequence[Mapping[str, Any]], own: Sequence[Measure] = ()) -> str:
    """An HTML table with a row for each method: the main method and the compared methods.

    Args:
        summaries: summaries of the runs.
        own: the user's measures.
    """
    first = summaries[0]
    scores = scores_in(first)
    shown = [scores.final, scores.best, scores.worst, *scores.further]
    honest, worst, _, alone = scores.honest
    others = [*((honest, worst, alone) if "attackers" in first else ()), *own]
    rows = {
        method_title(one["method"]): (
            *(measure.text_with_unit(one.get(measure.name)) for measure in shown),
            _clusters(one),
            *(measure.text_with_unit(one[measure.name]) for measure in others),
        )
        for one in summaries
    }
    heads = [measure.short or measure.label for measure in shown]
    heads += [MEASURES["clusters"].head, *(measure.short or measure.label for measure in others)]
    return html_table(
        f"{_title(first)}: {count(first['rounds'], 'round')}, seed {first['seed']}", rows, heads
    )


def _title(summary: Mapping[str, Any]) -> str:
    """Text with a run's method, data and model."""
    return f"{method_title(summary['method'])} on {summary['data']} with {summary['model']}"


def _clusters(summary: Mapping[str, Any]) -> str:
    """Text with the number of clusters, and their sizes if there are at most 8."""
    sizes = summary["cluster_sizes"] or []
    shown = f" of {', '.join(map(str, sizes))} clients" if 0 < len(sizes) <= 8 else ""
    return f"{count(summary['clusters'], 'cluster')}{shown}"
