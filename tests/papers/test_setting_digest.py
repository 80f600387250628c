"""The digest of a setting: changes that it sees, changes that it does not, and that it is the same
in every process."""

from __future__ import annotations

from dataclasses import dataclass, make_dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedkin.core.training import SGD, Adam
from fedkin.methods import FedAvg, FedGroup, FedProx
from fedkin.scenarios.swaps import SwapAll, SwapPart
from papers.recipe import Cell, Setting
from papers.setting_digest import digest

SETTING = Setting(
    row="row",
    data="digits",
    data_options=(("clients", 8), ("alpha", 0.5)),
    model="mlp",
    model_options=(("hidden", 16),),
    lr=0.1,
    clusters=2,
    epochs=1,
)
CELL = Cell(
    table="III", setting=SETTING, column="FedProx", method=lambda m: FedProx(mu=1.0), published=90.0
)
GROUPED = replace(CELL, method=lambda m: FedGroup(clusters=m))


def known(cell: Cell, seed: int = 0) -> str:
    return digest(cell.description(seed))


def with_setting(**changes: Any) -> Cell:
    return replace(CELL, setting=replace(SETTING, **changes))


def test_equal_settings_have_equal_digests() -> None:
    again = Setting(
        row="row",
        data="digits",
        data_options=(("clients", 8), ("alpha", 0.5)),
        model="mlp",
        model_options=(("hidden", 16),),
        lr=0.1,
        clusters=2,
        epochs=1,
    )
    assert known(CELL) == known(
        Cell(
            table="III",
            setting=again,
            column="FedProx",
            method=lambda m: FedProx(mu=1.0),
            published=90.0,
        )
    )
    swapped = (("alpha", 0.5), ("clients", 8))
    # The order of options says nothing.
    assert known(CELL) == known(with_setting(data_options=swapped))


RUN_DIFFERENTLY = {
    "data": with_setting(data="mnist"),
    "an option of the data": with_setting(data_options=(("clients", 8), ("alpha", 1.0))),
    "one more option of the data": with_setting(
        data_options=(*SETTING.data_options, ("samples", 90))
    ),
    "draw": with_setting(draws=(1,)),
    "model": with_setting(model="mclr"),
    "an option of the model": with_setting(model_options=(("hidden", 17),)),
    "learning rate": with_setting(lr=0.2),
    "epochs": with_setting(epochs=2),
    "local training": with_setting(work=Adam(epochs=1, batch_size=10, lr=0.1)),
    "batch size": with_setting(work=SGD(epochs=1, batch_size=11, lr=0.1)),
    "clusters": with_setting(clusters=3),
    "rounds": with_setting(rounds=201),
    "cohort": with_setting(cohort=21),
    "shift": with_setting(shift=SwapAll(0.05)),
    "method": replace(CELL, method=lambda m: FedAvg()),
    "a field of the method": replace(CELL, method=lambda m: FedProx(mu=0.5)),
    "selection": replace(CELL, selection="round_robin"),
    "revision": replace(CELL, revision=1),
}


@pytest.mark.parametrize("cell", RUN_DIFFERENTLY.values(), ids=RUN_DIFFERENTLY)
def test_a_cell_that_runs_differently_has_another_digest(cell: Cell) -> None:
    assert known(cell) != known(CELL)


def test_no_two_of_them_have_one_digest() -> None:
    assert len({known(cell) for cell in (CELL, *RUN_DIFFERENTLY.values())}) == 1 + len(
        RUN_DIFFERENTLY
    )


def test_a_parameter_of_the_shift_and_its_kind_count() -> None:
    shifts = (None, SwapAll(0.05), SwapAll(0.1), SwapPart(0.05), SwapPart(0.05, as_coded=True))
    assert len({known(with_setting(shift=shift)) for shift in shifts}) == len(shifts)


def test_the_method_has_the_number_of_clusters_of_the_setting() -> None:
    constant = replace(CELL, method=lambda m: FedGroup(clusters=2))
    assert known(GROUPED) == known(constant)
    three = replace(SETTING, clusters=3)
    assert known(replace(GROUPED, setting=three)) != known(replace(constant, setting=three))


RUN_ALIKE = {
    "name of the row": with_setting(row="another name"),
    "seeds": with_setting(seeds=(0, 1, 2, 3, 4)),
    "seconds": with_setting(seconds=999),
    "deviation": with_setting(deviation="other data"),
    "the training, spelt out": with_setting(work=SGD(epochs=1, batch_size=10, lr=0.1)),
    "name of the column": replace(CELL, column="another name"),
    "table": replace(CELL, table="IV"),
    "published number": replace(CELL, published=12.3),
    "no published number": replace(CELL, published=None),
    "variant of": replace(CELL, variant_of="FedAvg"),
}


@pytest.mark.parametrize("cell", RUN_ALIKE.values(), ids=RUN_ALIKE)
def test_a_cell_that_runs_alike_has_the_same_digest(cell: Cell) -> None:
    assert known(cell) == known(CELL)


def test_a_seed_counts_by_its_draw_of_the_data_alone() -> None:
    in_turn = with_setting(draws=(7, 9))
    own = with_setting(draws=())
    assert known(in_turn, 0) == known(in_turn, 2) == known(with_setting(draws=(7,)), 5)
    assert known(in_turn, 0) != known(in_turn, 1) == known(own, 9)
    assert known(CELL, 0) == known(CELL, 1)  # one draw for all seeds


def test_a_new_field_changes_no_digest_while_it_has_its_default() -> None:
    before = make_dataclass("Method", [("mu", float)])
    after = make_dataclass(
        "Method", [("mu", float), ("decay", float, 1.0), ("robust", bool, False)]
    )
    assert digest({"method": before(0.5)}) == digest({"method": after(0.5)})
    assert digest({"method": before(0.5)}) != digest({"method": after(0.5, 0.9)})
    assert digest({"method": before(0.5)}) != digest({"method": after(0.5, robust=True)})
    assert digest({"method": before(0.5)}) != digest(
        {"method": make_dataclass("Other", [("mu", float)])(0.5)}
    )


@dataclass
class Flags:
    flag: Any = True
    number: Any = 2
    weights: Any = None


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (1, True),
        (0, False),
        (1, "1"),
        (None, "None"),
        (0, None),
        ([1, 2], [2, 1]),
        ([[1], 2], [1, [2]]),
        (Flags(), Flags(flag=1)),
        (Flags(), Flags(number=3)),
        (Flags(weights=np.ones(2)), Flags(weights=np.ones(3))),
        (0.1, np.float32(0.1)),
        (0.1 + 0.2, 0.3),
    ],
    ids=str,
)
def test_values_that_differ(one: object, other: object) -> None:
    assert digest({"value": one}) != digest({"value": other})


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (np.float64(0.1), 0.1),
        (np.int64(3), 3),
        (np.bool_(True), True),
        (np.array([[1, 2], [3, 4]]), [[1, 2], [3, 4]]),
        ((1, 2), [1, 2]),
        (Flags(), Flags(number=2.0)),  # as good as the default
        (Flags(weights=np.ones(2)), Flags(weights=[1.0, 1.0])),
    ],
    ids=str,
)
def test_values_that_say_the_same(one: object, other: object) -> None:
    assert digest({"value": one}) == digest({"value": other})


@pytest.mark.parametrize(
    "value",
    [object(), {1, 2}, Path("data"), b"bytes", len, Flags, 1j],
    ids=lambda value: type(value).__name__,
)
def test_values_that_are_not_plain_are_refused(value: object) -> None:
    """Its text may hold an address, another in each process."""
    with pytest.raises(TypeError, match="a setting holds plain values, got"):
        digest({"method": FedAvg(), "value": [value]})


def test_the_digest_is_the_same_in_every_process() -> None:
    """The first digits of ``printf '{"a": [1, 2.5], "b": null, "c": "é"}' | sha256sum``."""
    assert digest({"b": None, "a": [1, 2.5], "c": "é"}) == "12f10d8e5920"


def test_the_digest_of_a_cell_as_by_hand() -> None:
    """The same for this text, in a line: ``{"clusters": 2, "cohort": 20, "data": "digits",
    "data_options": {"alpha": 0.5, "clients": 8}, "draw": 9, "method": {"class": "FedProx", "mu":
    0.3}, "model": "mlp", "model_options": {"hidden": 16}, "revision": 0, "rounds": 200,
    "selection": "uniform", "shift": {"class": "SwapAll", "probability": 0.1}, "training": {"class":
    "LocalTraining", "lr": 0.1}}``"""
    cell = replace(with_setting(shift=SwapAll(0.1), draws=(7, 9)), method=lambda m: FedProx(mu=0.3))
    assert known(cell, 3) == "540a71ac6120"
