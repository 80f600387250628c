"""The class ``Model``: clients use its parameters as a pytree, servers and methods as one flat
vector."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import inspect
import os
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import platformdirs
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float

from fedkin.core.errors import ConfigError, ModelError
from fedkin.core.model_spec import ModelSpec, spec_from_shapes
from fedkin.core.model_spec import Samples as Samples
from fedkin.core.object_repr import html_table, model_text
from fedkin.models.frozen import FrozenPart
from fedkin.task_types.classification import CLASSIFICATION
from fedkin.task_types.task_type import TaskType

# A pytree of float32 arrays.
Tree = Any


@runtime_checkable
class Text(Samples, Protocol):
    """Data that a model for text accepts: x are word indices [M L]."""

    @property
    def vocabulary(self) -> tuple[str, ...] | None:
        """The V words that the indices stand for."""
        ...

    @property
    def vectors(self) -> np.ndarray | None:
        """Fixed vectors of the words [V D]; None if an embedding is trained instead."""
        ...


def check_samples(data: object) -> None:
    """Raise ModelError if a model function gets an argument that is not federated data (e.g. a
    table).

    Args:
        data: the first argument of a model function.
    """
    if hasattr(data, "x") and hasattr(data, "classes"):
        return
    kind = type(data).__name__
    cure = "fk.data.from_arrays(x, y, clients=...)"
    if kind == "DataFrame":
        cure = "fk.data.from_pandas(table, label=..., client=...)"
    raise ModelError(f"a model is made for federated data, such as {cure}, got {kind}")


def _itself(tree: Tree) -> Tree:
    """The default of ``Model.whole``: return the parameters unchanged, since a model that is not a
    module consists only of its parameters."""
    return tree


@dataclass(frozen=True, eq=False, repr=False)
class Model:
    """A model: the shapes of its parameters and its functions.

    Models are compared by identity, so that each model is compiled once.

    Attributes:
        name: name of the model in messages and descriptions.
        spec: shapes of the parameters.
        init: from a random key to parameters.
        apply: from parameters, x [B ...] and a key (None: inference) to scores [B C].
        unflatten: from a flat vector [P] to parameters.
        penalty: from parameters to a term of the training loss.
        random: whether training draws random numbers (dropout).
        fit: the training pass of a model with running statistics (batch normalisation): from
            parameters, x [B ...], mask [B] and key to scores [B C] and parameters with updated
            statistics.
        statistics: for each leaf (array) of the parameters, whether it is a running statistic.
            Statistics are part of the flat vector and are averaged with it, but gradient steps do
            not change them.
        whole: from parameters to the user's module, for inference.
        frozen: arrays that are not trained, such as a pretrained backbone; None without any.
            ``apply`` uses them as they are. A compiled program uses ``bound`` instead.
        applied: for a model with frozen arrays: from these arrays to the function ``apply``.
        embedded: for a model with a frozen network: from the frozen arrays and x [B ...] to the
            network's embeddings [B e], without anything that is trained.
        task_type: what the labels are, from which the loss follows. ``model_for`` sets it.
    """

    name: str
    spec: ModelSpec
    init: Callable[[Array], Tree]
    apply: Callable[[Tree, Array, Array | None], Array]
    unflatten: Callable[[Array], Tree]
    penalty: Callable[[Tree], Array] | None = None
    random: bool = False
    fit: Callable[[Tree, Array, Array, Array | None], tuple[Array, Tree]] | None = None
    statistics: tuple[bool, ...] = ()
    whole: Callable[[Tree], Any] = _itself
    task_type: TaskType = CLASSIFICATION
    frozen: FrozenPart | None = None
    applied: Callable[[Tree], Callable[[Tree, Array, Array | None], Array]] | None = None
    embedded: Callable[[Tree, Array], Array] | None = None

    def __repr__(self) -> str:
        return model_text("Model", self.name, self.spec.facts())

    def _repr_html_(self) -> str:
        return html_table(f"Model {self.name}", self.spec.facts())

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "unflatten"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        # ``unflatten`` cannot be pickled, so it is made again in the other process.
        self.__dict__.update(state)
        self.__dict__["unflatten"] = parameter_tree(self.init(jax.random.key(0)))

    def initial(self, words: np.ndarray) -> Float[np.ndarray, "P"]:
        """A new flat model, drawn from two uint32 random words."""
        tree = self.init(jax.random.wrap_key_data(jnp.asarray(words)))
        # NumPy concatenates, so that no program is compiled for it.
        leaves = [np.asarray(leaf, np.float32) for leaf in jax.tree.leaves(tree)]
        return np.concatenate([leaf.ravel() for leaf in leaves])

    @property
    def frozen_arrays(self) -> Tree:
        """The arrays that are not trained, as an argument of compiled programs; None without
        any."""
        return None if self.frozen is None else self.frozen.tree

    def bound(self, frozen: Tree) -> Model:
        """The model that computes with these frozen arrays: within a compiled program, the
        program's argument."""
        if self.applied is None:
            return self
        return dataclasses.replace(self, apply=self.applied(frozen))

    def scores(self, flat: Any, x: Any, frozen: Tree) -> Array:
        """The scores [B C] of samples in inference mode, by a flat model, as a program computes
        them.

        Args:
            flat: the parameters [P].
            x: samples [B ...].
            frozen: ``frozen_arrays``.
        """
        return self.bound(frozen).apply(self.unflatten(flat), x, None)

    def with_statistics(self, tree: Tree, statistics: Tree) -> Tree:
        """The parameters ``tree``, with their running statistics replaced by those of
        ``statistics``."""
        leaves, structure = jax.tree.flatten(tree)
        triples = zip(self.statistics, jax.tree.leaves(statistics), leaves, strict=True)
        updated = [new if is_statistic else old for is_statistic, new, old in triples]
        return jax.tree.unflatten(structure, updated)


@functools.lru_cache(maxsize=32)
def model_for(model: Model, task_type: TaskType) -> Model:
    """The model with the loss of a task type. Equal arguments return the same object, so that its
    programs are compiled once."""
    if model.task_type == task_type:
        return model
    return dataclasses.replace(model, task_type=task_type)


def flatten(tree: Tree) -> Float[Array, "P"]:
    """Parameters as one vector, leaf (array) after leaf, each in row-major order."""
    return jnp.concatenate([leaf.ravel().astype(jnp.float32) for leaf in jax.tree.leaves(tree)])


def as_model(
    source: eqx.Module | Callable[[Array], eqx.Module] | tuple[Callable, Callable],
    *,
    name: str = "custom",
    batched: bool = False,
    penalty: Callable[[Tree], Array] | None = None,
    detects: bool = False,
) -> Model:
    """A model from an Equinox module, from a function that makes one, or from a pair of functions.

    Args:
        source: an Equinox module: every run starts from its weights. Or ``key -> module``, for
            weights drawn from the run's seed. The module is called on a sample (on a batch, with
            ``batched``) and returns scores [C]. If its call takes ``key``, it gets one in training
            and None otherwise. Or a pair ``init(key) -> parameters``,
            ``apply(parameters, x [B ...], key or None) -> scores [B C]``.
        name: name of the model in messages and descriptions.
        batched: whether the module takes a batch instead of one sample.
        penalty: from parameters to a term of the training loss, such as an L2 term.
        detects: whether the model is a detector, which separates one class from all others: one
            score per sample, [B 1], positive for its class. ATHENA-FL trains detectors.

    Raises:
        ModelError: there are no floating-point parameters, or the source is none of these.
        ConfigError: JAX has no device.

    Examples:
        >>> import fedkin as fk
        >>> import jax.numpy as jnp
        >>> def init(key):
        ...     return jnp.zeros((10, 64))
        >>> def apply(weights, x, key):
        ...     return x @ weights.T
        >>> fk.as_model((init, apply)).spec.parameters
        640
    """
    prepare_jax()
    _start_jax()
    _refuse_pytorch(source)
    if isinstance(source, tuple) and len(source) == 2 and all(callable(part) for part in source):
        init, apply = source
        # An (init, apply) pair does not say whether it draws random numbers, so it always gets a
        # key.
        random = True
        whole = _itself
    elif isinstance(source, eqx.Module):
        init, apply, random, whole = _of_module(source, lambda _: source, batched)
    elif callable(source):
        init, apply, random, whole = _of_module(source(jax.random.key(0)), source, batched)
    else:
        raise ModelError(
            "a model must be an Equinox module or an (init, apply) pair, got "
            f"{type(source).__name__}"
        )
    example = init(jax.random.key(0))
    leaves = jax.tree_util.tree_leaves_with_path(example)
    if not leaves or not all(_is_floating(leaf) for _, leaf in leaves):
        raise ModelError(f"model {name!r}: parameters must be floating-point arrays, at least one")
    return Model(
        name=name,
        spec=_spec(leaves, detects),
        init=init,
        apply=apply,
        unflatten=parameter_tree(example),
        penalty=penalty,
        random=random,
        whole=whole,
    )


def _is_floating(leaf: Any) -> bool:
    """Whether a leaf of the parameters is an array of floating-point numbers, which can be
    trained."""
    return hasattr(leaf, "dtype") and bool(jnp.issubdtype(leaf.dtype, jnp.floating))


def is_torch_module(source: Any) -> bool:
    """Whether an object is a PyTorch module, or a class of modules."""
    # A PyTorch module can exist only if PyTorch is imported.
    torch = sys.modules.get("torch")
    kind = source if isinstance(source, type) else type(source)
    return torch is not None and issubclass(kind, torch.nn.Module)


def _refuse_pytorch(source: Any) -> None:
    """Raise ModelError, with advice, for a PyTorch module."""
    if is_torch_module(source):
        kind = source if isinstance(source, type) else type(source)
        raise ModelError(
            f"{kind.__name__} is a PyTorch module: use fk.torch_model(..., engine='jax') to "
            "compile it with JAX, or fk.torch_model(...) to train it with PyTorch"
        )


def parameter_tree(example: Tree) -> Callable[[Array], Tree]:
    """A function from a flat vector to parameters: the inverse of ``flatten``, for parameters with
    the structure of the example."""
    inverses = []

    def flat(tree: Tree) -> Array:
        vector, unflatten = ravel_pytree(jax.tree.map(lambda leaf: leaf.astype(jnp.float32), tree))
        inverses.append(unflatten)
        return vector

    # Only shapes are needed. Nothing is computed, so no program is compiled.
    jax.eval_shape(flat, example)
    return inverses[0]


def _of_module(
    example: Any, make: Callable[[Array], eqx.Module], batched: bool
) -> tuple[Callable, Callable, bool, Callable]:
    """The parts of a ``Model`` for a module: ``init``, ``apply``, whether training draws random
    numbers, and ``whole``."""
    if not isinstance(example, eqx.Module):
        raise ModelError(
            f"a model function must return an Equinox module, got {type(example).__name__}"
        )
    # Everything except the parameters, in training and in inference mode.
    _, training = eqx.partition(example, eqx.is_inexact_array)
    _, inference = eqx.partition(eqx.nn.inference_mode(example), eqx.is_inexact_array)
    random = "key" in inspect.signature(type(example).__call__).parameters

    def init(key: Array) -> Tree:
        return eqx.filter(make(key), eqx.is_inexact_array)

    def apply(tree: Tree, x: Array, key: Array | None) -> Array:
        """Scores of a batch. A module that takes single samples gets a separate key for each."""
        module = eqx.combine(tree, inference if key is None else training)
        if not random:
            return module(x) if batched else jax.vmap(module)(x)
        if batched or key is None:
            call = functools.partial(module, key=key)
            return call(x) if batched else jax.vmap(call)(x)
        keys = jax.random.split(key, len(x))
        return jax.vmap(lambda sample, sample_key: module(sample, key=sample_key))(x, keys)

    def whole(tree: Tree) -> Any:
        return eqx.combine(tree, inference)

    return init, apply, random, whole


def _spec(leaves: list[tuple[Any, Array]], detects: bool) -> ModelSpec:
    """The shapes of a model's parameters, by name (the path of each array in the module)."""
    shapes = {}
    for path, leaf in leaves:
        name = jax.tree_util.keystr(path, simple=True, separator=".")
        shapes[name] = leaf.shape
    return spec_from_shapes(shapes, detects)


def prepare_jax() -> None:
    """Configure JAX before its first computation. Settings that the user has made are kept, except
    NPROC.

    Compiled programs are cached on disk, so that a second run starts at once (FEDKIN_CACHE sets the
    folder). JAX treats every core of the CPU as a device: clients are independent, so training one
    client on each core is faster than using all cores for one matrix product.

    XLA gets at least one thread more than there are devices (NPROC). With the same number, padded
    convolutions of jaxlib 0.10.2 become silently wrong when the programs of all devices have run
    for a while. The probable cause is that tasks wait in a queue for a thread, and a task that
    finds the queue full is run inside another task (docs/design/compiled-training.md).
    """
    if getattr(jax.config, "jax_compilation_cache_dir", None) is None:
        root = Path(os.environ.get("FEDKIN_CACHE") or platformdirs.user_cache_dir("fedkin"))
        jax.config.update("jax_compilation_cache_dir", str(root / "compiled"))
        # All programs are kept: reading a small one takes a tenth of the time of compiling it.
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    flags = os.environ.get("XLA_FLAGS", "")
    configured = re.findall(r"xla_force_host_platform_device_count=(\d+)", flags)
    if not configured and getattr(jax.config, "jax_num_cpu_devices", 0) < 1:
        # RuntimeError: JAX has started, and devices are fixed.
        with contextlib.suppress(RuntimeError):
            jax.config.update("jax_num_cpu_devices", _cores())
    devices = int(configured[-1]) if configured else getattr(jax.config, "jax_num_cpu_devices", 1)
    if devices > 1:
        os.environ["NPROC"] = str(max(_threads(), devices + 1))


def _start_jax() -> None:
    """Start JAX's devices. Raises ConfigError if it has none, as with a driver that it refuses."""
    try:
        jax.devices()
    # JAX has an assertion where a platform has no plugin.
    except (AssertionError, RuntimeError) as error:
        platforms = os.environ.get("JAX_PLATFORMS", "")
        reason = str(error) or "its plugin is not installed"
        raise ConfigError(
            f"JAX finds no device for JAX_PLATFORMS={platforms!r}: {reason}. Check the driver "
            "(nvidia-smi) and the plugin of JAX, or set JAX_PLATFORMS=cpu"
        ) from error


def _threads() -> int:
    """Number of XLA threads that the user has set (NPROC); 0 if not set."""
    threads = os.environ.get("NPROC", "")
    return int(threads) if threads.isdecimal() else 0


def _cores() -> int:
    """Number of processor cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
