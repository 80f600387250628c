"""The tests run with checks of types, on functions with and without shapes."""

from __future__ import annotations

from typing import Any

import jaxtyping
import numpy as np
import pytest

from fedkin.config.key_meanings import sentence
from fedkin.config.keys import Key, keys
from fedkin.core.randomness import Stream
from fedkin.measures.cluster_agreement import adjusted_rand_index
from tests.type_checks import may_have_shapes, with_checks


def test_wrong_types_are_refused() -> None:
    wrong: Any = 3
    with pytest.raises(jaxtyping.TypeCheckError):
        sentence(wrong)
    assert sentence("learning rate") == "Learning rate"


def test_shapes_that_do_not_agree_are_refused() -> None:
    clusters = np.array([0, 0, 1, 1])
    assert adjusted_rand_index(clusters, clusters) == 1
    with pytest.raises(jaxtyping.TypeCheckError):
        adjusted_rand_index(clusters, clusters[:3])


def test_annotations_stay_as_they_are_written() -> None:
    """Also after the first call, which builds the check."""
    sentence("learning rate")
    adjusted_rand_index(np.array([0, 1]), np.array([0, 1]))
    for function in (sentence, adjusted_rand_index):
        assert all(isinstance(hint, str) for hint in function.__annotations__.values())


def test_fields_of_a_dataclass_are_checked() -> None:
    wrong: Any = "three"
    with pytest.raises(jaxtyping.TypeCheckError):
        Stream(wrong)


def test_the_result_has_the_shapes_of_the_arguments() -> None:
    """One letter has one value from the first argument to the result."""

    def doubled(x: jaxtyping.Float[np.ndarray, "n"]) -> jaxtyping.Float[np.ndarray, "n"]:
        return np.concatenate([x, x])

    doubled.__annotations__ = {
        "x": jaxtyping.Float[np.ndarray, "n"],
        "return": jaxtyping.Float[np.ndarray, "n"],
    }
    with pytest.raises(jaxtyping.TypeCheckError):
        with_checks(doubled, None)(np.zeros(2))


def test_shapes_are_found_inside_of_other_annotations() -> None:
    def plain(names: list[str], found: dict[str, Key]) -> tuple[int, ...]:
        raise NotImplementedError

    def nested(rows: dict[str, list[jaxtyping.Float[np.ndarray, "n"]]] | None) -> None:
        raise NotImplementedError

    def returned() -> tuple[int, jaxtyping.Int[np.ndarray, "K P"]]:
        raise NotImplementedError

    def unknown(value: NotDefinedYet) -> None:  # type: ignore[name-defined]
        raise NotImplementedError

    assert not may_have_shapes(plain) and not may_have_shapes(keys)
    assert may_have_shapes(nested) and may_have_shapes(returned) and may_have_shapes(unknown)
