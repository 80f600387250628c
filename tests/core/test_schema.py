"""What replies and memory are declared to be."""

from __future__ import annotations

import numpy as np
import pytest

from fedkin.core.errors import TaskError
from fedkin.core.schema import MAX_COUNT, Array, Memory, Rows, Sums, booleans, floats, integers

SIZES = {"K": 2, "P": 5, "C": 3}
BY = {"examples": integers(over="row"), "model_index": integers(over="row")}


@pytest.mark.parametrize(
    ("axes", "shape"),
    [("", ()), ("K", (2,)), ("K P", (2, 5)), ("2 64", (2, 64)), ("3 C", (3, 3)), ("0", (0,))],
)
def test_shapes(axes: str, shape: tuple[int, ...]) -> None:
    assert Array(axes).shape(SIZES) == shape


def test_an_unknown_axis() -> None:
    with pytest.raises(TaskError, match="the size of axis 'q' is not known; known sizes: C, K, P"):
        Array("K q").shape(SIZES)


def test_the_kinds_of_arrays() -> None:
    assert floats("P").dtype == np.float64 and floats("P", np.float32).dtype == np.float32
    assert np.isnan(floats().missing) and floats().finite and floats().counted and floats().carried
    count = integers("C")
    assert (count.dtype, count.low, count.high, count.missing) == (np.int64, 0, MAX_COUNT, 0)
    flag = booleans(missing=True, counted=False)
    assert (flag.dtype, flag.missing, flag.counted) == (np.bool_, True, False)


def test_rows_and_sums_name_the_axes_of_their_arrays() -> None:
    rows = Rows(own=floats(), total=floats(over="all"))
    sums = Sums(total=floats(), mean=floats(over="model"), **BY)
    assert {name: array.over for name, array in rows.arrays.items()} == {
        "own": "row",
        "total": "all",
    }
    assert (
        list(rows.of("row")) == ["own"]
        and list(rows.of("all")) == ["total"]
        and not rows.of("model")
    )
    assert (
        list(sums.of("all")) == ["total"]
        and list(sums.of("model")) == ["mean"]
        and list(sums.of("row")) == list(BY)
    )


def test_an_array_not_carried_is_declared_and_not_in_the_reply() -> None:
    schema = Rows(vectors=floats("2 P", carried=False))
    assert list(schema.arrays) == ["vectors"] and not schema.of("row")


@pytest.mark.parametrize(
    ("schema", "flags"),
    [
        (Rows(), False),
        (Rows(a=floats()), False),  # a row without a reply holds NaN
        (Rows(a=floats(missing=0.0)), True),
        (Rows(a=floats(missing=0.0, finite=False)), False),
        (Rows(a=integers(), b=booleans()), False),
        (Rows(a=floats(missing=0.0, over="all")), False),
        (Sums(a=floats(missing=0.0, over="model"), **BY), True),
    ],
)
def test_whether_a_message_must_say_which_rows_hold_numbers(
    schema: Rows | Sums, flags: bool
) -> None:
    assert schema.flags_rows is flags


@pytest.mark.parametrize("dtype", [np.uint8, np.complex64, object, "U3"])
def test_a_type_that_messages_do_not_have(dtype: object) -> None:
    with pytest.raises(
        TaskError, match="mine: dtype must be one of float32, float64, int64, uint32 and bool, got"
    ):
        Rows(mine=Array("", dtype))


@pytest.mark.parametrize("missing", list(BY))
def test_means_need_examples_and_the_model_of_each_row(missing: str) -> None:
    given = {name: array for name, array in BY.items() if name != missing}
    with pytest.raises(
        TaskError, match=r"means by model \(mean\) need the arrays examples and model_index"
    ):
        Sums(mean=floats(over="model"), **given)


def test_memory_is_kept_for_the_run_unless_it_says_otherwise() -> None:
    assert Memory() == Memory("", np.float32, "run") != Memory("", np.float32, "assignment")
