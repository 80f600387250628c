"""FedSim's Table 3: the milliseconds of a communication round, ours next to the paper's.

``python -m benchmarks.fedsim --write`` measures ours and stores them in round_times.json.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from papers.fedsim.recipes import FEMNIST, GOODREADS, MEX, MNIST
from papers.recipe import Setting
from papers.reproduction_marks import Results
from papers.tables_markdown import markdown

STORE = Path(__file__).with_suffix(".json")
WITH_PCA = "with PCA"
WITHOUT_PCA = "without PCA"
# Milliseconds of a round: FedAvg, FedProx, FedSim (Table 3); saved by PCA (section 5.3).
PRINTED: dict[Setting, tuple[float, float, float, float]] = {
    MNIST: (2929.3, 1423.7, 2858.3, 230.0),
    FEMNIST: (4433.5, 5855.8, 4443.4, 469.1),
    MEX: (759.9, 949.9, 1049.5, 19.3),
    GOODREADS: (541.8, 716.7, 646.8, 92.9),
}
NOTE = """\
Milliseconds of a communication round without scoring, median of {turns} turns on the same cohorts;
in brackets: the paper's, on its machines. The last three columns have FedSim with scikit-learn's
K-means, as in the authors' code: with principal components, without them, and the difference."""

# Milliseconds by method.
Medians = Mapping[str, float]


def write(machine: str, turns: int, medians: Mapping[Setting, Medians]) -> None:
    """Store measured times.

    Args:
        machine: processor and versions, in words.
        turns: rounds of each method that counted.
        medians: median milliseconds of a round, by row and method.
    """
    rows = {
        setting.row: {method: round(time, 2) for method, time in of_row.items()}
        for setting, of_row in medians.items()
    }
    stored = {"machine": machine, "turns": turns, "milliseconds": rows}
    STORE.write_text(json.dumps(stored, indent=2) + "\n", encoding="utf-8")


def section(results: Results) -> str:
    """The stored times as a table, with a note; ``not run`` without stored times."""
    if not STORE.exists():
        return "not run"
    stored = json.loads(STORE.read_text(encoding="utf-8"))
    medians = {
        setting: stored["milliseconds"][setting.row]
        for setting in PRINTED
        if setting.row in stored["milliseconds"]
    }
    note = NOTE.format(turns=stored["turns"])
    return f"{table(medians)}\n\n{note} Ours: {stored['machine']}"


def table(medians: Mapping[Setting, Medians]) -> str:
    """Table 3 as Markdown: ours in milliseconds, the paper's in brackets.

    Args:
        medians: median milliseconds of a round, by row and method.
    """
    lines = []
    for setting, of_row in medians.items():
        *printed, saved = PRINTED[setting]
        methods = zip(("FedAvg", "FedProx", "FedSim"), printed, strict=True)
        lines.append(
            [
                setting.row,
                *(f"{of_row[name]:.1f} ({theirs})" for name, theirs in methods),
                f"{of_row[WITH_PCA]:.1f}",
                f"{of_row[WITHOUT_PCA]:.1f}",
                f"{of_row[WITHOUT_PCA] - of_row[WITH_PCA]:.1f} ({saved})",
            ]
        )
    return markdown(["", "FedAvg", "FedProx", "FedSim", WITH_PCA, WITHOUT_PCA, "saved"], lines)
