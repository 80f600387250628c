"""The draws of MNIST's partition: of the printed size, and no others of the first seeds."""

from __future__ import annotations

import numpy as np
import pytest

from fedkin.data.federated import FederatedData
from papers import mnist_draws
from papers.fedgroup import recipes as fedgroup
from papers.fedsim import recipes as fedsim
from papers.flexcfl import cnn_recipes
from papers.flexcfl import recipes as flexcfl
from papers.recipe import load

# Table II of FedGroup and FlexCFL.
PRINTED = 69_035


def test_the_search_gives_the_chosen_draws() -> None:
    assert mnist_draws.search() == mnist_draws.MATCHED
    assert {int(mnist_draws.sizes(seed).sum()) for seed in mnist_draws.MATCHED} == {PRINTED}
    assert mnist_draws.sizes(mnist_draws.OTHER).sum() == 69_046


@pytest.mark.usefixtures("shared_data")
@pytest.mark.parametrize("seed", [mnist_draws.MATCHED[0], mnist_draws.OTHER])
def test_the_sizes_are_those_of_the_data_set(seed: int) -> None:
    data = load("mnist", (), seed)
    assert isinstance(data, FederatedData)
    assert np.array_equal(data.train.sizes + data.test.sizes, mnist_draws.sizes(seed))


def test_no_row_of_the_partition_has_fewer_than_five_matched_draws() -> None:
    """The convolutional rows begin with one seed, on the first of the draws."""
    cells = [*fedgroup.CELLS, *flexcfl.CELLS, *fedsim.CELLS]
    settings = {
        cell.setting
        for cell in cells
        if cell.setting.data == "mnist"
        and cell.setting.data_options in ((), (("classes_per_client", 2),))
        and not cell.setting.deviation
        and cell.table in ("I", "III", "IV", "4")
    }
    assert len(settings) >= 8
    for setting in settings:
        drawn = {setting.draw(seed) for seed in setting.seeds}
        assert drawn == set(mnist_draws.MATCHED), setting.row
    assert cnn_recipes.MNIST.draws == mnist_draws.MATCHED


def test_the_other_draw_is_a_variant_that_does_not_count() -> None:
    rows = {cell.setting.row: cell.setting for cell in flexcfl.CELLS}
    for row in ("MNIST-MCLR, draw 0", "MNIST-MCLR, draw 0: swap all"):
        assert rows[row].deviation and rows[row].draws == (mnist_draws.OTHER,)
