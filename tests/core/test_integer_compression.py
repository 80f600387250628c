from __future__ import annotations

import zlib

import numpy as np
import pytest

from fedkin.core import integer_compression as room
from fedkin.core.integer_compression import compact, expand

LARGE = {
    "assignment": np.random.default_rng(0).integers(-1, 4, 200_000),
    "informed": np.arange(2 * room.LEAST) % 3 == 0,
    "counts": np.zeros((40_000, 10), np.int32),
}


def test_large_whole_numbers_take_few_bytes_and_come_back() -> None:
    arrays = LARGE | {"models": np.ones((3, 200_000), np.float32), "few": np.arange(5)}
    stored, shapes = compact(arrays)
    assert set(shapes) == set(LARGE)
    assert sum(stored[name].nbytes for name in LARGE) * 10 < sum(
        array.nbytes for array in LARGE.values()
    )
    back = expand(stored, shapes)
    for name, array in arrays.items():
        assert np.array_equal(back[name], array) and back[name].dtype == array.dtype
    back["assignment"][0] = 3  # as arrays of a state may be


def test_small_arrays_stay_as_they_are() -> None:
    arrays = {"assignment": np.arange(room.LEAST // 8 - 1)}
    stored, shapes = compact(arrays)
    assert stored["assignment"] is arrays["assignment"] and not shapes


@pytest.mark.parametrize("shape", [[200_001], [199_999], [2, 3]])
def test_other_shapes_are_refused(shape: list[int]) -> None:
    stored, _ = compact(LARGE)
    with pytest.raises(ValueError, match="array assignment does not have the"):
        expand(stored, {"assignment": ["<i8", shape]})


def test_torn_and_foreign_bytes_are_refused() -> None:
    stored, shapes = compact(LARGE)
    torn = stored | {"assignment": stored["assignment"][:-9]}
    with pytest.raises(ValueError, match="array assignment"):
        expand(torn, shapes)
    with pytest.raises(ValueError, match="cannot be decompressed"):
        expand(stored | {"assignment": np.zeros(9, np.uint8)}, shapes)
    with pytest.raises(ValueError, match="array other cannot be decompressed"):
        expand(stored, {"other": ["<i8", [3]]})
    more = np.frombuffer(zlib.compress(bytes(1600)), np.uint8)  # a bomb is not inflated
    with pytest.raises(ValueError, match="does not have the 800 bytes"):
        expand({"a": more}, {"a": ["<i8", [100]]})
