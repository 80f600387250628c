"""Arrays that a CPU device of JAX shares with the host."""

from __future__ import annotations

import numpy as np
import pytest

from fedkin.simulation.jax.devices import local_devices, mesh_of, shard
from fedkin.simulation.jax.host_arrays import aligned_rows, aligned_zeros


@pytest.mark.parametrize("shape", [(1, 3), (1, 70, 5), (1, 2**17, 60), (0, 4)])
def test_zeros_begin_where_jax_takes_them_without_a_copy(shape: tuple[int, ...]) -> None:
    array = aligned_zeros(shape, np.float32)
    assert array.shape == shape and array.dtype == np.float32
    assert not array.any()
    if array.size:
        assert array.ctypes.data % 64 == 0


def test_a_processor_reads_the_rows_of_the_host() -> None:
    devices = local_devices(1)
    if devices[0].platform != "cpu":
        pytest.skip("an accelerator has its own memory")
    rows = aligned_rows(np.ones((7, 1000), np.float32), np.array([[6, 0, 6]]))
    on_device = shard(mesh_of(devices), rows)
    assert on_device.addressable_shards[0].data.unsafe_buffer_pointer() == rows.ctypes.data


@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.uint8])
def test_rows_are_those_of_the_index(dtype: type) -> None:
    x = np.arange(60).reshape(5, 4, 3).astype(dtype)
    index = np.array([[0, 4], [2, 2], [1, 0]])
    rows = aligned_rows(x, index)
    assert rows.dtype == x.dtype
    np.testing.assert_array_equal(rows, x[index])
