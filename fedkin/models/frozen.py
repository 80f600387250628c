"""The class ``FrozenPart``: arrays of a model that nobody trains, such as a pretrained backbone."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax
import numpy as np

# A pytree of arrays.
Tree = Any


@dataclass(frozen=True, eq=False)
class FrozenPart:
    """Arrays of a model that are equal for all clients and are not trained.

    They are in no message, checkpoint or ledger. Compiled programs take them as an argument: arrays
    that a program closes over would be written into every program, on disk too.

    Attributes:
        name: the name of the backbone, such as that of its folder.
        tree: the arrays, as a pytree of NumPy arrays.
    """

    name: str
    tree: Tree

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the arrays with their places in the tree, shapes and types."""
        digest = hashlib.sha256()
        for path, leaf in jax.tree_util.tree_leaves_with_path(self.tree):
            array = np.ascontiguousarray(leaf)
            place = f"{jax.tree_util.keystr(path)} {array.dtype.str} {array.shape}\n"
            digest.update(place.encode())
            digest.update(array.view(np.uint8).data if array.size else b"")
        return digest.hexdigest()

    @property
    def bytes(self) -> int:
        """The size of all arrays."""
        return sum(leaf.nbytes for leaf in jax.tree.leaves(self.tree))

    def facts(self) -> dict[str, Any]:
        """What a run's folder says about the backbone: name, digest and number of bytes."""
        return {"name": self.name, "digest": self.digest, "bytes": self.bytes}
