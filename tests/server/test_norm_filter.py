"""The norm filter on norms worked out by hand: honest updates beside saturated ones, clusters, and hostile updates."""

from __future__ import annotations

import numpy as np
import pytest

from fedkin.server.norm_filter import NormFilter


def excluded(norm_filter: NormFilter, *norms: float, models: object = None, starts: object = None) -> list[int]:
    """Places of the updates that are excluded."""
    of_models = None if models is None else np.array(models)
    of_starts = None if starts is None else np.array(starts, float)
    return np.flatnonzero(norm_filter.outliers(np.array(norms), of_models, of_starts)).tolist()


def test_typical_norms_differ_by_training() -> None:
    norm_filter = NormFilter(10)
    for _ in range(2):
        assert not excluded(norm_filter.for_training("fifty batches"), 1e-3)
        assert not excluded(norm_filter.for_training("five epochs"), 1.0)
    assert excluded(norm_filter.for_training("fifty batches"), 1.0) == [0]


def test_of_the_first_two_updates_the_longer_can_be_an_outlier() -> None:
    assert excluded(NormFilter(100), 1e30, 1.0) == [0]
    assert not excluded(NormFilter(100), 3.0, 1.0)


def test_the_typical_norm_can_change() -> None:
    norm_filter = NormFilter(10)
    excluded(norm_filter, 1.0)
    assert excluded(norm_filter, 100.0) == [0]
    assert not excluded(norm_filter, 100.0)


def test_updates_without_length_leave_the_typical_norm() -> None:
    norm_filter = NormFilter(10)
    assert not excluded(norm_filter, 0.0, 0.0, 0.0, 0.0) and not norm_filter.typical
    excluded(norm_filter, 1.0, 2.0, 3.0)
    assert not excluded(norm_filter, 0.0, 0.0, 0.0, 0.0) and norm_filter.typical == {"": 2.0}


# --- saturated clients: their models fit all their samples, and their updates are almost zero


@pytest.mark.parametrize("limit", [2.0, 10.0, 100.0])
def test_a_client_that_still_learns_is_no_outlier_beside_saturated_ones(limit: float) -> None:
    """The median of the norms is 1e-12, and says nothing about the norm of an update."""
    assert not excluded(NormFilter(limit), 1e-20, 1e-12, 5.0)
    assert not excluded(NormFilter(limit), 1e-20, 1e-12, 5.0, models=[0, 0, 0], starts=[30.0, 30.0, 30.0])


def test_a_hostile_update_beside_saturated_ones_is_excluded() -> None:
    assert excluded(NormFilter(100), 1e-20, 1e-12, 1e9) == [2]
    assert excluded(NormFilter(100), 1e-20, 1e-12, 5.0, 1e9) == [3]
    assert excluded(NormFilter(100), 1e-20, 1e-12, 1e9, models=[0, 0, 0], starts=[30.0, 30.0, 30.0]) == [2]


def test_no_typical_norm_is_below_a_tenth_of_the_model() -> None:
    """Medians of 1e-3 would exclude a norm of 5 with a limit of 100. The model has a norm of 20: 2 is typical, and 200
    is the limit."""
    norms, starts = (1e-3, 1e-3, 1e-3, 5.0), [20.0] * 4
    assert excluded(NormFilter(100), *norms) == [3]
    assert not excluded(NormFilter(100), *norms, models=[0] * 4, starts=starts)
    np.testing.assert_allclose(NormFilter(100).limits(np.array(norms), np.zeros(4, int), np.array(starts)), 200.0)
    assert excluded(NormFilter(100), 1e-3, 1e-3, 1e-3, 201.0, models=[0] * 4, starts=starts) == [3]


def test_from_a_model_of_zeros_the_median_counts() -> None:
    """A first round: the model has no norm, and the others' updates say what is typical."""
    assert not excluded(NormFilter(100), 1.0, 2.0, 3.0, 150.0, models=[0] * 4, starts=[0.0] * 4)
    assert excluded(NormFilter(100), 1.0, 2.0, 3.0, 1e3, models=[0] * 4, starts=[0.0] * 4) == [3]


# --- several models


def test_each_model_has_its_own_typical_norm() -> None:
    """The updates of model 1 are a thousand times as long, and right: its three clients agree."""
    norms = (1e-2, 1e-2, 1e-2, 1e-2, 10.0, 11.0, 12.0)
    models = [0, 0, 0, 0, 1, 1, 1]
    assert excluded(NormFilter(100), *norms) == [4, 5, 6]
    norm_filter = NormFilter(100)
    assert not excluded(norm_filter, *norms, models=models)
    assert norm_filter.typical == {" model 0": 1e-2, " model 1": 11.0}
    assert excluded(norm_filter, 1e-2, 1e-2, 1e-2, 11.0, models=[0, 0, 0, 0]) == [3]


def test_a_lone_client_of_a_model_is_compared_with_earlier_updates_and_with_the_other_clients() -> None:
    norm_filter = NormFilter(100)
    excluded(norm_filter, 10.0, 11.0, 12.0, 1e-2, 1e-2, 1e-2, models=[1, 1, 1, 0, 0, 0])
    assert not excluded(norm_filter, 900.0, 1e-2, 1e-2, 1e-2, models=[1, 0, 0, 0])
    fresh = NormFilter(100)
    assert excluded(fresh, 900.0, 1e-2, 1e-2, 1e-2, models=[1, 0, 0, 0]) == [0]


def test_a_hostile_client_alone_in_its_cluster_is_excluded_in_every_round() -> None:
    norm_filter = NormFilter(100)
    for _ in range(5):
        assert excluded(norm_filter, 1.0, 2.0, 3.0, 1e9, models=[0, 0, 0, 1], starts=[7.0] * 4) == [3]


def test_norms_that_an_earlier_version_kept_for_all_models_count_for_each() -> None:
    norm_filter = NormFilter(10, {"five epochs": 1.0}, "five epochs")
    assert excluded(norm_filter, 11.0, 5.0, models=[0, 1]) == [0]


def test_a_call_without_updates() -> None:
    assert not excluded(NormFilter(100))
    assert not excluded(NormFilter(100), models=np.zeros(0, int), starts=[])
