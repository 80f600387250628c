"""Parts of FlexCFL's page: detected shifts, and bytes."""

from __future__ import annotations

from typing import Any

from papers.flexcfl.communication import bytes_of
from papers.flexcfl.page import communication, detected

MODEL = 100  # bytes
ROUNDS = 300
COHORT = 20


def line(table: str, row: str, column: str, seed: int = 0, **figures: Any) -> dict[str, Any]:
    return {"table": table, "row": row, "column": column, "seed": seed, **figures}


def sent(column: str, down: int, sizes: list[int], servers: int = 0) -> dict[str, Any]:
    up = ROUNDS * COHORT * MODEL
    return line(
        "Fig. 6",
        "MNIST, swap all",
        column,
        bytes_down=down,
        bytes_up=up,
        bytes_servers=servers,
        sizes=sizes,
    )


FEDAVG = sent("FedAvg", ROUNDS * COHORT * MODEL, [1000])
# 1,000 clients are placed, and each needs 3 directions once.
FLEXCFL = sent("FlexCFL", (ROUNDS * COHORT + 3 * 1000) * MODEL, [400, 500, 100], servers=MODEL)


def test_a_newcomers_first_model_is_counted_in_a_separate_column() -> None:
    """12,000 models of FedAvg; 3,000 more for directions, 1 between servers, 1,000 first models."""
    traffic = bytes_of([FEDAVG, FLEXCFL], "MNIST, swap all", "FlexCFL")
    assert traffic == (15_000 * MODEL, 15_001 * MODEL, 16_001 * MODEL)
    assert bytes_of([FEDAVG], "MNIST, swap all", "FedAvg") == (12_000 * MODEL,) * 3
    text = communication([FEDAVG, FLEXCFL])
    assert "|  | FlexCFL | 1.25 | 1.25 | 1.333 | 1.26 ✓ |" in text
    assert "| MNIST, swap all | IFCA | not run | not run | not run |  |" in text


def test_detected_shifts_are_means_over_the_runs() -> None:
    shares = {"moves_noticed": 0.8, "shift_recall": 0.9, "shift_precision": 1.0}
    runs = [
        line("IV", "MNIST-MCLR: swap all", "FlexCFL", seed, **shares, migrations=1000 + 500 * seed)
        for seed in range(2)
    ]
    text = detected(runs)
    assert "| MNIST-MCLR | FlexCFL | 80.0 | 90.0 | 100.0 | 1,250 |" in text
    assert "draw 0" not in text and "five labels" not in text
