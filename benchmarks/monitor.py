"""False alarms and delays of the monitor of clusters, next to detectors of the library river.

    python -m benchmarks.monitor --write

1. Quiet federations: a year of daily rounds on data that do not change. How many of 300 streams
   (clients) raise an alarm, with and without drop-outs?
2. Changes: in 100 runs one client's labels are permuted, or its features move by one standard
   deviation. How many rounds later is the alarm of this client?
3. The same streams of losses, read by Page-Hinkley and ADWIN at river's defaults.

The results are written to ``benchmarks/monitor_results.json``, and with ``--write`` into
``docs/monitor.md``.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from jaxtyping import Bool, Int

import fedkin as fk
from fedkin.data.federated import FederatedData
from fedkin.scenarios.own_rows import with_own_rows

RESULTS = Path(__file__).with_name("monitor_results.json")
PAGE = Path("docs/monitor.md")
BEGIN = "<!-- monitor -->\n"
END = "<!-- end of monitor -->\n"
CLIENTS = 12
YEAR = 365
CHANGE_AT = 60  # the first round of a change
ROUNDS_AFTER = 60


@dataclass(frozen=True)
class OneClientChanges:
    """A shift of one client's data: its labels are permuted, or its features move.

    Attributes:
        client: the client.
        kind: ``labels``: class c becomes c + 1. ``features``: every feature is larger by the
            standard deviation of the feature over all samples.
        at: the round.
    """

    client: int
    kind: Literal["labels", "features"]
    at: int

    def step(
        self,
        original: FederatedData,
        current: FederatedData,
        round: int,
        reachable: Int[np.ndarray, "c"],
        stream: fk.Stream,
    ) -> tuple[FederatedData, Bool[np.ndarray, "N"]]:
        """The data of a round."""
        del reachable, stream
        shifted = np.zeros(original.clients, bool)
        if round != self.at:
            return current, shifted
        shifted[self.client] = True
        data = with_own_rows(original)
        parts = [data.part(split)[self.client] for split in ("train", "test", "validation")]
        rows = np.concatenate(parts)
        x = data.x.copy()
        y = data.y.copy()
        if self.kind == "labels":
            y[rows] = (y[rows] + 1) % original.classes
        else:
            x[rows] += original.x.std(axis=0)
        changed = data.with_rows(
            train=data.train,
            test=data.test,
            validation=data.validation,
            x=x,
            y=y,
            unit=data.unit,
        )
        return changed, shifted


@dataclass(frozen=True)
class Setting:
    """A kind of federation that is watched."""

    name: str
    method: Any
    dropout: float = 0.0


SETTINGS = (
    Setting("one model", fk.FedAvg()),
    Setting("two clusters", fk.FedGroup(clusters=2)),
    Setting("one model, 30% drop-outs", fk.FedAvg(), dropout=0.3),
    Setting("two clusters, 30% drop-outs", fk.FedGroup(clusters=2), dropout=0.3),
)


def watched(setting: Setting, seed: int, rounds: int, shift: Any = None) -> Any:
    """A run of digits on 12 clients with the monitor.

    Args:
        setting: method and drop-outs.
        seed: seed of the run and of the partition.
        rounds: number of rounds.
        shift: a shift of the data.
    """
    data = fk.data.digits(clients=CLIENTS, seed=seed).with_validation(0.2)
    return fk.simulate(
        setting.method,
        data,
        fk.models.mclr(data),
        rounds=rounds,
        cohort=CLIENTS,
        seed=seed,
        local=fk.LocalTraining(lr=0.1, epochs=2),
        scenario=fk.Population(dropout=setting.dropout),
        scoring=fk.Scoring(evaluate_every=rounds),
        shift=shift,
        options=[fk.Monitor(act="watch")],
    )


def alarms(run: Any) -> list[tuple[int, int]]:
    """Round and client of each alarm of a run."""
    acts = [act for record in run.records for act in record["monitor_acts"]]
    return [(act["round"], act["client"]) for act in acts if act["kind"] == "alarm"]


def quiet(setting: Setting, runs: int) -> dict[str, Any]:
    """How many streams of quiet federations raise an alarm in a year."""
    streams = 0
    for seed in range(runs):
        found = {client for _, client in alarms(watched(setting, seed, YEAR))}
        streams += len(found)
    return {"streams": runs * CLIENTS, "alarms": streams}


def delays(setting: Setting, kind: Literal["labels", "features"], runs: int) -> dict[str, Any]:
    """Rounds from a change to the changed client's alarm; None where there was none."""
    found: list[int | None] = []
    before = 0
    for seed in range(runs):
        client = seed % CLIENTS
        shift = OneClientChanges(client, kind, CHANGE_AT)
        run = watched(setting, seed, CHANGE_AT + ROUNDS_AFTER, shift)
        its = [round for round, of in alarms(run) if of == client and round >= CHANGE_AT]
        before += sum(round < CHANGE_AT for round, _ in alarms(run))
        # A change in round r is first seen by the check of round r: that is one round.
        found.append(its[0] - CHANGE_AT + 1 if its else None)
    return {"delays": found, "earlier_alarms": before}
