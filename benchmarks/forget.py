"""What it costs to remove a site from a run, next to a run from the beginning.

    python -m benchmarks.forget --write

A federation of planted clusters is trained; then a site is removed by ``fk.forget``, and the run is
repeated from the beginning without it (``Population(silent=...)``). The models of both must have
the same bits. The share of the clients' trainings that was planned before the replay, the measured
share and the seconds are written to ``benchmarks/forget_results.json``, and with ``--write`` into
``docs/forget.md``.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import fedkin as fk
from benchmarks.tables import put_between
from fedkin.data.federated import FederatedData

RESULTS = Path(__file__).with_name("forget_results.json")
PAGE = Path("docs/forget.md")
BEGIN = "<!-- cost of a removal -->\n"
END = "<!-- end of the cost of a removal -->\n"
CLIENTS = 24
CLUSTERS = 4
ROUNDS = 40
COHORT = 12
LATE = ROUNDS // 2  # the round in which the site comes, in the second setting
KEPT = {"all rounds": 1, "every 10th round": 10, "the newest two": 0}


@dataclass(frozen=True)
class Setting:
    """A row of the table: the method, how many checkpoints stay, and when the site came."""

    method: Any
    kept: str
    late: bool = False


SETTINGS = (
    Setting(fk.FedAvg(), "all rounds"),
    Setting(fk.FedAvg(), "all rounds", late=True),
    Setting(fk.FedGroup(clusters=CLUSTERS, eta_g=0.0), "the newest two"),
    Setting(fk.FedGroup(clusters=CLUSTERS, eta_g=0.0), "every 10th round"),
    Setting(fk.FlexCFL(clusters=CLUSTERS), "the newest two"),
    Setting(fk.FlexCFL(clusters=CLUSTERS), "every 10th round"),
    Setting(fk.FlexCFL(clusters=CLUSTERS), "every 10th round", late=True),
    Setting(fk.IFCA(clusters=CLUSTERS), "the newest two"),
    Setting(fk.IFCA(clusters=CLUSTERS), "all rounds"),
    Setting(fk.IFCA(clusters=CLUSTERS), "all rounds", late=True),
)


def made_data() -> FederatedData:
    """Four clusters of six clients: the labels of each cluster are permuted."""
    return fk.planted(
        "mnist",
        "label_permutation",
        clusters=CLUSTERS,
        clients=CLIENTS,
        samples=150,
        test_samples=20,
    )


def simulated(
    setting: Setting, data: FederatedData, out: Path | None, silent: tuple[int, ...] | None = None
) -> fk.Run:
    """The run of a setting; with a client in ``silent`` that never replies."""
    every = KEPT[setting.kept]
    return fk.simulate(
        setting.method,
        data,
        fk.models.mlp(data),
        rounds=ROUNDS,
        cohort=COHORT,
        local=fk.LocalTraining(epochs=5, lr=0.05),
        scenario=fk.Population(silent=silent, arrivals={LATE + 1: 1} if setting.late else {}),
        scoring=fk.Scoring(
            evaluate_every=10, checkpoint_every=every or 10, keep_checkpoints=every > 0
        ),
        out=out,
        callbacks=fk.Progress(False),
    )


def measured(setting: Setting, folder: Path) -> dict[str, Any]:
    """The cost of a removal in a setting, and whether it has the bits of a run without the site."""
    data = made_data()
    site = CLIENTS - 1 if setting.late else 0
    run = simulated(setting, data, folder / "run")
    plans: list[Any] = []
    begin = time.perf_counter()
    done = fk.forget(run, [site], on_plan=plans.append)
    seconds = time.perf_counter() - begin
    begin = time.perf_counter()
    reference = simulated(setting, data, None, silent=(site,))
    whole = time.perf_counter() - begin
    return {
        "method": type(setting.method).__name__,
        "kept": setting.kept,
        "late": setting.late,
        "clusters": len(done.record["clusters_replayed"]),
        "of_clusters": len(run.models),
        "rounds": done.record["rounds_replayed"],
        "planned": plans[0].share,
        "measured": done.record["measured"]["share"],
        "at_start": done.record["measured"]["trainings_at_start_or_placement"],
        "seconds": round(seconds, 2),
        "whole_seconds": round(whole, 2),
        "equal_bits": bool(
            np.array_equal(done.run.models, reference.models)
            and np.array_equal(done.run.assignment, reference.assignment)
        ),
    }


def table(rows: list[dict[str, Any]]) -> str:
    """The table of the page."""
    heads = (
        "method | site came | checkpoints that stayed | clusters again | rounds again | "
        "planned share | measured share | at the start | seconds | seconds from the beginning | "
        "equal bits"
    )
    lines = [f"| {heads} |", "|" + "---|" * (heads.count("|") + 1)]
    for row in rows:
        cells = (
            row["method"],
            f"round {LATE + 1}" if row["late"] else "at the start",
            row["kept"],
            f"{row['clusters']} of {row['of_clusters']}",
            f"{row['rounds']} of {ROUNDS}",
            f"{row['planned']:.1%}",
            f"{row['measured']:.1%}",
            str(row["at_start"]),
            f"{row['seconds']:.1f}",
            f"{row['whole_seconds']:.1f}",
            "yes" if row["equal_bits"] else "no",
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def write(rows: list[dict[str, Any]]) -> None:
    """Put the table into the page."""
    put_between(PAGE, BEGIN, END, f"\n{table(rows)}\n")


def main() -> None:
    """Measure all settings, and print the table."""
    parser = argparse.ArgumentParser(description="Measure the cost of a removal.")
    parser.add_argument("--write", action="store_true", help=f"write the table into {PAGE}")
    arguments = parser.parse_args()
    # The first run compiles the programs, which must not count.
    simulated(SETTINGS[0], made_data(), None)
    rows = []
    for setting in SETTINGS:
        with tempfile.TemporaryDirectory() as folder:
            rows.append(measured(setting, Path(folder)))
        print(json.dumps(rows[-1]), flush=True)
    RESULTS.write_text(json.dumps(rows, indent=1) + "\n")
    print(table(rows))
    if arguments.write:
        write(rows)


if __name__ == "__main__":
    main()
