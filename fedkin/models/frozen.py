"""The class ``FrozenPart``: arrays of a model that are not trained, such as a backbone."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import jax
import numpy as np

# A pytree of arrays.
Tree = Any


@dataclass(frozen=True, eq=False)
class Origin:
    """The folder of a backbone, and how a model was made of it.

    Attributes:
        folder: the folder of the pretrained model.
        digest: digest of the backbone: of its settings, its tokenizer and all its weights, also of
            layers that the model does not use.
        section: the section [model] of a configuration that makes the model, without the folder.
    """

    folder: Path
    digest: str
    section: Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class FrozenPart:
    """Arrays of a model that are equal for all clients and are not trained.

    They are in no message, checkpoint or ledger. Compiled programs take them as an argument: arrays
    that a program closes over would be written into every program, on disk too.

    Attributes:
        name: the name of the backbone, such as its folder.
        tree: the arrays, as a pytree of NumPy arrays.
        constants: numbers that are no entries of the tree, since they are compiled into programs.
        origin: the folder of a pretrained model; None if the arrays come from a module.
    """

    name: str
    tree: Tree
    constants: Sequence[np.ndarray] = ()
    origin: Origin | None = None

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the arrays with their places in the tree, shapes and types, of constants, and
        of the settings of a pretrained model (``Backbone.digest``)."""
        digest = hashlib.sha256()
        if self.origin is not None:
            digest.update(self.origin.digest.encode())
        entries = [
            (jax.tree_util.keystr(path), leaf)
            for path, leaf in jax.tree_util.tree_leaves_with_path(self.tree)
        ]
        entries += [(f"constant {number}", value) for number, value in enumerate(self.constants)]
        for name, entry in entries:
            array = np.ascontiguousarray(entry)
            digest.update(f"{name} {array.dtype.str} {array.shape}\n".encode())
            digest.update(array.view(np.uint8).data if array.size else b"")
        return digest.hexdigest()

    @property
    def bytes(self) -> int:
        """The size of all arrays."""
        return sum(leaf.nbytes for leaf in jax.tree.leaves(self.tree))

    @property
    def backbone_digest(self) -> str:
        """The digest that identifies the backbone: of all weights in its folder, if it has one."""
        return self.digest if self.origin is None else self.origin.digest

    def facts(self) -> dict[str, Any]:
        """What a run's folder says about the backbone: name, digest and number of bytes."""
        return {"name": self.name, "digest": self.backbone_digest, "bytes": self.bytes}
