"""Candidates for the FEMNIST file of FedProx's authors: how clients share images."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from fedkin.core.errors import ConfigError
from fedkin.data import femnist
from fedkin.data.federated import FederatedData
from papers import femnist_draws
from papers.fedgroup.candidate_recipes import CANDIDATES, CELLS
from papers.fedgroup.recipes import METHODS
from papers.femnist_candidates import CANDIDATES as DATASETS
from papers.femnist_candidates import deal, femnist_candidate

POOLS = [np.arange(5), np.arange(10, 15), np.arange(20, 25)]  # three classes of five images
COUNTS = np.array([2, 2, 2])


def dealt(cursor: str, step: int = 1, counts: np.ndarray = COUNTS) -> list[list[int]]:
    owned = deal(POOLS, counts, 2, cursor=cursor, step=step)
    return [owned[u].tolist() for u in range(len(owned))]


def test_a_cursor_at_the_first_image_gives_everybody_the_same() -> None:
    assert dealt("first") == [[0, 1, 10, 11], [10, 11, 20, 21], [20, 21, 0, 1]]


def test_a_wrapping_cursor_goes_on_and_begins_again() -> None:
    """Of class 0, client 0 has images 0 and 1, client 2 has 2 and 3, client 3 has 4 and then 0
    again."""
    expected = [[0, 1, 10, 11], [12, 13, 20, 21], [22, 23, 2, 3], [4, 0, 14, 10]]
    assert dealt("wraps", counts=np.array([2, 2, 2, 2])) == expected


def test_own_images_end_with_the_class() -> None:
    """The third client of class 1 finds one image left. No client has an image of another."""
    expected = [[0, 1, 10, 11], [12, 13, 20, 21], [22, 23, 2, 3], [4, 14]]
    assert dealt("own", counts=np.array([2, 2, 2, 2])) == expected


def test_windows_run_backwards() -> None:
    assert dealt("first", step=-1) == [[0, 1, 20, 21], [10, 11, 0, 1], [20, 21, 10, 11]]


def test_no_client_has_an_image_twice_though_the_pool_is_small() -> None:
    assert dealt("wraps", counts=np.array([9, 9])) == [
        [*range(5), *range(10, 15)],
        [*range(10, 15), *range(20, 25)],
    ]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"cursor": "wrap"}, "cursor"),
        ({"step": 2}, "step must be 1 or -1, got 2"),
        ({"images": 0}, "images must be at least 1, got 0"),
    ],
)
def test_unknown_options_are_refused(options: dict, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        femnist_candidate(**options)


# --- on NIST's images


def rows_of(data: FederatedData) -> np.ndarray:
    return np.concatenate([data.train.rows, data.test.rows])


@pytest.mark.parametrize(("cursor", "shared"), [("own", False), ("first", True)])
def test_two_candidates_are_the_librarys_federations(
    shared_data: Path, cursor: str, shared: bool
) -> None:
    ours = femnist_candidate(cursor=cursor, seed=3)
    library = femnist(classes=26, shared_images=shared, seed=3)
    for part in ("train", "test"):
        np.testing.assert_array_equal(getattr(ours, part).rows, getattr(library, part).rows)
        np.testing.assert_array_equal(getattr(ours, part).offsets, getattr(library, part).offsets)
    assert (ours.classes, ours.clients) == (26, 200)


def test_training_writers_are_those_below_2100(shared_data: Path) -> None:
    arrays = np.load(shared_data / "FEMNIST" / "femnist_aj_pool.npz")
    number = np.char.partition(arrays["writers"], "_")[:, 0]  # f0000
    writer = number[arrays["client_id"]]
    everybody, training = (
        rows_of(femnist_candidate(training_writers=only)) for only in (False, True)
    )
    assert max(writer[training].tolist()) < "f2100" < max(writer[everybody].tolist())
    assert len(training) == len(everybody)


def test_a_wrapping_pool_is_used_up_and_shared(shared_data: Path) -> None:
    rows = rows_of(femnist_candidate(cursor="wraps", images=300))
    values, owners = np.unique(rows, return_counts=True)
    assert len(values) == 10 * 300 and owners.min() >= 2


def test_backward_windows_begin_with_the_last_labels(shared_data: Path) -> None:
    data = femnist_candidate(step=-1)
    assert set(data.y[data.train[0]].tolist()) == {0, 6, 7, 8, 9}  # forward windows give 0 to 4


def test_a_seed_draws_shuffle_and_sizes(shared_data: Path) -> None:
    first, same, other = (
        femnist_candidate(images=600, cursor="wraps", seed=seed) for seed in (0, 0, 1)
    )
    np.testing.assert_array_equal(rows_of(first), rows_of(same))
    assert not np.array_equal(first.train.sizes, other.train.sizes)


# --- the recipes


def test_every_candidate_has_fedgroups_row() -> None:
    assert len(CELLS) == 6 * 6 and len({(cell.setting.row, cell.column) for cell in CELLS}) == len(
        CELLS
    )
    for setting in CANDIDATES:
        row = {cell.column: cell.published for cell in CELLS if cell.setting == setting}
        assert list(row) == list(METHODS)
        assert (row["FedAvg"], row["RAC"], row["FedGroup"]) == (76.8, 70.3, 87.8)  # FACTS 8.1
        assert setting.deviation == "a candidate for the authors' file"
        assert [setting.draw(seed) for seed in setting.seeds] == list(
            femnist_draws.FEDGROUP_FIVE[: len(setting.seeds)]
        )


def test_every_candidate_can_be_made(shared_data: Path) -> None:
    """All of the paper's sizes: 200 clients of five letters, 26 outputs."""
    for setting in CANDIDATES:
        data = DATASETS[setting.data](seed=1, **dict(setting.data_options))
        assert (data.clients, data.classes) == (200, 26)
        assert {len(set(data.y[data.train[u]].tolist())) for u in range(0, 200, 40)} == {5}, (
            setting.row
        )
