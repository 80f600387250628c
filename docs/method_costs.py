"""The cost of each method, compared with FedAvg, for the methods' pages.

Bytes come from the ledger of a small run. ``python -m docs.method_costs`` makes these runs in a few
minutes, and writes ``methods/costs.json``, which the site reads. Times come from the table of
``benchmarks-methods.md``.
"""

from __future__ import annotations

import json
import logging
import re
import statistics
import warnings
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import fedkin as fk
from fedkin.core.errors import FedkinError
from fedkin.methods import METHODS

HERE = Path(__file__).parent
STORED = HERE / "methods" / "costs.json"
ROUNDS = 25
CLIENTS = 20
COHORT = 10
ABOUT = (
    f"Compared with FedAvg; bytes of a run of {ROUNDS} rounds with the method's defaults, "
    f"{CLIENTS} clients with handwritten digits, {COHORT} of them in a round, and a network of "
    "64-128-10. All messages are counted except those of evaluation."
)


class Bytes(NamedTuple):
    """Bytes to and from clients."""

    down: float
    up: float

    def relative(self, other: Bytes) -> Bytes:
        """This number of bytes divided by another."""
        return Bytes(self.down / other.down, self.up / other.up)


class Traffic(NamedTuple):
    """The traffic of a run."""

    round: Bytes  # a typical round: the median
    total: Bytes  # of all rounds, and of the search for clusters before them


def traffic(names: Iterable[str]) -> dict[str, Traffic]:
    """The traffic of methods relative to FedAvg, without those that need other data or another
    model.

    Args:
        names: the methods' names in configurations.
    """
    logging.getLogger("fedkin").setLevel(logging.ERROR)
    data = fk.data.digits(clients=CLIENTS)
    found = {name: measured(METHODS[name](), data) for name in names}
    base = measured(METHODS["fedavg"](), data)
    assert base is not None
    return {
        name: Traffic(one.round.relative(base.round), one.total.relative(base.total))
        for name, one in found.items()
        if one is not None
    }


def measured(method: Any, data: fk.FederatedData) -> Traffic | None:
    """The traffic of one method; None if it needs other data or another model.

    Args:
        method: the method, with its defaults.
        data: the clients' data.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            run = fk.simulate(
                method,
                data,
                fk.models.mlp(data),
                rounds=ROUNDS,
                cohort=COHORT,
                local=fk.SGD(epochs=1, batch_size=10, lr=0.05),
                scoring=fk.Scoring(evaluate_clients=2),
            )
        except FedkinError:
            return None
    down = [record["bytes_down"] for record in run.records]
    up = [record["bytes_up"] for record in run.records]
    return Traffic(Bytes(_step(down), _step(up)), Bytes(down[-1], up[-1]))


def _step(totals: list[int]) -> float:
    """The median of the differences of neighbours."""
    return statistics.median(after - before for before, after in pairwise(totals))


def stored() -> dict[str, Traffic]:
    """The traffic of each method, as it was measured."""
    values = json.loads(STORED.read_text())
    return {
        name: Traffic(Bytes(*one["round"]), Bytes(*one["total"])) for name, one in values.items()
    }


def store(measured_traffic: dict[str, Traffic]) -> None:
    """Write the traffic of all methods.

    Args:
        measured_traffic: ``traffic(METHODS)``.
    """
    lines = []
    for name, one in measured_traffic.items():
        rounded = {
            "round": [round(share, 3) for share in one.round],
            "total": [round(share, 3) for share in one.total],
        }
        lines.append(f"  {json.dumps(name)}: {json.dumps(rounded)}")
    STORED.write_text("{\n" + ",\n".join(lines) + "\n}\n")


def times() -> dict[str, str]:
    """The time of a round of each method, relative to FedAvg, as ``benchmarks-methods.md`` has
    it."""
    page = (HERE / "benchmarks-methods.md").read_text()
    table = page.partition("<!-- throughput mlp -->")[2].partition("\n\n")[0]
    return dict(re.findall(r"^\| (\w+) \|.*?\| x ([\d.]+) \|", table, re.MULTILINE))


def table(names: list[str], bytes_of: dict[str, Traffic], times_of: dict[str, str]) -> str:
    """The costs of the methods of one page.

    Args:
        names: the methods' names in configurations.
        bytes_of: ``stored()``.
        times_of: ``times()``.
    """
    head = (
        f"| method | download, a round | upload, a round | download, {ROUNDS} rounds | "
        f"upload, {ROUNDS} rounds | time of a round |\n|---|--:|--:|--:|--:|--:|\n"
    )
    rows = []
    for name in names:
        cells = ["-"] * 4
        if name in bytes_of:
            one = bytes_of[name]
            cells = [times_word(share) for share in (*one.round, *one.total)]
        time = f"x {times_of[name]}" if name in times_of else "-"
        rows.append(f"| `{name}` | {' | '.join([*cells, time])} |\n")
    return head + "".join(rows)


def times_word(share: float) -> str:
    """A ratio as a cell: x 1.00."""
    return f"x {share:.2f}"


if __name__ == "__main__":
    store(traffic(METHODS))
