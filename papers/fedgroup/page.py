"""FedGroup's part of docs/results.md."""

from __future__ import annotations

from papers.fedgroup.recipes import TABLE_I_PUBLISHED, TABLE_III
from papers.tables_markdown import Results, accuracies, by_classes, share

PUBLISHED_I = {str(classes): numbers for classes, numbers in TABLE_I_PUBLISHED.items()}


def table_iii(results: Results) -> str:
    """Best accuracies beside the paper's, and the last ones."""
    printed = [cell for cell in TABLE_III if not cell.setting.deviation]
    return "\n\n".join(
        [
            f"Of Table III's rows that train on a CPU in reasonable time, {share(results, printed)}",
            "### Table III: best accuracy (%)",
            accuracies(results, TABLE_III, "best"),
            "### The same runs: accuracy in the last round (%)",
            accuracies(results, TABLE_III, "final", with_paper=False),
        ]
    )


def table_i(results: Results) -> str:
    """FedAvg's clients with more and more classes."""
    heading = "### Table I: FedAvg on MNIST-MCLR by classes per client"
    return f"{heading}\n\n{by_classes(results, PUBLISHED_I, 'discrepancy')}"
