"""A model with its weights, to predict with: that of a cluster, or a client's own.

Shapes: B samples, C classes, P parameters, D detectors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int, Shaped

from fedkin.core.errors import DataError, ModelError
from fedkin.core.layout import Samples
from fedkin.data.user_arrays import user_array
from fedkin.export.columns import is_table, values_of
from fedkin.simulation.workers import AnyModel, ModelWithWorkers

_PIXELS = np.float32(255)


class Decisions(NamedTuple):
    """What a model decides of samples.

    Attributes:
        classes: that of the highest score, the first of equals. Probabilities do not decide: those
            of several detectors that are sure round to the same number, and their scores differ.
        probability: of each class.
    """

    classes: Int[np.ndarray, "B"]
    probability: Float[np.ndarray, "B C"]


class Classifier:
    """What predicts classes from scores; a subclass has ``samples``, ``label_names``, ``detects``
    and ``_scores``."""

    name: str
    samples: Samples
    label_names: Sequence[Any] | None
    detects: bool

    def _scores(self, x: Shaped[np.ndarray, "B ..."]) -> Float[np.ndarray, "B C"]:
        raise NotImplementedError

    def __call__(self, x: Any) -> Float[np.ndarray, "B C"]:
        """Scores of samples: logits, before the softmax; of a mixture, logarithms of its
        probabilities.

        Args:
            x: [B ...], as the run's data hold them; ``uint8`` are divided by 255 where the data's
                own were, and refused elsewhere. Of a DataFrame the columns are taken by name, where
                the run's data had names.

        Raises:
            DataError: samples of another shape or type, with NaN or infinity, or without a column.
        """
        x = as_samples(x, self.samples)
        return self._scores(x) if len(x) else np.zeros((0, int(self.samples.classes)), np.float32)

    def predict(self, x: Any, proba: bool = False) -> np.ndarray:
        """Classes of samples [B]: the label's name where labels have names, else its number, the
        first of equals.

        Args:
            x: as for calling the model.
            proba: probabilities [B, C] instead: the softmax of the scores; of detectors the sigmoid
                of each, divided by their sum.
        """
        classes, probability = self.decide(x)
        if proba:
            return probability
        return classes if self.label_names is None else np.asarray(self.label_names)[classes]

    def decide(self, x: Any) -> Decisions:
        """What the model decides of samples, and how sure it is.

        Args:
            x: as for calling the model.

        Raises:
            DataError: as for calling the model.
            ModelError: scores that are NaN or infinite; the model and a sample are named.
        """
        scores = self(x)
        broken = np.flatnonzero(
            np.isnan(scores).any(axis=1) | ~np.isfinite(scores.max(axis=1, initial=-np.inf))
        )
        if len(broken):
            raise ModelError(
                f"{self.name}: its scores of {len(broken)} of {len(scores)} samples are NaN or "
                f"infinite, such as those of sample {broken[0]}; its training may have diverged "
                "(a lower learning rate may help)"
            )
        return Decisions(scores.argmax(axis=1), probabilities(scores, self.detects))


@dataclass(frozen=True, eq=False, repr=False)
class Predictor(Classifier):
    """A trained model.

    Attributes:
        name: whose model it is: ``cluster-2``, or ``client-7`` where a client has a model of its
            own.
        model: what computes with the weights.
        vectors: the weights, one row; of detectors one row for each, of a mixture one for each
            component.
        samples: one sample, which shows the shape and type of all.
        label_names: name of each class, where labels have names.
        positive: the class of each detector; None of other models.
        cluster: number of the cluster; None where the model is of no cluster.
        shares: of each component of a mixture, whose probabilities are mixed, and not scores; None
            of other models.
    """

    name: str
    model: AnyModel
    vectors: Float[np.ndarray, "D P"]
    samples: Samples
    label_names: Sequence[Any] | None = None
    positive: Int[np.ndarray, "D"] | None = None
    cluster: int | None = field(default=None, kw_only=True)
    shares: Float[np.ndarray, "D"] | None = field(default=None, kw_only=True)

    def __repr__(self) -> str:
        kind = "detectors" if self.detects else "models" if self.shares is not None else ""
        several = f", {len(self.vectors)} {kind}" if kind else ""
        return f"Predictor({self.name}: {self.model.name}, {self.vectors.shape[1]:,} parameters{several})"

    @property
    def detects(self) -> bool:
        """Whether it is one detector for each class."""
        return self.positive is not None

    @property
    def vector(self) -> Float[np.ndarray, "P"]:
        """The weights as one vector. Raises ModelError for detectors and mixtures, which are
        several (``vectors``)."""
        if self.shares is not None:
            raise ModelError(
                f"{self.name} is a mixture of {len(self.vectors)} models; take vectors and shares"
            )
        if self.detects:
            raise ModelError(
                f"{self.name} is {len(self.vectors)} detectors, not one model; take vectors and "
                "positive"
            )
        return self.vectors[0]

    @cached_property
    def layers(self) -> dict[str, np.ndarray]:
        """The weights by layer, in the layers' shapes; of detectors, behind ``detectors.CLASS.``,
        of mixtures behind ``components.NUMBER.``."""
        named = [layers_of(self.model, vector) for vector in self.vectors]
        if self.shares is not None:
            return {
                f"components.{k}.{name}": array
                for k, own in enumerate(named)
                for name, array in own.items()
            }
        if self.positive is None:
            return named[0]
        pairs = zip(self.positive, named, strict=True)
        return {f"detectors.{c}.{name}": array for c, own in pairs for name, array in own.items()}

    @property
    def module(self) -> Any:
        """The model as it was given, with these weights: an ``nn.Module`` in evaluation mode, an
        Equinox module, or the parameters of an ``(init, apply)`` pair. Raises ModelError for
        detectors."""
        if isinstance(self.model, ModelWithWorkers):
            return self.model.network(self.vector).eval()  # type: ignore[attr-defined]
        import jax.numpy as jnp

        return self.model.whole(self.model.unflatten(jnp.asarray(self.vector)))  # type: ignore[attr-defined]

    def _scores(self, x: Shaped[np.ndarray, "B ..."]) -> Float[np.ndarray, "B C"]:
        if self.shares is not None:
            mixed: Any = sum(
                share * probabilities(class_scores(self.model, vector, x))
                for share, vector in zip(self.shares, self.vectors, strict=True)
            )
            with np.errstate(divide="ignore"):
                return np.log(mixed).astype(np.float32)
        if self.positive is None:
            return class_scores(self.model, self.vectors[0], x)
        scores = np.full((len(x), int(self.samples.classes)), -np.inf, np.float32)
        for positive, vector in zip(self.positive, self.vectors, strict=True):
            scores[:, positive] = class_scores(self.model, vector, x)[:, 0]
        return scores


def layers_of(model: AnyModel, vector: Float[np.ndarray, "P"]) -> dict[str, np.ndarray]:
    """The arrays of one model by the names that it gives them; of a PyTorch module its whole
    ``state_dict``."""
    if isinstance(model, ModelWithWorkers):
        return {name: entry.numpy() for name, entry in model.network(vector).state_dict().items()}  # type: ignore[attr-defined]
    import jax

    leaves = jax.tree.leaves(model.unflatten(np.asarray(vector)))  # type: ignore[attr-defined]
    return {name: np.asarray(leaf) for name, leaf in zip(model.spec.slices, leaves, strict=True)}


def probabilities(
    scores: Float[np.ndarray, "B C"], detects: bool = False
) -> Float[np.ndarray, "B C"]:
    """Probabilities from scores: their softmax; of detectors the sigmoid of each score, divided by
    their sum."""
    logits = scores.astype(np.float64)
    if detects:
        logits = -np.logaddexp(
            0, -logits
        )  # log of the sigmoid: divided by the sum, it is a softmax of that
    shifted = np.exp(logits - logits.max(axis=1, keepdims=True))
    return shifted / shifted.sum(axis=1, keepdims=True)


def as_samples(x: Any, samples: Samples) -> Shaped[np.ndarray, "B ..."]:
    """Samples as a model takes them.

    Args:
        x: anything that NumPy makes an array [B ...] of; ``uint8`` are divided by 255 where the
            samples were. Of a DataFrame the columns are taken by name, where the features have
            names.
        samples: which show shape and type, and may say ``from_uint8`` and ``feature_names``.

    Raises:
        DataError: another shape or type, NaN or infinity, a column that is missing.
    """
    shape = tuple(samples.x.shape[1:])
    dtype = samples.x.dtype
    floats = np.issubdtype(dtype, np.floating)
    names = getattr(samples, "feature_names", None)
    if names is not None and is_table(x):
        array = values_of(x, names, "samples", dtype)
    else:
        array = user_array(x, "samples", "x")
    if (
        array.dtype.kind not in ("biuf" if floats else "iu")
        or array.shape[1:] != shape
        or not array.ndim
    ):
        kind = "numbers" if floats else "integers"
        raise DataError(
            f"expected samples of shape [B, {', '.join(map(str, shape))}] ({kind}, as "
            f"{samples.name} has them), got {array.dtype} of shape {list(array.shape)}; one "
            "sample is x[None]"
        )
    if floats and array.dtype == np.uint8:
        if not getattr(samples, "from_uint8", False):
            raise DataError(
                f"uint8 samples: {samples.name} does not say that its own were uint8 divided by "
                "255, so how to scale these is not known; prepare them as those were, and give "
                "floats (x.astype('float32'))"
            )
        array = array / _PIXELS
    array = np.ascontiguousarray(array, dtype)
    if floats and not np.isfinite(array).all():
        row = int(np.flatnonzero(~np.isfinite(array.reshape(len(array), -1)).all(axis=1))[0])
        raise DataError(f"sample {row} holds NaN, or a number that is not finite as float32")
    return array


_WIDTH = 64  # samples at a time; JAX compiles for one number of them


def class_scores(
    model: AnyModel, vector: Float[np.ndarray, "P"], x: Shaped[np.ndarray, "B ..."]
) -> Float[np.ndarray, "B S"]:
    """Scores of samples, in inference mode.

    Args:
        model: what computes.
        vector: its weights.
        x: samples in the type of the data, at least one.
    """
    score = _torch_scores if isinstance(model, ModelWithWorkers) else _jax_scores
    return score(model, vector, x)


def _jax_scores(
    model: Any, vector: Float[np.ndarray, "P"], x: Shaped[np.ndarray, "B ..."]
) -> np.ndarray:
    score = _compiled(model)
    parts = []
    for start in range(0, len(x), _WIDTH):
        block = x[start : start + _WIDTH]
        padding = [(0, _WIDTH - len(block))] + [(0, 0)] * (x.ndim - 1)
        parts.append(np.asarray(score(vector, np.pad(block, padding)))[: len(block)])
    return np.concatenate(parts)


@lru_cache(maxsize=16)
def _compiled(model: Any) -> Callable[..., Any]:
    import jax

    return jax.jit(lambda vector, x: model.apply(model.unflatten(vector), x, None))


def _torch_scores(
    model: Any, vector: Float[np.ndarray, "P"], x: Shaped[np.ndarray, "B ..."]
) -> np.ndarray:
    import torch

    from fedkin.simulation.torch.flat_module import to_tensor

    with model.torch_settings(), torch.inference_mode():
        network = model.network(vector).eval()
        return np.concatenate([network(part).numpy() for part in to_tensor(x).split(_WIDTH)])
