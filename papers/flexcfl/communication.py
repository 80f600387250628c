"""FlexCFL's communication (Fig. 6 and the text), and ours."""

from __future__ import annotations

from statistics import mean
from typing import NamedTuple

from papers.flexcfl.recipes import COUNTED, FIGURE_6, GAIN_OF_IFCA_MIG, MNIST, MORE_6, PRINTED_6
from papers.reproduction_marks import (
    RATIO_MARGIN,
    ComparedNumber,
    Results,
    average,
    compare_number,
    figures_by_seed,
    values_of,
)

# Methods that place a client by its first update, which it trains from the initial model.
FROM_FIRST_UPDATES = ("FlexCFL", "FlexCFL, eta_g 5")


def relative_bytes(results: Results) -> list[ComparedNumber]:
    """Bytes between server and clients over FedAvg's; the text's eta_g against FlexCFL counts
    servers' bytes too."""
    numbers = []
    for row in dict.fromkeys(c.setting.row for c in FIGURE_6):
        for column in COUNTED:
            ours = _ratio(
                bytes_of(results, row, column).clients, bytes_of(results, row, "FedAvg").clients
            )
            numbers.append(
                _times(
                    row=row,
                    column=column,
                    printed=PRINTED_6.get((row, column)),
                    ours=ours,
                    seeds=_runs(results, row, column),
                )
            )
    row, column, over, printed = MORE_6
    ours = _ratio(bytes_of(results, row, column).servers, bytes_of(results, row, over).servers)
    return [
        *numbers,
        _times(
            row=row,
            column=f"{column}, over {over}",
            printed=printed,
            ours=ours,
            seeds=_runs(results, row, column),
        ),
    ]


def gain_of_ifca_mig(results: Results) -> ComparedNumber:
    """The accuracy that IFCA-MIG gains over FedAvg for its bytes. The text prints the gain, and no
    table has IFCA-MIG's accuracy."""
    row = f"{MNIST.row}: swap all"
    ours, base = (
        figures_by_seed(results=results, table="IV", row=row, column=column, figure="best")
        for column in ("IFCA-MIG", "FedAvg")
    )
    seeds = sorted(ours.keys() & base.keys())
    gains = [100 * (ours[seed] - base[seed]) for seed in seeds]
    return compare_number(
        row,
        "IFCA-MIG, over FedAvg",
        GAIN_OF_IFCA_MIG,
        average(gains),
        seeds=len(seeds),
        runs=gains,
        draws=len({MNIST.draw(seed) for seed in seeds}),
    )


def _times(
    row: str, column: str, printed: float | None, ours: float | None, seeds: int
) -> ComparedNumber:
    margin = RATIO_MARGIN * (printed or 0)
    return compare_number(row, column, printed, ours, margin=margin, unit="times", seeds=seeds)


def _runs(results: Results, row: str, column: str) -> int:
    return len(_figures(results, row, column, "bytes_down"))


def _ratio(ours: float, base: float) -> float | None:
    return ours / base if ours and base else None


class Traffic(NamedTuple):
    """Bytes of a method over all rounds, mean over the runs; zero without runs.

    Attributes:
        clients: between server and clients, as the ledger counts them.
        servers: with the exchange between the servers of clusters.
        first_models: with the initial model w_0 of each placed client. It costs nothing in the
            ledger, because clients make it from the seed. A federation that sends it pays this.
    """

    clients: float
    servers: float
    first_models: float


def bytes_of(results: Results, row: str, column: str) -> Traffic:
    """The traffic of a method.

    Args:
        results: stored runs.
        row: of Figure 6.
        column: the method.
    """
    down = _figures(results, row, column, "bytes_down")
    if not down:
        return Traffic(0.0, 0.0, 0.0)
    up = _figures(results, row, column, "bytes_up")
    servers = _figures(results, row, column, "bytes_servers")
    clients = float(mean(down) + mean(up))
    with_servers = clients + (mean(servers) if servers else 0.0)
    sizes = _figures(results, row, column, "sizes")
    placed = mean(sum(one) for one in sizes) if sizes else 0.0
    model = _model_bytes(results, row)
    first = placed * model if column in FROM_FIRST_UPDATES else 0.0
    return Traffic(clients, with_servers, with_servers + first)


def _model_bytes(results: Results, row: str) -> float:
    """Bytes of one model: FedAvg sends one to each client of a cohort, in every round."""
    setting = next(cell.setting for cell in FIGURE_6 if cell.setting.row == row)
    down = _figures(results, row, "FedAvg", "bytes_down")
    return mean(down) / (setting.rounds * setting.cohort) if down else 0.0


def _figures(results: Results, row: str, column: str, figure: str) -> list:
    return values_of(results=results, table="Fig. 6", row=row, column=column, figure=figure)
