"""FedSim's Synthetic(0.25, 0.25): the authors' draw and cohorts."""

from __future__ import annotations

import numpy as np
import pytest

from fedkin.core.errors import DataError
from papers.fedsim import authors_draw
from papers.fedsim.recipes import CELLS_7, OF_AUTHORS

# The authors' test samples are real data.
needs_samples = pytest.mark.usefixtures("shared_data")


@needs_samples
def test_all_published_test_samples_are_in_the_draw() -> None:
    data = authors_draw.quarter()
    assert data.clients == 30 and data.test.sizes.sum() == 792
    rows = np.concatenate([data.train.rows, data.test.rows])
    assert np.array_equal(np.sort(rows), np.arange(len(data.y)))


@needs_samples
def test_another_draw_is_refused() -> None:
    with pytest.raises(DataError, match="792 of 792 published test samples are not in this draw"):
        authors_draw.quarter(seed=0)


@needs_samples
def test_a_sample_of_another_client_or_label_is_refused() -> None:
    data = authors_draw.quarter()
    row = int(data.test.rows[0])
    owner = 0
    found = authors_draw.find_rows(data, data.x[[row]], data.y[[row]], np.array([owner]))
    assert found.tolist() == [row]
    with pytest.raises(DataError, match="another client or label"):
        authors_draw.find_rows(data, data.x[[row]], data.y[[row]], np.array([owner + 1]))
    with pytest.raises(DataError, match="another client or label"):
        authors_draw.find_rows(data, data.x[[row]], (data.y[[row]] + 1) % 10, np.array([owner]))


def test_rows_on_the_authors_data_have_the_authors_cohorts() -> None:
    of_authors = {setting.row for setting in OF_AUTHORS.values()}
    for cell in CELLS_7:
        expected = "seed_plus_round" if cell.setting.row in of_authors else "uniform"
        assert cell.selection == expected, cell.setting.row
