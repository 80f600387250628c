"""FedGroup's part of docs/results.md."""

from __future__ import annotations

from papers import femnist_draws, femnist_label_swaps
from papers.fedgroup import candidate_recipes, sent140_recipes
from papers.fedgroup.recipes import TABLE_I_PUBLISHED, TABLE_III
from papers.tables_markdown import Results, accuracies, by_classes, share

CELLS_III = [*TABLE_III, *sent140_recipes.CELLS]
PUBLISHED_I = {str(classes): numbers for classes, numbers in TABLE_I_PUBLISHED.items()}


def table_iii(results: Results) -> str:
    """Best accuracies beside the paper's, and the last ones."""
    printed = [cell for cell in CELLS_III if not cell.setting.deviation and not cell.setting.needs]
    return "\n\n".join(
        [
            f"Of Table III's rows but Sent140-LSTM, {share(results, printed)}",
            "### Table III: best accuracy (%)",
            accuracies(results, CELLS_III, "best"),
            "### The same runs: accuracy in the last round (%)",
            accuracies(results, CELLS_III, "final", with_paper=False),
        ]
    )


def table_i(results: Results) -> str:
    """FedAvg's clients with more and more classes."""
    heading = "### Table I: FedAvg on MNIST-MCLR by classes per client"
    return f"{heading}\n\n{by_classes(results, PUBLISHED_I, 'discrepancy')}"


def candidates(results: Results) -> str:
    """FEMNIST's row on other readings of the authors' file."""
    return "\n\n".join(
        [
            "### Table III's row FEMNIST-MCLR on candidates for the authors' file (best accuracy, "
            "%)",
            "First tried before it was known that the file has three labels a client: all of them "
            "have five. Which images it shares is not known. Each row gives the clients their "
            "images in another way, all shuffled class by class.",
            accuracies(results, candidate_recipes.CELLS, "best"),
            "#### Which draws of the partition resemble the papers' files",
            "Chosen before any training, by the number of samples, and of each label where it is "
            "known. " + file_has_three_labels_a_client(),
            femnist_draws.markdown_table(),
        ]
    )


def file_has_three_labels_a_client() -> str:
    """What is known of the file's labels, against the papers' text."""
    swaps = femnist_label_swaps.swaps()
    own_labels = femnist_label_swaps.own_labels(swaps)
    all_three = sum(len(labels) == 3 for labels in own_labels.values())
    images = femnist_draws.images_by_first_label(femnist_draws.FEDGROUP_FILE.labels, 3)
    return (
        "FedSim's text says five labels a client, where labels c and c + 5 together always have a "
        "fifth of all samples, so that no draw has the file's; FedGroup's and FlexCFL's say "
        "nothing of it. The file of these two has *three*: in the log of a run under swap part "
        f"that FlexCFL's authors published with their code ({femnist_label_swaps.LOG}; "
        f"{len(swaps):,} swaps, kept in papers/femnist_label_swaps.json) "
        f"{femnist_label_swaps.in_a_row(own_labels, 3)} of {len(own_labels)} clients give away no "
        f"label of their own besides u, u + 1 and u + 2, and {all_three} give away all three. The "
        "file's numbers of labels agree with three in a row and as many images of each, by a "
        f"client's first label {', '.join(map(str, images or []))} images. That alone is weak "
        f"evidence: every total that is a multiple of three allows it. {femnist_draws.OF_MNIST} "
        "The rows of shared images have three; those of five labels, of own images and in the "
        "order of the writers, and the candidates above, have five."
    )
