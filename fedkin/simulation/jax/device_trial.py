"""A trial of an accelerator before a run: the CPU replaces a device without memory, or with wrong
numbers."""

from __future__ import annotations

import logging
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.errors import JaxRuntimeError
from jaxtyping import Float

from fedkin.core.errors import WorkerError

NO_MEMORY = "RESOURCE_EXHAUSTED"  # XLA's status for too little memory
# Largest difference, relative to the largest number. TF32 and bfloat16 round to less than this.
_TOLERANCE = 0.01
_log = logging.getLogger("fedkin")


def usable(devices: list) -> list:
    """The devices if they pass a trial, otherwise the CPU.

    A CPU is used without a trial. Any other device computes a matrix product and a convolution,
    which are compared with NumPy's. The log has a warning with the reason if a device fails.

    Raises:
        WorkerError: a device fails, and JAX has no CPU (``JAX_PLATFORMS`` names only the device).
    """
    if devices[0].platform == "cpu":
        return devices
    fault = _fault(tuple(devices))
    return devices if fault is None else cpu_instead(devices[0], fault)


def cpu_instead(device: Any, fault: str) -> list:
    """The CPU's devices, to replace an accelerator; the log has a warning with the fault.

    Args:
        device: the accelerator.
        fault: why it cannot be used.

    Raises:
        WorkerError: JAX has no CPU (``JAX_PLATFORMS`` names only the device).
    """
    try:
        devices = jax.local_devices(backend="cpu")
    except RuntimeError as error:
        raise WorkerError(
            f"{device} cannot be used: {fault}. JAX may use no CPU instead, because JAX_PLATFORMS "
            "does not name it: set JAX_PLATFORMS=cpu"
        ) from error
    _log.warning("%s cannot be used: %s; clients are trained on the CPU", device, fault)
    return devices


def no_memory(error: Exception) -> str | None:
    """The fault of a device with too little memory; None if the error is another one."""
    if NO_MEMORY not in str(error):
        return None
    return (
        "it has too little free memory; if another process uses it, set "
        "XLA_PYTHON_CLIENT_MEM_FRACTION=0.4 for both"
    )


@lru_cache(maxsize=8)
def _fault(devices: tuple) -> str | None:
    """Why one of these devices cannot be used; None if all can."""
    for device in devices:
        try:
            apart = difference(device)
        except JaxRuntimeError as error:
            return no_memory(error) or f"a trial failed ({str(error).splitlines()[0]})"
        # A comparison with NaN is false, so NaN is a fault.
        if not apart <= _TOLERANCE:
            return f"its numbers differ from NumPy's by {apart:.2g} of the largest"
    return None


def difference(device: Any) -> float:
    """The largest difference between a device's numbers and NumPy's, relative to the largest
    number. The device computes a matrix product and a convolution, the kernels of training."""
    rng = np.random.default_rng(0)
    images = rng.standard_normal((4, 12, 12, 3)).astype(np.float32)
    window = rng.standard_normal((3, 3, 3, 8)).astype(np.float32)
    left = rng.standard_normal((32, 200)).astype(np.float32)
    right = rng.standard_normal((200, 16)).astype(np.float32)
    product, convolved = _kernels(*jax.device_put((left, right, images, window), device))
    pairs = ((product, left @ right), (convolved, _convolution(images, window)))
    apart = [
        np.max(np.abs(np.asarray(ours) - expected)) / np.max(np.abs(expected))
        for ours, expected in pairs
    ]
    # Not Python's max, which may drop NaN.
    return float(np.max(apart))


@jax.jit
def _kernels(left: Any, right: Any, images: Any, window: Any) -> tuple[Any, Any]:
    """A matrix product and a convolution without padding."""
    convolved = jax.lax.conv_general_dilated(
        images, window, (1, 1), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC")
    )
    return jnp.matmul(left, right), convolved


def _convolution(
    images: Float[np.ndarray, "B H W i"], window: Float[np.ndarray, "3 3 i o"]
) -> Float[np.ndarray, "B h w o"]:
    """The same convolution in NumPy: a sum over the nine positions of the window."""
    height = images.shape[1] - 2
    width = images.shape[2] - 2
    shifted = [
        images[:, row : row + height, column : column + width] @ window[row, column]
        for row in range(3)
        for column in range(3)
    ]
    return np.sum(shifted, axis=0)
