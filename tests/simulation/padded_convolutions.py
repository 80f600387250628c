"""Padded convolutions on two devices at once, in the middle of much other work: prints how many of
each device differ from the same on a single one."""

from __future__ import annotations

import json

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from fedkin.models.convolution import convolve
from fedkin.models.model import prepare_jax
from fedkin.simulation.jax.devices import mesh_of
from fedkin.simulation.jax.local_training import on_each_device

STEPS = 40  # with too few threads, those from the 29th on are wrong
KINDS = 3  # of images and kernels


def convolutions(shared: tuple[Array, ...], first: Array) -> Array:
    """The padded convolution of each step, next to a strided one, computed image by image."""
    images, kernels, small_images, small_kernels = shared

    def step(s: Array, carry: tuple[Array, Array]) -> tuple[Array, Array]:
        total, outputs = carry
        kind = (s + first) % KINDS
        total = total + convolve(images[kind], kernels[kind], 2, True)
        output = jax.lax.conv_general_dilated(
            small_images[kind],
            small_kernels[kind],
            (1, 1),
            [(2, 2), (2, 2)],
            dimension_numbers=("NHWC", "HWIO", "NHWC"),
        )
        return total, outputs.at[s].set(output)

    empty = jnp.zeros((32, 12, 12, 32)), jnp.zeros((STEPS, 32, 12, 12, 32))
    total, outputs = jax.lax.fori_loop(0, STEPS, step, empty)
    return outputs + 0 * total  # an unused result is not computed


def different_steps() -> list[int]:
    """Number of steps on each of two devices whose convolution has other bits than on a single
    one."""
    shapes = ((32, 24, 24, 32), (5, 5, 32, 32), (32, 10, 10, 64), (3, 3, 64, 32))
    draw = np.random.default_rng(0).standard_normal
    shared = tuple(draw((KINDS, *shape), np.float32) for shape in shapes)

    def on(devices: int, first: list[int]) -> np.ndarray:
        program = on_each_device(convolutions, mesh_of(jax.devices()[:devices]))
        compiled = jax.jit(program, compiler_options={"xla_cpu_multi_thread_eigen": False})
        return np.asarray(compiled(shared, np.array(first)))

    both = on(2, [0, 1])
    alone = [on(1, [first])[0] for first in (0, 1)]
    return [
        int((part != own).any(axis=(1, 2, 3, 4)).sum())
        for part, own in zip(both, alone, strict=True)
    ]


if __name__ == "__main__":
    prepare_jax()
    print(json.dumps(different_steps()))
