"""FedCCFA's distances, groups and means, against the vectors of ``production.json``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from fedkin.clustering.class_groups import entropy_weight, group_means, groups_by_class, madd

Oracle = Callable[[str], dict[str, Any]]
PART = "fedccfa"


def heads_of(case: dict[str, Any]) -> np.ndarray:
    """The rows of all clients and classes, each with its bias."""
    return np.concatenate([case["weights"], np.array(case["biases"])[:, :, None]], axis=2)


def test_distances_are_the_oracles(oracle: Oracle) -> None:
    for case in oracle("production")[PART]["madd"]:
        found = madd(np.array(case["rows"]))
        np.testing.assert_allclose(found, case["distance"], rtol=0, atol=1e-12)


def test_two_clients_cannot_be_compared() -> None:
    np.testing.assert_array_equal(madd(np.ones((2, 3))), [[0, np.inf], [np.inf, 0]])


def test_groups_are_the_oracles(oracle: Oracle) -> None:
    for case in oracle("production")[PART]["groups"]:
        clients = np.array(case["clients"])
        groups = groups_by_class(heads_of(case), case["eps"])
        for label, expected in case["groups_by_class"].items():
            of_class = groups[:, int(label)]
            found = [clients[of_class == k].tolist() for k in range(of_class.max() + 1)]
            assert [one for one in found if len(one) > 1] == expected


def test_means_by_both_weights_are_the_oracles(oracle: Oracle) -> None:
    vectors = oracle("production")[PART]
    (case,) = vectors["groups"]
    heads = heads_of(case)
    groups = groups_by_class(heads, case["eps"])
    uniform = group_means(heads, groups)
    weighted = group_means(heads, groups, np.array(vectors["label_counts"]))
    for mean in vectors["means"]:
        for client in mean["clients"]:
            row = case["clients"].index(client)
            label = mean["class"]
            np.testing.assert_allclose(uniform[row, label], mean["uniform"], rtol=0, atol=1e-12)
            np.testing.assert_allclose(
                weighted[row, label], mean["by_label_counts"], rtol=0, atol=1e-12
            )


def test_a_client_alone_keeps_its_row_and_a_class_without_samples_is_a_plain_mean() -> None:
    rows = np.array([[[1.0]], [[3.0]], [[9.0]]])
    groups = np.array([[0], [0], [1]])
    found = group_means(rows, groups, np.zeros((3, 1)))
    np.testing.assert_array_equal(found[:, 0, 0], [2, 2, 9])


def test_entropy_weights_are_the_oracles_and_finite_without_a_class(oracle: Oracle) -> None:
    for case in oracle("production")[PART]["weight"]:
        found = entropy_weight(np.array(case["counts"]), case["gamma"])
        assert found == pytest.approx(case["prototype_weight"], abs=1e-12)
