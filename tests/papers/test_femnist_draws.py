"""Draws of FEMNIST's partition that resemble the papers' files: the rule, and the seeds that are
chosen."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fedkin.data import femnist
from papers import femnist_draws as draws
from papers.femnist_draws import (
    CHOSEN,
    FEDGROUP,
    FEDGROUP_FILE,
    FEDGROUP_FIVE,
    FEDGROUP_TEXT,
    FEDSIM,
    FEDSIM_FILE,
    FEDSIM_TEXT,
    label_counts,
    matches,
)

SEEDS = [
    pytest.param(seed, target, id=f"{target.name} {seed}")
    for target in CHOSEN
    for seed in CHOSEN[target]
]


def test_the_files_are_the_published_ones() -> None:
    assert (sum(draws.TRAIN), sum(draws.TEST)) == (16_421, 1_924)  # FACTS 3.2
    assert sum(FEDGROUP_FILE.labels) == FEDGROUP_FILE.samples == 18_345
    assert FEDSIM_FILE.samples == 17_840 + 2_083


def test_labels_are_counted_as_by_hand() -> None:
    counts = np.zeros(20, np.int64)
    counts[[0, 8, 11]] = 7, 100, 1000  # their labels: 0 to 4; 8, 9, 0, 1, 2; 1 to 5
    assert label_counts(counts, 5).tolist() == [107, 1107, 1107, 1007, 1007, 1000, 0, 0, 100, 100]
    assert label_counts(counts, 3).tolist() == [107, 1007, 1007, 1000, 0, 0, 0, 0, 100, 100]


def test_no_draw_of_five_labels_can_have_the_files() -> None:
    """A client of five labels in a row has either c or c + 5."""
    labels = label_counts(draws.draw(3, 5), 5)
    assert set((labels[:5] + labels[5:]).tolist()) == {labels.sum() / 5}
    pairs = [sum(FEDGROUP_FILE.labels[c::5]) for c in range(5)]
    assert (min(pairs), max(pairs)) == (3_153, 4_029)
    most = 1.005 * 18_345 / 5  # the largest sum of a pair in a draw whose samples match
    assert 1 - most / max(pairs) > 0.08


def test_the_files_labels_are_those_of_three_labels_a_client_and_of_no_other_number() -> None:
    found = {k: draws.images_by_first_label(FEDGROUP_FILE.labels, k) for k in range(2, 10)}
    assert {k for k, images in found.items() if images} == {3}
    images = found[3] or []
    assert [images[c] + images[c - 1] + images[c - 2] for c in range(10)] == list(
        FEDGROUP_FILE.labels
    )
    assert 3 * sum(images) == 18_345 and FEDSIM_FILE.samples % 3 == 0 != FEDSIM_FILE.samples % 5


def test_one_sample_more_has_no_whole_numbers() -> None:
    labels = (FEDGROUP_FILE.labels[0] + 1, *FEDGROUP_FILE.labels[1:])
    assert draws.images_by_first_label(labels, 3) is None


@pytest.mark.parametrize(
    ("samples", "fits"), [(0.9951, True), (0.9949, False), (1.0049, True), (1.0051, False)]
)
def test_samples_are_matched_within_half_a_percent(samples: float, fits: bool) -> None:
    for target in (FEDSIM_FILE, FEDSIM_TEXT):
        own = target.classes_per_client * int(draws.draw(3, target.classes_per_client).sum())
        assert matches(3, replace(target, samples=own / samples)) is fits


@pytest.mark.parametrize(
    ("factor", "fits"), [(0.801, True), (0.799, False), (1.199, True), (1.201, False)]
)
@pytest.mark.parametrize("label", [0, 9])
def test_each_label_is_matched_within_a_fifth_of_the_files_number(
    label: int, factor: float, fits: bool
) -> None:
    own = label_counts(draws.draw(3, 3), 3).astype(float)
    target = own.copy()
    target[label] /= factor
    assert (
        matches(
            3,
            draws.Target(
                name="",
                classes_per_client=3,
                samples=int(own.sum()),
                labels=tuple(target),
                margin=0.2,
            ),
        )
        is fits
    )


@pytest.mark.parametrize("target", CHOSEN, ids=lambda target: target.name)
def test_the_search_gives_the_chosen_seeds(target: draws.Target) -> None:
    """So that all of them match, and no lower seed does."""
    assert draws.search(target) == CHOSEN[target]


def test_no_chosen_seed_matches_within_the_next_smaller_margin() -> None:
    assert draws.search(replace(FEDGROUP_FILE, margin=0.1), most=FEDGROUP[-1] + 1) == ()
    assert draws.search(replace(FEDGROUP_TEXT, margin=0.15), most=FEDGROUP_FIVE[-1] + 1) == ()
    assert not set(FEDGROUP) & set(FEDSIM)


@pytest.mark.parametrize(("seed", "target"), SEEDS)
def test_the_federation_of_a_seed_has_the_matched_counts(
    shared_data: Path, seed: int, target: draws.Target
) -> None:
    """No class runs out."""
    k = target.classes_per_client
    data = femnist(classes_per_client=k, shared_images=True, seed=seed)
    counts = draws.draw(seed, k)
    np.testing.assert_array_equal(data.train.sizes + data.test.sizes, k * counts)
    labels = data.y[np.concatenate([data.train.rows, data.test.rows])]
    np.testing.assert_array_equal(np.bincount(labels, minlength=10)[:10], label_counts(counts, k))
    assert abs(len(labels) - target.samples) <= 0.005 * target.samples


def test_the_table_has_all_files_and_their_seeds() -> None:
    lines = draws.markdown_table().splitlines()
    assert len(lines) == 6
    assert (
        "| FedGroup, FlexCFL: 18,345 samples | 3 | samples ± 0.5%, each label ± 15% | 17,394 |"
        in lines[2]
    )
    assert (
        "| FedSim: 19,923 samples | 3 | samples ± 0.5% | 191 | 70; 154; 173; 180; 190 |" in lines[3]
    )
    assert (
        "| FedGroup, FlexCFL, five labels: 18,345 samples | 5 | samples ± 0.5%, each label ± 20% |"
        in lines[4]
    )
    assert "; ".join(map(str, FEDGROUP)) in lines[2] and "labels not published" in lines[3]
