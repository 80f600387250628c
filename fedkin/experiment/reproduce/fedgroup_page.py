"""FedGroup's part of docs/results.md."""

from __future__ import annotations

from collections.abc import Callable

from fedkin.experiment.reproduce.fedgroup import TABLE_I_PUBLISHED, TABLE_III
from fedkin.experiment.reproduce.tables import Measured, accuracies, markdown, number, of, percent, share


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
            table_i(measured),
        ]
    )


def table_i(measured: Measured) -> str:
    """Classes per client down; what the paper measures across."""
    names = ("discrepancy_mean", "discrepancy_variance", "best", "median", "rounds_to_85")
    head = ["classes", "discrepancy, mean", "variance", "best accuracy (%)", "median (%)", "rounds to 85%"]
    forms: list[Callable[[list], str]] = [number, number, percent, percent, number]
    rows = []
    for classes, published in TABLE_I_PUBLISHED.items():
        ours = [form(of(measured, "I", str(classes), "FedAvg", name)) for name, form in zip(names, forms, strict=True)]
        rows.append([str(classes), *(f"{o}<br>*{p}*" for o, p in zip(ours, published, strict=True))])
    return markdown(head, rows)
