"""Runs that were never run, for reports. Their records and moves are written down here, so that the
report is known beforehand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import tomli_w

from fedkin.config.description import Description
from fedkin.core.method import State
from fedkin.core.records import Record
from fedkin.run.folder.migrations import find_migrations
from fedkin.run.run import Run

_CLUSTERING = (
    *("stability", "migrations", "migrations_correct", "true_cluster_changes", "changes_recovered"),
    *(
        "recovery_delay_sum",
        "newcomer_delay_sum",
        "newcomers_matched",
        "shifts_detected",
        "shifts_detected_true",
    ),
    *("data_shifts_new", "detection_delay_sum"),
)


def record(round: int, sizes: list[int], accuracy: float | None = None, **more: Any) -> Record:
    """What a round's line says, as far as a report reads it."""
    value = accuracy if accuracy is not None else 0.5 + round / 1000
    shares = {
        "accuracy": value,
        "bottom_decile": value / 2,
        "accuracy_by_cluster": [value] * len(sizes),
    }
    verbs = {"train": [100 * round, 50 * round], "scoring.evaluate": [7, 0]}
    own = {"bytes_down": 100 * round, "bytes_up": 50 * round, "bytes_by_operation": verbs}
    unknown = ("data_shifts", "discrepancy_sum", "median_client", "ari", "nmi", *_CLUSTERING)
    rest = {
        "partial": False,
        "cluster_sizes": sizes,
        "missing": 0,
        "nonfinite": 0,
        **dict.fromkeys(unknown),
    }
    return {"round": round, **shares, **rest, **own, **more}


def a_run(
    assignments: np.ndarray, method: str = "ifca", data: str = "tiny", seed: int = 0, **records: Any
) -> Run:
    """A run of so many rounds as there are rows in ``assignments`` [R N], less one."""
    clusters = int(assignments.max()) + 1
    sizes = [np.bincount(row[row >= 0], minlength=clusters).tolist() for row in assignments]
    told = [
        record(r, sizes[r], **{k: v[r] for k, v in records.items()})
        for r in range(len(assignments))
    ]
    before = np.concatenate([np.full((1, assignments.shape[1]), -1), assignments[:-1]])
    changed = {r: np.flatnonzero(row != before[r]) for r, row in enumerate(assignments)}
    moves = [
        find_migrations(r, who, assignments[r][who])
        for r, who in changed.items()
        if r == 0 or len(who)
    ]
    config = {
        "python": {"note": "made up"},
        "data": {"name": data},
        "model": {"name": "mclr"},
        "method": {"name": method},
        "local": {"lr": 0.1, "batch_size": 10},
        "run": {"seed": seed, "cohort": 3, "rounds": len(assignments) - 1},
    }
    state = State(np.zeros((clusters, 2), np.float32), assignments[-1].astype(np.int64))
    clients = {"client": np.arange(assignments.shape[1])}
    return Run(
        config=Description(config),
        records=told,
        state=state,
        client_columns=clients,
        seconds=1.5,
        migrations=moves,
    )


def unfinished(run: Run, folder: Path) -> Path:
    """The folder that a run leaves which was stopped: no summary, no table of clients."""
    folder.mkdir(parents=True)
    (folder / "config.toml").write_text(tomli_w.dumps(run.config.sections))
    for name, lines in (("metrics.jsonl", run.records), ("migrations.jsonl", run.migrations)):
        (folder / name).write_text("".join(json.dumps(line) + "\n" for line in lines))
    return folder


def wandering(
    clients: int, rounds: int, clusters: int = 3, share: float = 0.01, seed: int = 0
) -> np.ndarray:
    """Assignments [rounds + 1, clients] in which a few clients move in every round."""
    rng = np.random.default_rng(seed)
    rows = [rng.integers(clusters, size=clients)]
    for _ in range(rounds):
        moved = rng.random(clients) < share
        rows.append(np.where(moved, rng.integers(clusters, size=clients), rows[-1]))
    return np.stack(rows)
