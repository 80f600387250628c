"""NumPy's numbers as options: the same objects, printed and stored alike,
as Python's numbers make."""

import dataclasses
import json
from typing import Any

import numpy as np
import pytest

import fedkin as fk
from fedkin.config import registry
from fedkin.config.option_registry import known_values
from fedkin.core.errors import ConfigError
from fedkin.core.plain import plain, plain_lists
from fedkin.core.schedule import Schedule
from fedkin.core.training import LocalTraining
from fedkin.methods import METHODS
from fedkin.options import SECTIONS
from fedkin.scenarios.population import Population

REQUIRED = {"client_dp": {"noise_multiplier": 1.0}}
NUMPY = {bool: np.bool_, int: np.int64, float: np.float64, str: np.str_}


def option_classes() -> dict[str, Any]:
    """Every class of options that a run is made of."""
    known: dict[str, Any] = {
        **METHODS,
        **registry.shifts(),
        "population": Population,
        "local": LocalTraining,
    }
    for section in SECTIONS:
        known |= known_values(section)
    return known


def as_numpy(value: Any) -> Any:
    """The value as NumPy's scalar of its type; tuples as tuples of these."""
    if isinstance(value, tuple):
        return tuple(map(as_numpy, value))
    return NUMPY[type(value)](value) if type(value) in NUMPY else value


@pytest.mark.parametrize("name", sorted(option_classes()))
def test_options_made_of_numpys_numbers_are_those_made_of_pythons(name: str) -> None:
    kind = option_classes()[name]
    options = kind(**REQUIRED.get(name, {}))
    if not dataclasses.is_dataclass(options):
        pytest.fail(f"{name} is no dataclass: its options are not converted")
    fields = {f.name: getattr(options, f.name) for f in dataclasses.fields(options) if f.init}
    made = kind(**{field: as_numpy(value) for field, value in fields.items()})
    assert made == options
    assert repr(made) == repr(options)  # which differs where a NumPy number is kept: np.int64(3)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (np.int64(3), 3),
        (np.uint8(3), 3),
        (np.float32(0.1), 0.10000000149011612),  # the float that it is
        (np.float16(0.5), 0.5),
        (np.longdouble(0.25), 0.25),
        (np.bool_(True), True),
        (np.str_("edc"), "edc"),
        (np.array(2), 2),
        (np.array(0.5, np.float32), 0.5),
        ((np.int64(1), [np.float64(2)]), (1, [2.0])),
        ({np.int64(3): np.int64(4)}, {3: 4}),
    ],
)
def test_numbers_become_pythons(given: Any, expected: Any) -> None:
    made = plain(given)
    assert made == expected
    assert type(made) is type(expected)
    assert json.loads(json.dumps(plain_lists(given))) == json.loads(
        json.dumps(plain_lists(expected))
    )


def test_numbers_of_jax_become_pythons() -> None:
    import jax.numpy as jnp

    assert plain(jnp.float32(0.5)) == 0.5
    assert type(plain(jnp.bfloat16(0.5))) is float


def test_a_masked_number_has_no_value_and_arrays_stay() -> None:
    assert plain(np.ma.masked) is np.ma.masked
    epochs = np.array([1, 2])
    assert plain(epochs) is epochs
    with pytest.raises(ConfigError, match="batch_size must be an integer"):
        LocalTraining.from_settings({"batch_size": np.ma.masked})


def test_arrays_of_options_are_tuples_or_lists() -> None:
    assert fk.Byzantine(clients=np.arange(2)).clients == (0, 1)  # type: ignore[arg-type]
    assert plain_lists({"lr": np.logspace(-2, -1, 2)}) == {"lr": [0.01, 0.1]}
    assert plain_lists(np.arange(2, 4)) == [2, 3]


def test_schedules_and_arrivals_are_converted() -> None:
    schedule = Schedule("step", every=np.int64(5), gamma=np.float64(0.5))  # type: ignore[call-arg]
    assert repr(schedule) == repr(Schedule("step", every=5, gamma=0.5))  # type: ignore[call-arg]
    numbers: Any = {np.int64(2): np.int64(3)}
    arrivals = Population(arrivals=numbers).arrivals
    assert json.dumps(arrivals) == '{"2": 3}'
