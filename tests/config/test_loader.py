"""Files and overrides of every configuration are read in one way, and errors begin with their place."""

from __future__ import annotations

from pathlib import Path

import pytest

from fedkin.config.loader import Sections, parse_override, parse_value, read
from fedkin.config.run import DEMO
from fedkin.core.errors import ConfigError, DataError


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("7", 7),
        ("0.5", 0.5),
        ("1e-3", 1e-3),
        ("true", True),
        ("[1, 2]", [1, 2]),
        ('"7"', "7"),
        ("mnist", "mnist"),
        ("a/b.npz", "a/b.npz"),
        (" padded ", "padded"),
        ("", ""),
        ("1\nother = 2", "1\nother = 2"),
    ],
)
def test_values_are_toml_or_bare_words(text: str, value: object) -> None:
    assert parse_value(text) == value


@pytest.mark.parametrize("text", ["rounds=3", "run.rounds", ".rounds=3", "run.=3", "=", "run.rounds:3"])
def test_overrides_have_one_form(text: str) -> None:
    with pytest.raises(ConfigError, match=r"expected section\.key=value, got"):
        parse_override(text)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"no\.toml: there is no such file"):
        read(tmp_path / "no.toml", [])
    with pytest.raises(ConfigError, match="cannot be read"):
        read(tmp_path, [])
    (tmp_path / "empty.toml").write_text("# nothing yet\n")
    for overrides in ([], ["run.rounds=3"]):
        with pytest.raises(ConfigError, match=r"empty\.toml: says nothing"):
            read(tmp_path / "empty.toml", overrides, DEMO)
    (tmp_path / "bad.toml").write_text("[run\n")
    with pytest.raises(ConfigError, match=r"bad\.toml: is not TOML: .*line 1"):
        read(tmp_path / "bad.toml", [])
    (tmp_path / "bad.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match=r"bad\.toml: is not TOML"):
        read(tmp_path / "bad.toml", [])


def test_overrides_have_no_place_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "x.toml"
    path.write_text("[run]\nrounds = 1\ncohort = 2\n")
    raw, place = read(path, ["run.cohort=3", "local.lr=0.5"])
    assert raw == {"run": {"rounds": 1, "cohort": 3}, "local": {"lr": 0.5}}
    assert (place("run.rounds"), place("run.cohort")) == (f"{path}: run.rounds", "run.cohort")
    assert (
        place("local") == "local" and place("model") == f"{path}: model"
    )  # what is wrong in [local] is not the file's
    assert read(None, [], DEMO)[1]("run.rounds") == "run.rounds"


def test_the_value_default_takes_a_key_away(tmp_path: Path) -> None:
    path = tmp_path / "x.toml"
    path.write_text('[data]\nname = "mnist"\nclasses_per_client = 3\n[run]\nrounds = 1\n')
    raw, _ = read(path, ["data.classes_per_client=default", "data.name=default", "run.rounds=default"])
    assert raw == {"data": {}, "run": {}}
    raw, _ = read(path, ["data.classes_per_client=default", "data.classes_per_client=5"])
    assert raw["data"] == {"name": "mnist", "classes_per_client": 5}
    assert read(None, ["method.name=default"], DEMO)[0]["method"] == {}


def test_the_default_is_not_changed_by_overrides() -> None:
    before = {name: dict(values) for name, values in DEMO.items()}
    read(None, ["data.name=mnist", "local.lr=1"], DEMO)
    assert before == DEMO


def test_sections_are_known_tables() -> None:
    with pytest.raises(ConfigError, match=r"^rnu: unknown section 'rnu'; did you mean 'run'"):
        Sections({"rnu": {}}, ["run"])
    with pytest.raises(ConfigError, match=r"^f: run: expected a section, got 3"):
        Sections({"run": 3}, ["run"], lambda key: f"f: {key}")


def test_what_a_constructor_refuses_has_its_place() -> None:
    def refuse() -> None:
        raise DataError("too few")

    with pytest.raises(ConfigError, match=r"^f: data: too few"):
        Sections({}, ["data"], lambda key: f"f: {key}").construct({"data": refuse})
