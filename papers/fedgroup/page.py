"""FedGroup's page, docs/results-fedgroup.md."""

from __future__ import annotations

from papers import femnist_draws, femnist_label_swaps
from papers.fedgroup import candidate_recipes, sent140_recipes
from papers.fedgroup.recipes import TABLE_I_PUBLISHED, TABLE_III
from papers.tables_markdown import Results, accuracies, by_classes, share

CELLS_III = [*TABLE_III, *sent140_recipes.CELLS]
PUBLISHED_I = {str(classes): numbers for classes, numbers in TABLE_I_PUBLISHED.items()}


def table_iii(results: Results) -> str:
    """Best accuracies and the paper's, and the last ones."""
    printed = [cell for cell in CELLS_III if not cell.setting.deviation and not cell.setting.needs]
    return "\n\n".join(
        [
            f"Of Table III's rows except Sent140-LSTM, {share(results, printed)}",
            "## Table III: best accuracy (%)",
            accuracies(results, CELLS_III, "best"),
            "## The same runs: accuracy in the last round (%)",
            accuracies(results, CELLS_III, "final", with_paper=False),
        ]
    )


def table_i(results: Results) -> str:
    """FedAvg's clients with more and more classes."""
    heading = "## Table I: FedAvg on MNIST-MCLR by classes per client"
    return f"{heading}\n\n{by_classes(results, PUBLISHED_I, 'discrepancy')}"


def candidates(results: Results) -> str:
    """FEMNIST's row on other readings of the authors' file."""
    return "\n\n".join(
        [
            "## Table III's row FEMNIST-MCLR on candidates for the authors' file (best accuracy, "
            "%)",
            "These candidates were tried before it was known that the file has three labels a "
            "client, so all have five. Which images the file shares is not known. Each row gives "
            "the clients their images in another way, always shuffled class by class.",
            accuracies(results, candidate_recipes.CELLS, "best"),
            "### Which draws of the partition resemble the papers' files",
            "The draws were chosen before any training, by the number of samples, and by the "
            "number of each label if it is known. " + file_has_three_labels_a_client(),
            femnist_draws.markdown_table(),
        ]
    )


def file_has_three_labels_a_client() -> str:
    """The evidence on the file's labels, against the papers' text."""
    swaps = femnist_label_swaps.swaps()
    own_labels = femnist_label_swaps.own_labels(swaps)
    all_three = sum(len(labels) == 3 for labels in own_labels.values())
    images = femnist_draws.images_by_first_label(femnist_draws.FEDGROUP_FILE.labels, 3)
    return (
        "FedSim's text says five labels a client. Then labels c and c + 5 together always have a "
        "fifth of all samples, and no draw has the file's numbers. FedGroup's and FlexCFL's texts "
        "say nothing about it. The file of these two has *three*. The evidence is the log of a run "
        f"under swap part that FlexCFL's authors published with their code "
        f"({femnist_label_swaps.LOG}; {len(swaps):,} swaps, stored in "
        "papers/femnist_label_swaps.json). In this log "
        f"{femnist_label_swaps.in_a_row(own_labels, 3)} of {len(own_labels)} clients give away no "
        f"original label other than u, u + 1 and u + 2, and {all_three} give away all three. The "
        "file's numbers of labels agree with three in a row and as many images of each: by a "
        f"client's first label {', '.join(map(str, images or []))} images. That alone is weak "
        f"evidence, because every total that is a multiple of three allows it. "
        f"{femnist_draws.OF_MNIST} The rows of shared images have three labels. The rows of five "
        "labels, of own images and in the order of the writers, and the candidates above, have "
        "five."
    )
