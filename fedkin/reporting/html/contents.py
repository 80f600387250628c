"""Everything that a report shows, as plain JSON: page and pictures are drawn from the same."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import tomli_w
from jaxtyping import Int

from fedkin.core.errors import FedkinError
from fedkin.core.method import UNASSIGNED
from fedkin.data.federated import FederatedData
from fedkin.reporting.html import charts, comparison_section
from fedkin.reporting.html.alluvial import BANDS, OTHERS, Alluvial, alluvial, migrations
from fedkin.reporting.html.client_similarity import ClientSimilarity, alike, portrait_of
from fedkin.reporting.html.dendrogram import Tree, dendrogram, split_tree, splits
from fedkin.reporting.html.read_runs import Cell, Subject, assignments
from fedkin.run import run_folder
from fedkin.run.results import Run
from fedkin.simulation.workers import AnyModel

Json = dict[str, Any]
_MOST_CLASSES, _MOST_ROWS = 100, 24  # of the picture of labels
_BUSIEST = 12  # rounds in the table of moves
PORTRAITS = 24  # at most, where settings do not ask for more: each has up to 200 x 200 cosines


def contents(
    subject: Subject, data: FederatedData | None = None, model: AnyModel | None = None, portraits: bool = True
) -> Json:
    """A report's contents.

    Keys: title, line (what was run), notes (what is missing), table, views (curves by setting), portraits (by what a
    cell says is its ``similarity_map``), cells (one per run), and of a comparison its own tables (``comparison``) and
    differences (``words``).
    """
    keys = alike([cell.run for cell in subject.cells], data, model)
    drawn, remarks = {}, ["No client map, similarities and labels: they were not asked for."]
    if portraits:
        drawn, remarks = _gallery(subject, keys, data, model)
    untold = [cell.label for cell in subject.cells if cell.run.migrations and not assignments(cell.run)]
    lost = [f"{label}: its moves are damaged or not its own; who moved when is not shown." for label in untold]
    notes = [*subject.notes, *lost, *remarks]
    tables, words = comparison_section.tables(subject.comparison)
    return {
        "title": _title(subject),
        "line": _line(subject),
        "notes": list(dict.fromkeys(note.replace("..", ".") for note in notes)),
        "table": charts.table(subject),
        "views": [_view(subject, setting) for setting in subject.settings],
        "portraits": {key: _portrait(one) for key, one in drawn.items()},
        "cells": [_cell(cell, key, drawn.get(key)) for cell, key in zip(subject.cells, keys, strict=True)],
        "comparison": tables,
        "words": words,
    }


def _gallery(
    subject: Subject, keys: Sequence[str], data: FederatedData | None, model: AnyModel | None
) -> tuple[dict[str, ClientSimilarity], list[str]]:
    """The portraits by their keys, one of every setting and PORTRAITS at most beyond that, and which there are not."""
    cells, notes, drawn = list(zip(subject.cells, keys, strict=True)), [], {}
    firsts = {cell.setting: (cell, key) for cell, key in reversed(cells)}
    wanted = dict.fromkeys(key for _, key in (*reversed(firsts.values()), *cells))
    made = list(wanted)[: max(PORTRAITS, len(firsts))]
    for key in made:
        cell = next(cell for cell, own in cells if own == key)
        try:
            drawn[key] = portrait_of(cell.run, data, model)
        except FedkinError as error:
            of = f" for {cell.setting}" if cell.setting else ""
            notes.append(f"No client map, similarities and labels{of}: {error}.")
    left = [cell.label for cell, key in cells if key not in made]
    if left:
        shown = f"{'; '.join(left[:3])}{' ...' if len(left) > 3 else ''}"
        notes.append(
            f"No client map, similarities and labels of {len(left)} runs, for which data moved otherwise: {shown}."
        )
    return drawn, notes


def _title(subject: Subject) -> str:
    names = subject.methods
    shown = " / ".join(names) if len(names) <= 4 else f"{len(names)} methods"
    sets = list(dict.fromkeys(str(cell.run.config["data"]["name"]) for cell in subject.cells))
    return f"{shown} on {' / '.join(sets[:3])}"


def _line(subject: Subject) -> str:
    """What was run, in a line."""
    run = next((cell.run for cell in subject.cells if cell.whole), subject.cells[0].run)
    seeds = sorted({cell.seed for cell in subject.cells})
    told = [f"{len(run.assignment):,} clients"]
    if isinstance(run.config["run"].get("cohort"), int):
        told.append(f"{run.config['run']['cohort']:,} a round")
    told.append(f"{max(cell.run.records[-1]['round'] for cell in subject.cells):,} rounds")
    told.append(f"model {run.config['model']['name']}")
    told.append(f"seed {seeds[0]}" if len(seeds) == 1 else f"{len(seeds)} seeds ({seeds[0]} to {seeds[-1]})")
    return ", ".join(told)


def _view(subject: Subject, setting: str) -> Json:
    """The curves of all methods in one setting."""
    methods = [name for name in subject.methods if subject.of(setting, name)]
    lines = [{"method": name, **charts.overall(subject.of(setting, name))} for name in methods]
    longest = max((run for name in methods for run in subject.of(setting, name)), key=lambda run: len(run.records))
    return {"setting": setting, "lines": lines, "marks": charts.marks(longest, assignments(longest))}


def _portrait(one: ClientSimilarity) -> Json:
    """What all cells with this portrait share; cosines as bytes, from the least (0) to the largest (255)."""
    low, high = float(one.similarity.min()), float(one.similarity.max())
    steps = np.rint(255 * (one.similarity - low) / ((high - low) or 1)).astype(np.uint8)
    scale = float(np.abs(one.scores).max()) or 1.0
    return {
        "ids": one.ids.tolist(),
        "x": charts.plain(one.scores[:, 0] / scale),
        "y": charts.plain(one.scores[:, 1] / scale),
        "explained": charts.plain(one.explained),
        "true_clusters": None if one.true_clusters is None else one.true_clusters[one.ids].tolist(),
        "names": None if one.names is None else [one.names[i] for i in one.ids],
        "similarity": base64.b64encode(steps.tobytes()).decode(),
        "range": charts.plain([low, high]),
        "remark": one.remark,
        "clients": len(one.counts),
    }


def _cell(cell: Cell, key: str, similarity_map: ClientSimilarity | None) -> Json:
    run, walked = cell.run, assignments(cell.run)
    kept = _shown(run, walked)
    return {
        "label": cell.label,
        "setting": cell.setting,
        "method": cell.method,
        "seed": cell.seed,
        "clusters": charts.by_cluster(run, kept),
        "shown": kept,
        "marks": charts.marks(run, walked),
        "ribbon": _ribbon(alluvial(walked, kept)) if walked and len(walked[0]) else None,
        "moved": _moved(walked),
        "portrait": key if similarity_map is not None else None,
        "peers": "neighbours" in run.records[-1],
        "bytes": charts.traffic(run),
        "settings": tomli_w.dumps(run.config),
        "versions": _versions(run),
        **(_pictured(run, similarity_map, walked) if similarity_map is not None else {}),
    }


def _shown(run: Run, walked: Sequence[Int[np.ndarray, "N"]]) -> list[int]:
    """The clusters that have a colour of their own: the largest ones, counted over all rounds."""
    every = np.concatenate(walked) if walked else run.assignment
    clusters, clients = np.unique(every[every != UNASSIGNED], return_counts=True)
    return sorted(clusters[np.argsort(-clients, kind="stable")[:BANDS]].tolist())


def _ribbon(drawn: Alluvial) -> Json:
    """Flows as [column, source, target, clients, four corners]."""
    flows = [
        [f.column, f.source, f.target, f.count, [[round(x, 2), round(float(y), 2)] for x, y in f.shape]]
        for f in drawn.flows
    ]
    return {
        "rounds": drawn.rounds.tolist(),
        "bands": [{"cluster": name, "name": cluster_name(name)} for name in drawn.bands],
        "sizes": drawn.sizes.tolist(),
        "base": [[round(float(y), 2) for y in column] for column in drawn.base],
        "flows": flows,
        "ends": [round(end, 2) for end in drawn.ends],
        "last": drawn.last,
        "left_out": drawn.left_out,
    }


def _moved(walked: Sequence[Int[np.ndarray, "N"]]) -> Json:
    """How often clients changed cluster, in how many rounds, and [round, clients, who from where] of the busiest."""
    every = migrations(walked)
    told = [(round, sum(n for n, *_ in pairs), pairs) for round, pairs in every.items()]
    busiest = sorted(told, key=lambda one: -one[1])[:_BUSIEST]
    return {
        "times": sum(count for _, count, _ in told),
        "rounds": len(told),
        "peak": busiest[0][0] if busiest else None,
        "most": [
            [round, count, [[n, cluster_name(source), cluster_name(target)] for n, source, target in pairs[:4]]]
            for round, count, pairs in sorted(busiest)
        ],
    }


def cluster_name(cluster: int) -> str:
    """What a cluster, or what stands for one, is called."""
    return {UNASSIGNED: "no cluster", OTHERS: "other clusters"}.get(cluster, f"cluster {cluster}")


def _pictured(run: Run, similarity_map: ClientSimilarity, walked: Sequence[Int[np.ndarray, "N"]]) -> Json:
    """What one run makes of the portrait: whose cluster is whose, the order of the matrix, labels by cluster."""
    group = run.assignment[similarity_map.ids]
    tree = _tree(run, similarity_map, group, walked)
    present = np.unique(run.assignment)
    sizes = {int(k): int((run.assignment == k).sum()) for k in present}
    warm = sorted(sorted((k for k in sizes if k != UNASSIGNED), key=lambda k: -sizes[k])[:_MOST_ROWS])
    order = [*warm, *([UNASSIGNED] if UNASSIGNED in sizes else [])]
    counts = np.stack([similarity_map.counts[run.assignment == k].sum(axis=0) for k in order])
    classes = np.arange(counts.shape[1])
    if len(classes) > _MOST_CLASSES:  # the most frequent ones
        classes = np.sort(np.argsort(-counts.sum(axis=0), kind="stable")[:_MOST_CLASSES])
    return {
        "group": group.tolist(),
        "tree": {"kind": tree.kind, "order": tree.order.tolist(), "lines": _rounded(tree)},
        "labels": {
            "names": [cluster_name(k) for k in order],
            "clients": [sizes[k] for k in order],
            "classes": classes.tolist(),
            "counts": counts[:, classes].tolist(),
            "left_out": int(counts.shape[1] - len(classes)),
            "rows_left_out": len(sizes) - len(order),
        },
    }


def _tree(
    run: Run, similarity_map: ClientSimilarity, group: Int[np.ndarray, "n"], walked: Sequence[Int[np.ndarray, "N"]]
) -> Tree:
    """The cuts, where the method cuts clusters in two; else what the similarities say."""
    distances = (1 - similarity_map.similarity.astype(np.float64)) / 2
    cuts = splits(walked) if walked else None
    if cuts:
        return split_tree(cuts, group, distances, run.records[-1]["round"])
    return dendrogram(distances, group)


def _rounded(tree: Tree) -> list[list[list[float]]]:
    return [[[round(float(h), 3), round(float(place), 2)] for h, place in line] for line in tree.lines]


def _versions(run: Run) -> dict[str, str]:
    """What the run's environment.json says, flat; empty where there is none."""
    if run.folder is None:
        return {}
    try:
        told = json.loads((run.folder / run_folder.ENVIRONMENT).read_text())
        versions = told.pop("versions", {})
        flat = {**versions, **told}
    except (OSError, ValueError, AttributeError, TypeError):
        return {}
    return {str(k): ", ".join(map(str, v)) if isinstance(v, list) else str(v) for k, v in flat.items()}
