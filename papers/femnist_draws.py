"""Draws of FEMNIST's partition that resemble the papers' files, chosen before any training.

FedProx's generator draws the sizes of 200 clients. The seed of the file that FedGroup and FlexCFL
trained on is not published, and neither is the seed of FedSim's file. A draw matches if its number
of samples is within 0.5% of the file's. If the labels of the file are known, the samples of every
label must also be within a margin: the smallest of 10%, 15% and 20% for which five of the first
200,000 seeds match. Seeds are tried in turn from 0. All images are counted, train and test, in the
partition as published: its clients share images, so no class runs out.

FedSim's text says five labels a client. The file of FedGroup and FlexCFL has three. The evidence is
the log of a run under swap part, which FlexCFL's authors published with their code: none of the 200
clients gives away an original label other than u, u + 1 and u + 2, and 125 give away all three
(``papers.femnist_label_swaps``). With three labels in a row, and as many images of each, the file's
numbers of labels follow from whole numbers of images (``images_by_first_label``). That says little:
their sum, 18,345, is a multiple of three. FedSim's 19,923 samples are a multiple of three, too, and
not of five. With five labels and as many images of each, they would be a multiple of five. So the
recipes have three labels, and separate rows have five. (Their notebooks print one client with five
labels, under the heading MNIST, and its numbers are unequal: dataset_stat.ipynb at 0762ccd has 5,
12, 4, 17 and 5 images of the labels 0, 6, 7, 8 and 9.) With five labels no
seed can match within 8%: a client has either c or c + 5, so both labels together have a fifth of
all samples. That is 3,669 of the file's 18,345, where the file has 3,153 to 4,029.

``python -m papers.femnist_draws`` searches, and prints the draws.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Int

from fedkin.data.fedprox_partitions import femnist_counts
from fedkin.data.partition_options import legacy_random
from papers.femnist_candidates import CLASSES, CLIENTS
from papers.tables_markdown import markdown

DRAWS = 5  # for each target
MOST = 200_000  # seeds to try
SAMPLES_MARGIN = 0.005
LABEL_MARGINS = (0.1, 0.15, 0.2)

# The seeds that the search finds; all seeds up to the last one were tried.
FEDGROUP: tuple[int, ...] = (5954, 6070, 8942, 9527, 17393)  # FlexCFL's as well
FEDSIM: tuple[int, ...] = (70, 154, 173, 180, 190)
FEDGROUP_FIVE: tuple[int, ...] = (1797, 2252, 5333, 7914, 8621)  # with five labels a client
FEDSIM_FIVE: tuple[int, ...] = (16, 47, 63, 95, 115)


@dataclass(frozen=True)
class Target:
    """The known properties of a paper's file.

    Attributes:
        name: of the papers that trained on it.
        classes_per_client: labels of a client.
        samples: of all clients.
        labels: samples of each label; empty: not published.
        margin: largest relative difference of the samples of a label.
    """

    name: str
    classes_per_client: int
    samples: int
    labels: tuple[int, ...] = ()
    margin: float = LABEL_MARGINS[0]


# Of the file that FedProx's authors published.
TRAIN = (1450, 1399, 2175, 2045, 2250, 1556, 1427, 1442, 1353, 1324)
TEST = (182, 156, 246, 233, 254, 201, 171, 166, 150, 165)
_LABELS = tuple(train + test for train, test in zip(TRAIN, TEST, strict=True))
FEDGROUP_FILE = Target(
    name="FedGroup, FlexCFL", classes_per_client=3, samples=18_345, labels=_LABELS, margin=0.15
)
FEDSIM_FILE = Target("FedSim", 3, 19_923)  # train and test samples in the logs of its runs
FEDGROUP_TEXT = Target(
    name="FedGroup, FlexCFL, five labels",
    classes_per_client=5,
    samples=18_345,
    labels=_LABELS,
    margin=0.2,
)
FEDSIM_TEXT = Target("FedSim, five labels", 5, 19_923)
CHOSEN = {
    FEDGROUP_FILE: FEDGROUP,
    FEDSIM_FILE: FEDSIM,
    FEDGROUP_TEXT: FEDGROUP_FIVE,
    FEDSIM_TEXT: FEDSIM_FIVE,
}


def label_counts(counts: Int[np.ndarray, "N"], classes_per_client: int) -> Int[np.ndarray, "C"]:
    """Samples of each label over all clients. Client u has the labels u, u + 1, .. (mod C).

    Args:
        counts: images per label of each client.
        classes_per_client: labels of a client.
    """
    firsts = counts.reshape(-1, CLASSES).sum(0)  # by the first label of a client
    return np.sum([np.roll(firsts, j) for j in range(classes_per_client)], axis=0)


def images_by_first_label(labels: Sequence[int], classes_per_client: int) -> list[int] | None:
    """Images per label of all clients whose first label is c, for each c, from the samples of each
    label.

    Args:
        labels: samples of each label.
        classes_per_client: labels in a row that a client has, with as many images of each.

    Returns:
        None if no whole numbers above 0 give these labels.
    """
    shifts = [np.roll(np.eye(len(labels)), j, axis=0) for j in range(classes_per_client)]
    firsts = np.rint(
        np.linalg.lstsq(np.sum(shifts, axis=0), np.array(labels), rcond=None)[0]
    ).astype(int)
    given = np.sum([np.roll(firsts, j) for j in range(classes_per_client)], axis=0)
    return firsts.tolist() if firsts.min() > 0 and np.array_equal(given, labels) else None


def draw(seed: int, classes_per_client: int) -> Int[np.ndarray, "N"]:
    """Images per label of each client."""
    return femnist_counts(CLIENTS, classes_per_client, legacy_random(seed))


def matches(seed: int, target: Target) -> bool:
    """Whether the draw of a seed has the target's number of samples, in total and of every label
    within its margin."""
    counts = draw(seed, target.classes_per_client)
    samples = target.classes_per_client * int(counts.sum())
    near = abs(samples - target.samples) <= SAMPLES_MARGIN * target.samples
    return near and largest_deviation(counts, target) <= target.margin


def largest_deviation(counts: Int[np.ndarray, "N"], target: Target) -> float:
    """The largest relative difference of a label's samples from the target's; 0 where it has none.

    Args:
        counts: images per label of each client.
        target: with which its labels are compared.
    """
    labels = label_counts(counts, target.classes_per_client)
    return float(np.max(np.abs(labels / target.labels - 1))) if target.labels else 0.0


def search(target: Target, most: int = MOST) -> tuple[int, ...]:
    """The first seeds whose draws match the target, five of them or fewer.

    Args:
        target: the known properties of the file.
        most: number of seeds to try.
    """
    matching = (seed for seed in range(most) if matches(seed, target))
    return tuple(itertools.islice(matching, DRAWS))


def markdown_table() -> str:
    """The choice of the draws: target, rule, seeds tried, and the properties of the chosen
    draws."""
    head = [
        "target",
        "labels a client",
        "rule",
        "seeds tried",
        "seeds",
        "samples",
        "largest deviation of a label",
        "largest client",
    ]
    return markdown(head, [_line(target, seeds) for target, seeds in CHOSEN.items()])


def _line(target: Target, seeds: tuple[int, ...]) -> list[str]:
    k = target.classes_per_client
    draws = [draw(seed, k) for seed in seeds]
    rule = f"samples ± {100 * SAMPLES_MARGIN:g}%" + (
        f", each label ± {100 * target.margin:g}%" if target.labels else ""
    )
    deviations = [f"{100 * largest_deviation(counts, target):.1f}%" for counts in draws]
    return [
        f"{target.name}: {target.samples:,} samples",
        str(k),
        rule,
        f"{seeds[-1] + 1:,}",
        "; ".join(map(str, seeds)),
        "; ".join(f"{k * counts.sum():,}" for counts in draws),
        "; ".join(deviations) if target.labels else "labels not published",
        "; ".join(f"{k * counts.max():,}" for counts in draws),
    ]


def main() -> None:
    """Search the draws of all files with growing margins, and print the first five."""
    for target in CHOSEN:
        for margin in LABEL_MARGINS if target.labels else LABEL_MARGINS[:1]:
            seeds = search(replace(target, margin=margin))
            print(
                target.name,
                f"each label within {100 * margin:g}%:" if target.labels else "",
                seeds,
                flush=True,
            )
            if len(seeds) == DRAWS:
                break
    print(markdown_table())


if __name__ == "__main__":
    main()
