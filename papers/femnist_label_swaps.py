"""The labels of FlexCFL's unpublished FEMNIST file, as far as the log of a run shows them.

FlexCFL's authors published a notebook with the output of two runs of FlexCFL on FEMNIST, MLP, under
swap part (morningD/FlexCFL at ecdf300, test.ipynb). Both print the same 1,140 swaps: client a gives
all samples of one of its labels to client b, and b gives another label to a.
``femnist_label_swaps.json`` has them in their order, each as a, its label, b, its label. A client
may give away a label that it received before and still has. That says nothing about its original
labels. Any other label that it gives away is an original one.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

LOG = "morningD/FlexCFL at ecdf300, test.ipynb"
Swap = tuple[int, int, int, int]


def swaps() -> list[Swap]:
    """The swaps of the log, in their order: a client, the label that it gives, another client, and
    its label."""
    text = Path(__file__).with_name("femnist_label_swaps.json").read_text(encoding="utf-8")
    return [(a, of_a, b, of_b) for a, of_a, b, of_b in json.loads(text)]


def own_labels(swaps: Iterable[Swap]) -> dict[int, set[int]]:
    """The labels that each client is seen to have had before any swap.

    Args:
        swaps: in their order.
    """
    given_away = dict[int, set[int]]()
    held = dict[int, set[int]]()
    for a, of_a, b, of_b in swaps:
        for client, given, received in ((a, of_a, of_b), (b, of_b, of_a)):
            of_others = held.setdefault(client, set())
            if given not in of_others:
                given_away.setdefault(client, set()).add(given)
            of_others.discard(given)
            of_others.add(received)
    return given_away


def in_a_row(own_labels: dict[int, set[int]], labels: int) -> int:
    """The number of clients u that show only labels among u, u + 1, .. (mod 10), ``labels`` in a
    row.

    Args:
        own_labels: the labels that each client showed.
        labels: length of the row.
    """
    return sum(shown <= {(u + j) % 10 for j in range(labels)} for u, shown in own_labels.items())
