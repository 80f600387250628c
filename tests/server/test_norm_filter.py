"""The norm filter on norms worked out by hand: honest, saturated and hostile updates,
and clusters."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from fedkin.server.norm_filter import NormFilter


def excluded(
    norm_filter: NormFilter,
    norms: Sequence[float],
    models: object = None,
    starts: object = None,
) -> list[int]:
    """Places of the updates that are excluded."""
    of_models = None if models is None else np.array(models)
    of_starts = None if starts is None else np.array(starts, float)
    return np.flatnonzero(
        norm_filter.outliers(np.array(norms, float), of_models, of_starts)
    ).tolist()


def test_typical_norms_differ_by_training() -> None:
    norm_filter = NormFilter(10)
    for _ in range(2):
        assert not excluded(norm_filter.for_training("fifty batches"), [1e-3])
        assert not excluded(norm_filter.for_training("five epochs"), [1.0])
    assert excluded(norm_filter.for_training("fifty batches"), [1.0]) == [0]


def test_of_the_first_two_updates_the_longer_can_be_an_outlier() -> None:
    assert excluded(NormFilter(100), [1e30, 1.0]) == [0]
    assert not excluded(NormFilter(100), [3.0, 1.0])


def test_the_typical_norm_can_change() -> None:
    norm_filter = NormFilter(10)
    excluded(norm_filter, [1.0])
    assert excluded(norm_filter, [100.0]) == [0]
    assert not excluded(norm_filter, [100.0])


def test_updates_without_length_leave_the_typical_norm() -> None:
    norm_filter = NormFilter(10)
    assert not excluded(norm_filter, [0.0, 0.0, 0.0, 0.0]) and not norm_filter.typical
    excluded(norm_filter, [1.0, 2.0, 3.0])
    assert not excluded(norm_filter, [0.0, 0.0, 0.0, 0.0]) and norm_filter.typical == {"": 2.0}


# --- saturated clients: their models fit all their samples, and their updates are almost zero


@pytest.mark.parametrize("limit", [2.0, 10.0, 100.0])
def test_a_client_that_still_learns_is_no_outlier_among_saturated_ones(limit: float) -> None:
    """The median of the norms is 1e-12, and says nothing about the norm of an update."""
    assert not excluded(NormFilter(limit), [1e-20, 1e-12, 5.0])
    assert not excluded(
        NormFilter(limit), [1e-20, 1e-12, 5.0], models=[0, 0, 0], starts=[30.0, 30.0, 30.0]
    )


@pytest.mark.parametrize("starts", [None, [30.0, 30.0, 30.0]])
def test_a_hostile_update_among_saturated_ones_is_excluded_in_every_call(
    starts: list[float] | None,
) -> None:
    """The excluded norm does not become the typical one: three clients sent an update."""
    norm_filter = NormFilter(100)
    for _ in range(4):
        assert excluded(norm_filter, [1e-20, 1e-12, 1e9], models=[0, 0, 0], starts=starts) == [2]
    assert excluded(NormFilter(100), [1e-20, 1e-12, 5.0, 1e9]) == [3]


def test_no_update_as_long_as_its_model_is_excluded() -> None:
    """Medians of 1e-3 would exclude a norm of 5 with a limit of 100. The model has a norm of 20:
    that is the limit."""
    norms = (1e-3, 1e-3, 1e-3, 5.0)
    starts = [20.0] * 4
    assert excluded(NormFilter(100), norms) == [3]
    assert not excluded(NormFilter(100), norms, models=[0] * 4, starts=starts)
    limits = NormFilter(100).limits(np.array(norms), np.zeros(4, int), np.array(starts))
    np.testing.assert_allclose(limits, 20.0)
    assert not excluded(NormFilter(100), [1e-3, 1e-3, 1e-3, 20.0], models=[0] * 4, starts=starts)
    assert excluded(NormFilter(100), [1e-3, 1e-3, 1e-3, 20.1], models=[0] * 4, starts=starts) == [3]


def test_one_hostile_site_of_five_makes_the_model_at_most_a_fifth_longer_in_a_round() -> None:
    """Four sites whose models fit send short updates; the fifth sends the longest that is not
    excluded, along the model. The mean of the five updates is a fifth of it, and the model's norm
    goes 5, 6, 7.2, ..."""
    norm_filter = NormFilter(100)
    model = 5.0
    for _ in range(4):
        small = np.full(4, 1e-3)
        models = np.zeros(5, int)
        starts = np.full(5, model)
        longest = float(norm_filter.limits(np.append(small, model), models, starts)[4])
        assert not excluded(norm_filter, [*small, longest], models=models, starts=starts)
        model += longest / 5
    np.testing.assert_allclose(model, 5.0 * 1.2**4)


def test_from_a_model_of_zeros_the_median_counts() -> None:
    """A first round: the model has no norm, so the other updates decide which length is typical."""
    assert not excluded(NormFilter(100), [1.0, 2.0, 3.0, 150.0], models=[0] * 4, starts=[0.0] * 4)
    assert excluded(NormFilter(100), [1.0, 2.0, 3.0, 1e3], models=[0] * 4, starts=[0.0] * 4) == [3]


# --- several models


def test_each_model_has_its_own_typical_norm() -> None:
    """The updates of model 1 are a thousand times as long, and right: its three clients agree."""
    norms = (1e-2, 1e-2, 1e-2, 1e-2, 10.0, 11.0, 12.0)
    models = [0, 0, 0, 0, 1, 1, 1]
    assert excluded(NormFilter(100), norms) == [4, 5, 6]
    norm_filter = NormFilter(100)
    assert not excluded(norm_filter, norms, models=models)
    assert norm_filter.typical == {" model 0": 1e-2, " model 1": 11.0}
    assert excluded(norm_filter, [1e-2, 1e-2, 1e-2, 11.0], models=[0, 0, 0, 0]) == [3]


def test_a_lone_client_of_a_model_is_compared_with_earlier_updates_and_with_the_other_clients() -> (
    None
):
    norm_filter = NormFilter(100)
    excluded(norm_filter, [10.0, 11.0, 12.0, 1e-2, 1e-2, 1e-2], models=[1, 1, 1, 0, 0, 0])
    assert not excluded(norm_filter, [900.0, 1e-2, 1e-2, 1e-2], models=[1, 0, 0, 0])
    fresh = NormFilter(100)
    assert excluded(fresh, [900.0, 1e-2, 1e-2, 1e-2], models=[1, 0, 0, 0]) == [0]


def test_a_hostile_client_alone_in_its_cluster_is_excluded_in_every_round() -> None:
    norm_filter = NormFilter(100)
    for _ in range(5):
        assert excluded(
            norm_filter, [1.0, 2.0, 3.0, 1e9], models=[0, 0, 0, 1], starts=[7.0] * 4
        ) == [3]


@pytest.mark.parametrize("honest", [(1.0,), ()])
def test_a_hostile_client_cannot_drive_the_typical_norm_of_its_model_up(
    honest: tuple[float, ...],
) -> None:
    """Model 0 has four honest clients with norms of 1. Model 1 has the hostile one, with an honest
    one or alone.

    Its limit is 100 in every round, however close to it the hostile update was.
    """
    norm_filter = NormFilter(100)
    own = (*honest, 99.0)
    models = [0] * 4 + [1] * len(own)
    place = 3 + len(own)
    for _ in range(5):
        assert not excluded(norm_filter, [1.0, 1.0, 1.0, 1.0, *own], models=models)
        assert norm_filter.typical[" model 1"] == 1.0
        assert excluded(norm_filter, [1.0, 1.0, 1.0, 1.0, *honest, 101.0], models=models) == [place]


def test_of_two_clients_the_hostile_one_cannot_drive_the_typical_norm_up() -> None:
    norm_filter = NormFilter(100)
    for _ in range(5):
        assert not excluded(norm_filter, [1.0, 99.0])
        assert excluded(norm_filter, [1.0, 101.0]) == [1]


def test_the_typical_norm_of_few_clients_follows_shorter_updates() -> None:
    """Updates get shorter as a model converges."""
    norm_filter = NormFilter(10)
    excluded(norm_filter, [8.0, 9.0])
    assert norm_filter.typical == {"": 8.0}
    excluded(norm_filter, [1.0, 2.0])
    assert norm_filter.typical == {"": 1.5}


def test_a_call_without_updates() -> None:
    assert not excluded(NormFilter(100), [])
    assert not excluded(NormFilter(100), [], models=np.zeros(0, int), starts=[])
