"""The tests run with checks of types, on functions with and without shapes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import jaxtyping
import numpy as np
import pytest
from jaxtyping._storage import get_shape_memo, pop_shape_memo, push_shape_memo

from fedkin.config.key_meanings import sentence
from fedkin.config.keys import Key, keys
from fedkin.core.randomness import Stream
from fedkin.measures.cluster_agreement import adjusted_rand_index
from tests import type_checks
from tests.type_checks import is_array_of, may_have_shapes, resolved_hints, with_checks


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


@pytest.mark.parametrize("shaped", [False, True])
def test_the_setting_turns_checks_off_and_on(shaped: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before the first call of a function, and after calls that were checked."""

    def plain(value: int) -> int:
        return value

    def with_shape(value: jaxtyping.Int[np.ndarray, "n n"]) -> jaxtyping.Int[np.ndarray, "n n"]:
        return value

    plain.__annotations__ = {"value": int, "return": int}
    square = jaxtyping.Int[np.ndarray, "n n"]
    with_shape.__annotations__ = {"value": square, "return": square}
    function: Any = type_checks._checked_from_first_call(with_shape if shaped else plain, None)
    right: Any = np.zeros((2, 2), int) if shaped else 3
    wrong: Any = "three"
    for _ in range(3):
        with monkeypatch.context() as patch:
            patch.setattr(jaxtyping.config, "jaxtyping_disable", True)
            assert function(wrong) is wrong
        for _ in range(2):
            assert function(right) is right
            assert function(value=right) is right
            with pytest.raises(jaxtyping.TypeCheckError):
                function(wrong)
            with pytest.raises(jaxtyping.TypeCheckError):
                function(value=wrong)


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
        with_checks(doubled, None, resolved_hints(doubled))(np.zeros(2))


def test_generators_check_their_arguments_when_they_are_called() -> None:
    """Not when they begin; with positions, names and defaults as they are written."""

    def pairs(
        x: jaxtyping.Float[np.ndarray, "n"],
        /,
        count: int = 2,
        *more: int,
        last: int = 7,
        **names: int,
    ) -> Iterator[tuple[int, ...]]:
        yield len(x), count, *more, last, *names.values()

    array = jaxtyping.Float[np.ndarray, "n"]
    pairs.__annotations__ = {
        "x": array,
        **dict.fromkeys(["count", "more", "last", "names"], int),
        "return": Iterator[tuple[int, ...]],
    }
    checked: Any = with_checks(pairs, None, resolved_hints(pairs))
    x = np.zeros(3)
    assert list(checked(x)) == [(3, 2, 7)]
    assert list(checked(x, 5, 6, last=8, other=9)) == [(3, 5, 6, 8, 9)]
    assert list(checked(x, count=4)) == [(3, 4, 7)]
    for wrong in ((x, "2"), (x, 2, "3"), (np.zeros((3, 3)),), ([1.0],)):
        with pytest.raises(jaxtyping.TypeCheckError):
            checked(*wrong)
    for wrong in ({"last": "8"}, {"other": "9"}):
        with pytest.raises(jaxtyping.TypeCheckError):
            checked(x, **wrong)


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


HINTS = [
    jaxtyping.Float[np.ndarray, "n"],
    jaxtyping.Float32[np.ndarray, "n"],
    jaxtyping.Float[np.ndarray, "n k"],
    jaxtyping.Float[np.ndarray, "n n"],
    jaxtyping.Int[np.ndarray, "k"],
    jaxtyping.Float[np.ndarray, "n 2"],
    jaxtyping.Float[np.ndarray, "_ n"],
    jaxtyping.Float[np.ndarray, "n ..."],
    jaxtyping.Float[np.ndarray, "*n k"],
    jaxtyping.Float[np.ndarray, "#n k"],
    jaxtyping.Float[np.ndarray, "n n+1"],
    jaxtyping.Shaped[np.ndarray, "n"],
    jaxtyping.Num[np.ndarray, ""],
]
ARRAYS = [
    np.zeros(shape, kind)
    for shape in ((), (2,), (3,), (2, 2), (2, 3), (2, 4), (3, 2), (1, 3), (2, 2, 2))
    for kind in (np.float32, np.float64, np.int64, bool, [("a", np.float32)])
]


def verdicts(check: Callable[[Any, Any], bool], first: Any, hint: Any) -> list[Any]:
    """What a check says of every array, and the sizes of letters after it, in the scope of a first
    array that has fitted."""
    found: list[Any] = []
    for array in [*ARRAYS, [1.0], None]:
        push_shape_memo({})
        check(jaxtyping.Float[np.ndarray, "n"], first)
        found.append((check(hint, array), dict(get_shape_memo()[0])))
        pop_shape_memo()
    return found


@pytest.mark.parametrize("hint", HINTS, ids=lambda hint: hint.__name__)
def test_shapes_are_compared_as_jaxtyping_does(hint: Any) -> None:
    """For arrays that fit and that do not fit, twice: the second time without jaxtyping."""
    said = set()
    for first in (np.zeros(2), np.zeros(3), None):
        expected = verdicts(type_checks._checked_by_jaxtyping, first, hint)
        said |= {is_one for is_one, _ in expected}
        assert verdicts(is_array_of, first, hint) == expected
        assert verdicts(is_array_of, first, hint) == expected
    assert said == {True, False}


def test_a_shape_that_does_not_fit_leaves_no_size_behind() -> None:
    """As in a union of types, of which the first one does not fit."""
    hint = jaxtyping.Float[np.ndarray, "n k n"]
    assert is_array_of(hint, np.zeros((2, 3, 2)))
    push_shape_memo({})
    assert not is_array_of(hint, np.zeros((2, 3, 4)))
    assert get_shape_memo()[0] == {}
    pop_shape_memo()
