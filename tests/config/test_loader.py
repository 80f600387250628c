"""Files and overrides of every configuration are read in one way, and errors begin with their
place."""

from __future__ import annotations

from pathlib import Path

import pytest

from fedkin.config.comparison_axes import from_text
from fedkin.config.loader import Sections, parse_override, parse_value, read
from fedkin.config.run import DEMO, load
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


@pytest.mark.parametrize(
    "text", ["rounds=3", "run.rounds", ".rounds=3", "run.=3", "=", "run.rounds:3"]
)
def test_overrides_have_one_form(text: str) -> None:
    with pytest.raises(ConfigError, match=r"expected section\.key=value, such as"):
        parse_override(text)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"no\.toml: there is no such file"):
        read(tmp_path / "no.toml", [])
    with pytest.raises(ConfigError, match="cannot be read"):
        read(tmp_path, [])
    (tmp_path / "empty.toml").write_text("# nothing yet\n")
    for overrides in ([], ["run.rounds=3"]):
        with pytest.raises(ConfigError, match=r"empty\.toml: is empty"):
            read(tmp_path / "empty.toml", overrides, DEMO)
    (tmp_path / "bad.toml").write_text("[run\n")
    with pytest.raises(ConfigError, match=r"bad\.toml: is not TOML: .*line 1"):
        read(tmp_path / "bad.toml", [])
    (tmp_path / "bad.toml").write_text("[local]\nlr = fast\n")
    with pytest.raises(ConfigError, match=r'column 6\): lr = fast; text has quotes: lr = "fast"$'):
        read(tmp_path / "bad.toml", [])
    (tmp_path / "bad.toml").write_text("[local]\nnesterov = True\n")
    with pytest.raises(ConfigError, match=r": nesterov = True; write nesterov = true$"):
        read(tmp_path / "bad.toml", [])
    (tmp_path / "bad.toml").write_text("[local]\nlr = 1 2\n")
    with pytest.raises(ConfigError, match=r"line 2, column \d+\): lr = 1 2$"):
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
    # An error in [local] is not the file's.
    assert place("local") == "local" and place("model") == f"{path}: model"
    assert read(None, [], DEMO)[1]("run.rounds") == "run.rounds"


def test_the_value_default_takes_a_key_away(tmp_path: Path) -> None:
    path = tmp_path / "x.toml"
    path.write_text('[data]\nname = "mnist"\nclasses_per_client = 3\n[run]\nrounds = 1\n')
    raw, _ = read(
        path, ["data.classes_per_client=default", "data.name=default", "run.rounds=default"]
    )
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


def test_a_refusal_of_a_constructor_has_its_place() -> None:
    def refuse() -> None:
        raise DataError("too few")

    with pytest.raises(ConfigError, match=r"^f: data: too few"):
        Sections({}, ["data"], lambda key: f"f: {key}").construct("data", refuse)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (".1", 0.1),
        ("1.", 1.0),
        ("-.5", -0.5),
        ("+.5e-3", 0.0005),
        ("1.e3", 1000.0),
        ("+1", 1),
        ("1e-3", 0.001),
        ("1_000", 1000),
        ("[.1, 1., 2]", [0.1, 1.0, 2]),
        ("{lr = .1}", {"lr": 0.1}),
        ('{"local.lr" = [.1, 1.]}', {"local.lr": [0.1, 1.0]}),
        ("{'local.lr' = .5}", {"local.lr": 0.5}),
        ('["a.5", .5, "say \\" .5"]', ["a.5", 0.5, 'say " .5']),
    ],
)
def test_numbers_need_no_digit_on_both_sides_of_the_point(text: str, value: object) -> None:
    parsed = parse_value(text)
    assert parsed == value and type(parsed) is type(value)
    assert parse_override(f"local.lr={text}").value == value


@pytest.mark.parametrize(
    "text", [".", "..", "./1.", "1.2.3", "v1.", "data/.1", ".1a", "a.b", "192.168.0.1", "it's .5"]
)
def test_points_in_words_stay(text: str) -> None:
    assert parse_value(text) == text


def test_numbers_of_a_grid_are_written_alike() -> None:
    assert from_text("local.lr=.1,1.,1e-3").values == [0.1, 1.0, 0.001]
    assert from_text("local.lr=.5").values == [0.5]


def test_a_byte_order_mark_is_skipped(tmp_path: Path) -> None:
    file = tmp_path / "c.toml"
    file.write_bytes(b"\xef\xbb\xbf[run]\nrounds = 3\n")
    assert read(file, [])[0] == {"run": {"rounds": 3}}


def test_a_number_is_the_text_of_an_option_that_takes_text() -> None:
    config = load(None, ["data.path=t.csv", "data.label=1", "data.client=2"])
    assert (config.data.values["label"], config.data.values["client"]) == ("1", "2")
    with pytest.raises(ConfigError, match=r"data\.label: expected a valid string, got True"):
        load(None, ["data.path=t.csv", "data.label=true"])
