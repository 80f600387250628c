"""FedGroup's part of docs/results.md."""

from __future__ import annotations

from fedkin.experiment.reproduce.fedgroup import TABLE_I_PUBLISHED, TABLE_III
from fedkin.experiment.reproduce.tables import Measured, accuracies, by_classes, share


def section(measured: Measured) -> str:
    """Tables I and III."""
    printed = [cell for cell in TABLE_III if "own images" not in cell.setting.row]
    return "\n\n".join(
        [
            "## FedGroup (arXiv 2010.06870)",
            f"Of Table III's rows that train on a CPU in reasonable time, {share(measured, printed)}",
            "### Table III: best accuracy (%)",
            accuracies(measured, TABLE_III, "best"),
            "### The same runs: accuracy in the last round (%)",
            accuracies(measured, TABLE_III, "final", with_paper=False),
            "### Table I: FedAvg on MNIST-MCLR by classes per client",
            by_classes(measured, {str(k): v for k, v in TABLE_I_PUBLISHED.items()}, "discrepancy"),
        ]
    )
