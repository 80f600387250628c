"""A PyTorch module as a JAX model: it has the same flat vector of weights and the same initial
weights, and JAX computes every operator."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import torch
from jaxtyping import Array, Float
from torch import nn

from fedkin.models.frozen import FrozenPart
from fedkin.models.model import Model, prepare_jax
from fedkin.simulation.torch.flat_module import (
    FlatModule,
    copied,
    float_entries,
    shared_entries,
    trainable_entries,
)
from fedkin.simulation.torch.frozen_tensors import as_arrays
from fedkin.simulation.torch.lowerings import counting
from fedkin.simulation.torch.torchax_library import environment

Leaves = list[Array]  # the entries of the module's vector, in their order
Arrays = Mapping[str, Any]  # arrays by name


def compile_module(model: FlatModule) -> Model:
    """Compile a PyTorch module to a JAX model.

    The parameters are a list, since JAX would sort a dictionary by name.

    Gradient steps do not change running statistics and frozen entries. A training pass returns
    them: statistics updated by the batch, frozen entries unchanged. The frozen network of an
    adapter is no leaf: compiled programs take its arrays as an argument.

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

    frozen: FrozenPart | None = getattr(model, "frozen", None)

    def applied(arrays: Arrays) -> Callable[[Leaves, Array, Array | None], Array]:
        return lambda leaves, x, key: call(leaves, arrays, x, key, training=False)[0]

    def embedded(arrays: Arrays, x: Array) -> Array:
        # With B = 0 the factors add nothing.
        zeros = unflatten(jnp.zeros(model.spec.parameters, jnp.float32))
        return call(zeros, arrays, x, None, training=False, embeds=True)[0]

    def fit(leaves: Leaves, x: Array, mask: Array, key: Array | None) -> tuple[Array, Leaves]:
        with counting(mask):
            return call(leaves, {}, x, key, training=True)

    made = Model(
        name=model.name,
        spec=model.spec,
        init=init,
        apply=applied({} if frozen is None else frozen.tree),
        unflatten=unflatten,
        random=True,
        whole=lambda tree: tree,
    )
    if frozen is not None:
        # A frozen network is in evaluation mode in training too, so that there is one pass.
        has_embedding = model.spec.embedding > 0
        return replace(
            made, frozen=frozen, applied=applied, embedded=embedded if has_embedding else None
        )
    return replace(made, fit=fit, statistics=fixed)


def _call(module: nn.Module) -> Callable[..., tuple[Array, Leaves]]:
    """A function ``(leaves, frozen arrays, x, key, training) -> scores, leaves after the call``.

    With ``embeds=True`` an adapter returns the inputs of its last layer in place of the scores.
    Leaves are the module's tensors. They are returned because the module may change some of them in
    place, such as running statistics.
    """
    env = environment()
    names = list(float_entries(module))
    # torchax can be imported only after ``environment``.
    from torchax.tensor import Tensor as Wrapped

    by_mode = {mode: copied(module).train(mode) for mode in (True, False)}
    constants = _constants(module)

    def call(
        leaves: Leaves,
        frozen: Arrays,
        x: Array,
        key: Array | None,
        training: bool,
        **options: bool,
    ) -> tuple[Array, Leaves]:
        # torchax needs a key even for a module that draws no random numbers.
        prng = jax.random.key(0) if key is None else key
        with env, env.override_property(prng=prng):
            state = {name: Wrapped(leaf, env) for name, leaf in zip(names, leaves, strict=True)}
            fixed = {**constants, **frozen}
            held = {name: Wrapped(jnp.asarray(value), env) for name, value in fixed.items()}
            scores = torch.func.functional_call(
                by_mode[training], {**state, **held}, (Wrapped(x, env),), options
            )
            return scores.jax(), [state[name].jax() for name in names]

    return call


def _constants(module: nn.Module) -> dict[str, Array]:
    """The entries of a module that are neither in its vector nor frozen: integers, such as counters
    of batches, and buffers that its state leaves out, such as position numbers."""
    state = module.state_dict(keep_vars=True)
    integers = {
        name: entry
        for name, entry in state.items()
        if isinstance(entry, torch.Tensor) and not entry.is_floating_point()
    }
    others = {name: entry for name, entry in module.named_buffers() if name not in state}
    shared = shared_entries(module)
    constants = {name: entry for name, entry in (integers | others).items() if name not in shared}
    return {name: jnp.asarray(array) for name, array in as_arrays(constants).items()}
