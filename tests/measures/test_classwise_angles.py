"""Angles of FedDAG, class by class, against the vectors of ``production.json``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np
import pytest

from fedkin.measures.classwise_angles import Form, classwise_angles

Oracle = Callable[[str], dict[str, Any]]


def arrays(case: dict[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    """Bases [N d C p], with zeros for absent classes, and counts [N C]."""
    bases = np.zeros((4, 6, 3, 2))
    counts = np.zeros((4, 3), np.int64)
    for client in range(4):
        for label, directions in case["bases"][client].items():
            bases[client, :, int(label)] = directions
            counts[client, int(label)] = case["counts"][client][label]
    return bases, counts


@pytest.mark.parametrize(
    ("form", "key"), [("as_coded", "as_coded_r_0.5"), ("paper", "paper_delta_0.5")]
)
def test_angles_are_the_oracles(form: str, key: str, oracle: Oracle) -> None:
    vectors = oracle("production")["feddag_single_encoder"]
    case = vectors["classwise"]
    bases, counts = arrays(case)
    found = classwise_angles(bases, counts, spread=0.5, form=cast(Form, form))
    np.testing.assert_allclose(found, case[key], rtol=0, atol=vectors["tolerance"])


def test_a_class_of_one_client_only_and_opposite_directions_by_hand() -> None:
    """Class 0: opposite directions, 0 degrees by the paper and 180 in the code. Class 1: only the
    first client has it."""
    bases = np.zeros((2, 2, 3, 1))
    bases[:, 0, 0, 0] = (1, -1)
    bases[0, 1, 1, 0] = 1
    assert classwise_angles(bases)[0, 1] == pytest.approx(90 / 3, abs=1e-6)
    assert classwise_angles(bases, form="as_coded")[0, 1] == pytest.approx((180 + 180) / 3)


def test_a_single_comparison_has_weight_one() -> None:
    """The range of ratios is then 0, by which the authors' code divides."""
    bases = np.array([[1.0, 0.0], [0.0, 1.0]])[:, :, None, None]
    assert classwise_angles(bases, np.array([[3], [30]]))[0, 1] == pytest.approx(90)


@pytest.mark.parametrize("form", ["paper", "as_coded"])
@pytest.mark.parametrize("weighted", [False, True])
def test_rows_of_some_clients_are_those_of_all(weighted: bool, form: Form, oracle: Oracle) -> None:
    """Every bit is equal, with absent classes and with weights."""
    bases, counts = arrays(oracle("production")["feddag_single_encoder"]["classwise"])
    given = counts if weighted else None
    some = np.array([2, 0])
    rows = classwise_angles(bases, given, rows=some, form=form)
    np.testing.assert_array_equal(rows, classwise_angles(bases, given, form=form)[some])
