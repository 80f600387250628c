"""Each key has a right example by rule, and an error about a value ends with it."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any, Literal

import pytest

import fedkin as fk
from fedkin.config import declarations, reference
from fedkin.config.key_examples import (
    EXAMPLES,
    accepts,
    annotation_of,
    shell_word,
    takes_list,
    toml_line,
)
from fedkin.config.keys import keys, type_words
from fedkin.config.loader import parse_override
from fedkin.config.registry import resolve
from fedkin.config.run import load
from fedkin.config.schema import Positive, check_integer
from fedkin.core.errors import ConfigError, MethodError

ALL = [
    (section, name, kind)
    for section, declared in reference.SECTIONS.items()
    for name, kind in declared.kinds().items()
]
IDS = [f"{section}.{name}" for section, name, _ in ALL]


@pytest.mark.parametrize(("section", "name", "kind"), ALL, ids=IDS)
def test_every_example_is_a_valid_value(section: str, name: str, kind: Any) -> None:
    fields = declarations.fields_of(kind)
    for key in keys(kind):
        assert accepts(annotation_of(fields[key.name]), key.example), (section, name, key)
        line = toml_line(key.name, key.example)
        assert tomllib.loads(line)[key.name] == _as_toml(key.example), line


def _as_toml(value: Any) -> Any:
    """A value as TOML reads it again: keys are text."""
    if isinstance(value, dict):
        return {str(key): _as_toml(inner) for key, inner in value.items()}
    return [_as_toml(part) for part in value] if isinstance(value, list) else value


MADE = [(s, n, k) for s, n, k in ALL if s in ("method", "shift", *reference.OPTIONS)]


@pytest.mark.parametrize(("section", "name", "kind"), MADE, ids=[f"{s}.{n}" for s, n, _ in MADE])
def test_an_example_makes_the_method_shift_or_option(section: str, name: str, kind: Any) -> None:
    known = reference.SECTIONS[section].kinds()
    for key in keys(kind):
        values = {"name": name, key.name: key.example}
        try:
            resolve("entry", known, values, str).make()
        except fk.FedkinError as error:
            # A combination with other keys may be refused, but not the example itself.
            assert not str(error).startswith(f"{key.name} must"), (key, error)


def test_no_example_is_left_over() -> None:
    names = {key.name for _, _, kind in ALL for key in keys(kind)}
    of_kinds = {
        f"{getattr(kind, '__name__', '')}.{key.name}" for *_, kind in ALL for key in keys(kind)
    }
    assert [name for name in EXAMPLES if name not in names | of_kinds] == []


@pytest.mark.parametrize(
    ("annotation", "words"),
    [
        (int | None, "integer"),
        (float | int, "number"),
        (Positive, "integer, at least 1"),
        (Positive | None, "integer, at least 1"),
        (list[str], "list of texts"),
        (tuple[int, ...] | None, "list of integers"),
        (list[str | dict[str, Any]], "list of texts or tables"),
        (Literal["a", "b"], '`"a"` or `"b"`'),
        (dict[int, int], "table"),
    ],
)
def test_types_in_words(annotation: Any, words: str) -> None:
    assert type_words(annotation) == words


def test_lists_are_told_from_text_and_tables() -> None:
    assert takes_list(list[str] | None) and takes_list(tuple[int, ...]) and takes_list(Any)
    assert not takes_list(str | None) and not takes_list(dict[str, int])


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.03, "a.b=0.03"),
        ("digits", "a.b=digits"),
        (["x", "y"], "a.b=x,y"),
        (["x"], "'a.b=[\"x\"]'"),
        ({"name": "step", "every": 1}, "'a.b={name = \"step\", every = 1}'"),
        (True, "a.b=true"),
    ],
)
def test_a_setting_of_the_command_line(value: Any, text: str) -> None:
    assert shell_word("a.b", value) == text
    if not isinstance(value, list):
        assert parse_override(text.strip("'")).value == value


@pytest.mark.parametrize(
    ("settings", "ending"),
    [
        (["run.rounds=ten"], "got 'ten'; for example run.rounds=50"),
        (["run.against=3"], "got 3; for example run.against=fedavg,ifca"),
        (["run.target=7"], "got 7; for example run.target=0.8"),
        (["run.rouns=3"], "did you mean 'rounds'? For example run.rounds=50"),
        (["data.nam=x"], "did you mean 'name'? For example data.name=digits"),
        (["method.clusters=0"], "at least 1, got 0; for example clusters = 3"),
        (["local.momentum=1.5"], "got 1.5; for example momentum = 0.9"),
        (["scenario.dropout=2"], "got 2.0; for example dropout = 0.1"),
        (["attack.name=byzantine", "attack.share=2"], "for example share = 0.3"),
        (["shift.name=swap_all", "shift.probability=2"], "for example probability = 0.05"),
        (
            ["model.name=torch"],
            "model.torch: is required; for example model.torch=mymodule:make_model",
        ),
    ],
)
def test_an_error_about_a_value_ends_with_a_right_example(settings: list[str], ending: str) -> None:
    with pytest.raises(ConfigError) as error:
        load(None, settings)
    assert str(error.value).endswith(ending)


def test_an_error_in_a_file_shows_a_line_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "run.toml"
    path.write_text("[local]\nlr = 'high'\n")
    with pytest.raises(ConfigError) as error:
        load(path)
    assert str(error.value) == (
        f"{path}: local.lr: expected a valid number, got 'high'; for example lr = 0.03"
    )


def test_an_error_in_python_shows_an_argument() -> None:
    with pytest.raises(ConfigError) as error:
        fk.Cohort(size=0)
    assert str(error.value).endswith("got 0; for example size=16")
    with pytest.raises(ConfigError, match=r"for example seeds=1$"):
        check_integer("seeds", 0, 1)


def test_a_message_with_an_example_gets_no_second_one() -> None:
    with pytest.raises(ConfigError) as error:
        load(None, ["method.name=flexclf"])
    assert "for example" not in str(error.value).casefold()
    with pytest.raises(MethodError) as refused:
        resolve("entry", {"fedgroup": fk.FedGroup}, {"name": "fedgroup", "clusters": 0}, str).make()
    assert str(refused.value).count("for example") == 1
