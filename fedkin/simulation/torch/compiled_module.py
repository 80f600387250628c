"""A PyTorch module as a JAX model: it has the same flat vector of weights and the same initial
weights, and JAX computes every operator."""

from __future__ import annotations

import copy
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import torch
from jaxtyping import Array, Float
from torch import nn

from fedkin.models.model import Model, prepare_jax
from fedkin.simulation.torch.flat_module import FlatModule, float_entries, trainable_entries
from fedkin.simulation.torch.lowerings import counting
from fedkin.simulation.torch.torchax_library import environment

Leaves = list[Array]  # the floating-point entries of the module's state, in their order


def compile_module(model: FlatModule) -> Model:
    """Compile a PyTorch module to a JAX model.

    The parameters are a list, since JAX would sort a dictionary by name.

    Gradient steps do not change running statistics and frozen entries. A training pass returns
    them: statistics updated by the batch, frozen entries unchanged.

    Raises:
        MissingExtra: torchax is not installed.
    """
    prepare_jax()
    call = _call(model.module)
    parts = list(model.spec.slices.values())
    shapes = [tuple(entry.shape) for entry in float_entries(model.module).values()]
    trained = trainable_entries(model.module).keys()
    fixed = tuple(name not in trained for name in float_entries(model.module))

    def init(key: Array) -> Leaves:
        return unflatten(jnp.asarray(model.initial(np.asarray(jax.random.key_data(key)))))

    def unflatten(flat: Float[Array, "P"]) -> Leaves:
        return [flat[part].reshape(shape) for part, shape in zip(parts, shapes, strict=True)]

    def apply(leaves: Leaves, x: Array, key: Array | None) -> Array:
        return call(leaves, x, key, training=False)[0]

    def fit(leaves: Leaves, x: Array, mask: Array, key: Array | None) -> tuple[Array, Leaves]:
        with counting(mask):
            return call(leaves, x, key, training=True)

    return Model(
        name=model.name,
        spec=model.spec,
        init=init,
        apply=apply,
        unflatten=unflatten,
        random=True,
        fit=fit,
        statistics=fixed,
        whole=lambda tree: tree,
    )


def _call(module: nn.Module) -> Callable[..., tuple[Array, Leaves]]:
    """A function ``(leaves, x, key, training) -> scores, leaves after the call``.

    Leaves are the module's tensors. They are returned because the module may change some of them in
    place, such as running statistics.
    """
    env = environment()
    names = list(float_entries(module))
    # torchax can be imported only after ``environment``.
    from torchax.tensor import Tensor as Wrapped

    by_mode = {mode: copy.deepcopy(module).train(mode) for mode in (True, False)}
    # Integer entries, such as counters of batches: part of the module, but not of its vector.
    constants = {
        name: jnp.asarray(entry.numpy())
        for name, entry in module.state_dict().items()
        if isinstance(entry, torch.Tensor) and not entry.is_floating_point()
    }

    def call(leaves: Leaves, x: Array, key: Array | None, training: bool) -> tuple[Array, Leaves]:
        # torchax needs a key even for a module that draws no random numbers.
        prng = jax.random.key(0) if key is None else key
        with env, env.override_property(prng=prng):
            state = {name: Wrapped(leaf, env) for name, leaf in zip(names, leaves, strict=True)}
            held = {name: Wrapped(value, env) for name, value in constants.items()}
            scores = torch.func.functional_call(
                by_mode[training], {**state, **held}, (Wrapped(x, env),)
            )
            return scores.jax(), [state[name].jax() for name in names]

    return call
