"""A user's own methods: found by module:Class, or given as instances; and the messages where they
are not found."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedkin as fk
from fedkin.config import registry
from fedkin.config.comparison import load
from fedkin.config.comparison_grid import from_description
from fedkin.config.run import from_dict
from fedkin.core.errors import ConfigError
from fedkin.methods.fedavg import FedAvg

MODULE = """
from dataclasses import dataclass
from fedkin.methods.fedavg import FedAvg

@dataclass(frozen=True)
class Mine(FedAvg):
    clusters: int = 3
    sizes: tuple[int, ...] = (1, 2)

    def __post_init__(self):
        if self.clusters > 90:
            raise ValueError("too many")

class Bare:
    def round(self): ...

def function(): ...
"""


@dataclass(frozen=True, slots=True)
class Slotted(FedAvg):
    clusters: int = 3


def test_fields_may_be_slots() -> None:
    entry = registry.method_entry(Slotted(clusters=5))
    assert entry["name"].endswith(":Slotted") and entry["clusters"] == 5


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with a module of methods."""
    (tmp_path / "own_method_module.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.delitem(sys.modules, "own_method_module", raising=False)
    return tmp_path


MINE = "own_method_module:Mine"


def test_a_configuration_names_a_users_method(folder: Path) -> None:
    config = from_dict(
        {
            "data": {"name": "digits"},
            "method": {"name": MINE, "clusters": 4},
            "run": {"against": ["ifca"]},
        }
    )
    assert config.method.values == {"name": MINE, "clusters": 4, "sizes": [1, 2]}
    made = config.method.made
    assert (type(made).__name__, made.clusters, made.sizes) == ("Mine", 4, (1, 2))
    assert config.against[0].values["clusters"] == 4  # its option has the library's meaning
    assert from_dict(config.description().sections) == config
    against = from_dict({"data": {"name": "digits"}, "run": {"against": [MINE, "fedavg"]}}).against
    assert [entry.name for entry in against] == [MINE, "fedavg"]


def test_names_of_the_library_are_as_before() -> None:
    known = registry.methods()
    assert "ifca" in known and "icfa" not in known and not any(":" in name for name in known)
    assert [registry.method_title(name) for name in ("ifca_mig", MINE, "?")] == [
        "IFCAMig",
        "Mine",
        "?",
    ]


@pytest.mark.parametrize(
    ("method", "words"),
    [
        ({"name": "nowhere_at_all:Mine"}, ["no module 'nowhere_at_all'", "PYTHONPATH"]),
        (
            {"name": "own_method_module:Mien"},
            [
                "module 'own_method_module' does not define 'Mien'",
                "did you mean own_method_module:Mine?",
            ],
        ),
        ({"name": "own_method_module:Xyz"}, ["does not define 'Xyz'; check the name"]),
        (
            {"name": "own_method_module.Mine"},
            ["named with a colon", '"own_method_module:Mine"'],
        ),
        ({"name": ":Mine"}, ["expected package.module:Class, got ':Mine'"]),
        (
            {"name": "own_method_module:Bare"},
            ["the step 'init'", "the step 'place'", "@dataclass(frozen=True)"],
        ),
        ({"name": "own_method_module:function"}, ["expected the class of a method, got function"]),
        ({"name": MINE, "clustres": 4}, ["method.clustres", "did you mean 'clusters'"]),
        ({"name": MINE, "clusters": "four"}, ["method.clusters", "integer"]),
        ({"name": MINE, "clusters": 99}, ["refuses its options", "ValueError: too many"]),
        (
            {"name": "__main__:Unknown"},
            ["script, a notebook or a function", "resume=True", "put the class into a module"],
        ),
    ],
)
def test_a_method_that_cannot_be_found_or_made_is_told_with_its_place(
    folder: Path, method: Any, words: list[str]
) -> None:
    with pytest.raises(ConfigError) as error:
        from_dict({"data": {"name": "digits"}, "method": method})
    for word in ("method", *words):
        assert word in str(error.value)
    assert "the step 'round'" not in str(error.value)


def test_a_module_that_fails_is_named(folder: Path) -> None:
    (folder / "broken_method_module.py").write_text("1 / 0")
    with pytest.raises(
        ConfigError, match=r"cannot be imported: ZeroDivisionError: division by zero"
    ):
        from_dict({"data": {"name": "digits"}, "method": {"name": "broken_method_module:Mine"}})


# --- instances


@dataclass(frozen=True)
class OfThisTest(FedAvg):
    strength: float = 0.5
    weights: Any = None


def test_instances_and_tables_and_labels_are_listed_as_in_a_file(folder: Path) -> None:
    grid = load(
        None, methods=[fk.IFCA(clusters=4), "fedavg", {"name": "fedprox", "mu": 0.5, "label": "P"}]
    )
    assert [variant.label for variant in grid.methods] == ["IFCA", "FedAvg", "P"]
    assert grid.methods[0].entry["clusters"] == 4 and grid.methods[2].entry["mu"] == 0.5
    labelled = load(
        None, methods={"four": fk.IFCA(clusters=4), "five": fk.IFCA(clusters=5), "plain": "fedavg"}
    )
    assert [(one.label, one.entry.get("clusters")) for one in labelled.methods] == [
        ("four", 4),
        ("five", 5),
        ("plain", None),
    ]
    with pytest.raises(
        ConfigError,
        match=r"two methods have the label 'IFCA'.*methods=\{\"label\": method\} in Python",
    ):
        load(None, methods=[fk.IFCA(clusters=4), fk.IFCA(clusters=5)])


def test_an_instance_keeps_its_options_and_inherits_none(folder: Path) -> None:
    """FL+HC without a number of clusters does not inherit the number of [method]."""
    file = folder / "study.toml"
    file.write_text('[data]\nname = "digits"\n[method]\nname = "ifca"\nclusters = 5\n')
    grid = load(file, methods=[fk.FLHC(), {"name": "flhc", "label": "b"}])
    assert [variant.entry.get("clusters") for variant in grid.methods] == [None, 5]


def test_an_instance_of_ones_own_class_is_entered_under_its_import_path() -> None:
    (variant,) = load(None, methods=[OfThisTest(strength=np.float64(0.25))]).methods
    name = f"{OfThisTest.__module__}:OfThisTest"
    assert variant.label == "OfThisTest" and variant.entry == {"name": name, "strength": 0.25}
    assert registry.make(registry.methods(), variant.entry) == OfThisTest(0.25)


def test_a_class_that_no_other_process_finds_works_in_this_one_and_its_folder_says_so() -> None:
    @dataclass(frozen=True)
    class Local(FedAvg):
        strength: int = 2

    grid = load(None, methods=[Local(3), "fedavg"])
    assert registry.make(registry.methods(), grid.methods[0].entry) == Local(3)
    described = grid.description()
    assert "Local" in described["note"] and "resume=True" in described["note"]
    assert from_description(described, Path("c.toml")) == grid
    assert "note" not in load(None, methods=["fedavg"]).description()


@pytest.mark.parametrize(
    ("method", "words"),
    [
        (OfThisTest, r"such as OfThisTest\(\), got the class itself"),
        (
            OfThisTest(weights=np.zeros(3)),
            r"OfThisTest\.weights holds a ndarray, .* numbers, text",
        ),
        (3, r"'builtins:int' is not a method: it lacks the step 'init'"),
    ],
)
def test_methods_that_cannot_be_stored_are_refused(method: Any, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        registry.method_entry(method)


SCRIPT = """
from dataclasses import dataclass
import fedkin as fk
from fedkin.methods.fedavg import FedAvg

@dataclass(frozen=True)
class Mine(FedAvg):
    strength: int = 1

QUICK = ["data.clients=6", "run.rounds=1", "run.cohort=3", "local.epochs=1"]
first = fk.compare(None, *QUICK, methods=[Mine(2), "fedavg"], seeds=1, out="out")
again = fk.compare(None, *QUICK, methods=[Mine(2), "fedavg"], seeds=1, out="out", resume=True)
assert first.summary()["table"] == again.summary()["table"]
print(*first.methods, fk.Comparison.load("out").missing)
"""


@pytest.mark.process
def test_a_script_compares_its_own_class_and_the_command_says_how_to_go_on(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    done = subprocess.run(
        [sys.executable, "script.py"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["Mine", "FedAvg", "[]"]
    resume = [sys.executable, "-m", "fedkin.cli", "compare", "--resume", "out"]
    told = subprocess.run(resume, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert told.returncode == 2 and "Traceback" not in told.stderr
    assert "'__main__:Mine' was defined in a script" in told.stderr and "resume=True" in told.stderr
