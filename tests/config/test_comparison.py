"""The grid of a comparison: a file, its [compare] and the arguments multiply to settings. Also
the refusals."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tomli_w

from fedkin.config import comparison_axes, inherited_options
from fedkin.config.comparison import load
from fedkin.config.comparison_axes import Axis, from_text
from fedkin.config.comparison_grid import ComparisonGrid, from_description
from fedkin.core.errors import ConfigError

FILE = """
[data]
name = "digits"
clients = 10
classes_per_client = 3
[method]
name = "ifca"
clusters = 4
[local]
epochs = 1
[run]
rounds = 2
cohort = 4
against = ["fedavg", {name = "fedprox", mu = 0.5}]
"""


def read(
    tmp_path: Path, more: str = "", *overrides: str, text: str = FILE, **options: Any
) -> ComparisonGrid:
    """The grid of the file above, with more lines in it."""
    path = tmp_path / "study.toml"
    path.write_text(text + more)
    return load(path, overrides, **options)


def methods(grid: ComparisonGrid) -> list[str]:
    return [variant.label for variant in grid.methods]


def settings(grid: ComparisonGrid) -> list[str]:
    return [setting.label for setting in grid.settings]


def refused(
    words: list[str], tmp_path: Path, more: str = "", *overrides: str, **options: Any
) -> None:
    with pytest.raises(ConfigError) as error:
        read(tmp_path, more, *overrides, **options)
    for word in words:
        assert word in str(error.value)
    assert "None:" not in str(error.value)


# --- methods


def test_without_arguments_it_is_the_demonstration_from_three_seeds() -> None:
    grid = load(None)
    assert (methods(grid), settings(grid), grid.seeds) == (["FedGroup", "FedAvg"], [""], (0, 1, 2))
    assert grid.settings[0].raw["data"] == {"name": "digits"}


def test_without_a_list_the_file_says_the_methods(tmp_path: Path) -> None:
    grid = read(tmp_path)
    assert methods(grid) == ["IFCA", "FedAvg", "FedProx"]
    assert (grid.methods[0].entry["clusters"], grid.methods[2].entry["mu"]) == (4, 0.5)


def test_named_methods_keep_the_options_that_the_file_gives_them(tmp_path: Path) -> None:
    grid = read(tmp_path, methods=["fedprox", "fedgroup", "ifca"])
    assert methods(grid) == ["FedProx", "FedGroup", "IFCA"]
    assert grid.methods[0].entry["mu"] == 0.5
    # IFCA's, and FedGroup means the same by it.
    assert [one.entry["clusters"] for one in grid.methods[1:]] == [4, 4]


def test_a_file_lists_methods_with_options_and_labels(tmp_path: Path) -> None:
    more = (
        "[compare]\n"
        'methods = ["ifca", {name = "ifca", clusters = 2, label = "IFCA with two"}, "local"]'
    )
    grid = read(tmp_path, more)
    assert methods(grid) == ["IFCA", "IFCA with two", "Local"]
    assert [v.entry.get("clusters") for v in grid.methods] == [4, 2, None]
    assert all("label" not in v.entry for v in grid.methods)
    assert methods(read(tmp_path, more, methods=["fedavg"])) == ["FedAvg"]


def test_an_option_of_methods_is_an_axis_of_those_that_have_it(tmp_path: Path) -> None:
    grid = read(
        tmp_path,
        sweeps=["method.clusters=2,3", "method.mu=0.1,1.0"],
        methods=["fedavg", "ifca", "fedgroup"],
    )
    two_by_two = [f"FedGroup, clusters {k}, mu {mu}" for k in (2, 3) for mu in (0.1, 1.0)]
    assert methods(grid) == ["FedAvg", "IFCA, clusters 2", "IFCA, clusters 3", *two_by_two]
    chosen = [(v.entry.get("clusters"), v.entry.get("mu")) for v in grid.methods]
    assert chosen == [(None, None), (2, None), (3, None), (2, 0.1), (2, 1.0), (3, 0.1), (3, 1.0)]
    assert settings(grid) == [""]


def test_an_axis_with_one_value_changes_the_runs_without_a_label(tmp_path: Path) -> None:
    grid = read(tmp_path, sweeps=["method.clusters=2", "local.lr=0.5"], methods=["ifca"])
    assert (methods(grid), settings(grid)) == (["IFCA"], [""])
    assert (grid.methods[0].entry["clusters"], grid.settings[0].raw["local"]["lr"]) == (2, 0.5)


# --- settings


def test_data_scenarios_and_axes_are_multiplied(tmp_path: Path) -> None:
    more = """
[compare]
grid = {"local.lr" = [0.01, 0.03]}
[[compare.data]]
label = "two classes"
data = {classes_per_client = 2}
[[compare.data]]
data = {name = "synthetic", clients = 12}
[[compare.scenarios]]
[[compare.scenarios]]
label = "slow"
scenario = {stragglers = 0.5}
local = {epochs = 3}
"""
    grid = read(tmp_path, more, sweeps=["run.rounds=2,4"])
    assert settings(grid) == [
        f"{data}, {scenario}, lr {lr}, rounds {rounds}"
        for data in ("two classes", "synthetic")
        for scenario in ("scenarios 1", "slow")
        for lr in (0.01, 0.03)
        for rounds in (2, 4)
    ]
    assert len(grid.cells) == 16 * 3
    first = grid.settings[0].raw
    last = grid.settings[-1].raw
    # Changed key by key.
    assert first["data"] == {
        "name": "digits",
        "clients": 10,
        "classes_per_client": 2,
    }
    assert last["data"] == {"name": "synthetic", "clients": 12}  # named again: replaced
    assert first["local"] == {"epochs": 1, "lr": 0.01} and last["local"] == {
        "epochs": 3,
        "lr": 0.03,
    }
    assert "scenario" not in first and last["scenario"] == {"stragglers": 0.5}
    assert first["run"] == {"rounds": 2, "cohort": 4} and last["run"] == {"rounds": 4, "cohort": 4}
    config = grid.settings[-1].config(grid.methods[0])
    assert (config.run.rounds, config.method.values["clusters"], config.scenario.stragglers) == (
        4,
        4,
        0.5,
    )


def test_the_names_of_data_sets_are_an_axis(tmp_path: Path) -> None:
    text = '[data]\nname = "digits"\nsize = 4\n'
    grid = read(tmp_path, text=text, sweeps=["data.name=digits,synthetic"])
    assert settings(grid) == ["digits", "synthetic"]
    assert [s.raw["data"] for s in grid.settings] == [
        {"name": "digits", "size": 4},
        {"name": "synthetic"},
    ]


def test_names_are_applied_before_their_options(tmp_path: Path) -> None:
    grid = read(tmp_path, sweeps=["data.clients=10,12", "data.name=digits,synthetic"])
    assert settings(grid) == [
        f"{name}, clients {n}" for name in ("digits", "synthetic") for n in (10, 12)
    ]
    assert [(s.raw["data"]["name"], s.raw["data"]["clients"]) for s in grid.settings] == [
        *(("digits", 10), ("digits", 12), ("synthetic", 10), ("synthetic", 12))
    ]


def test_axes_from_a_file_and_from_python_are_joined(tmp_path: Path) -> None:
    grid = read(
        tmp_path, '[compare.grid]\n"local.lr" = [0.1, 0.2]\n', axes={"local.batch_size": (5, 10)}
    )
    assert settings(grid) == [f"lr {lr}, batch_size {b}" for lr in (0.1, 0.2) for b in (5, 10)]


def test_the_grid_of_a_file_may_be_written_as_tables(tmp_path: Path) -> None:
    grid = read(tmp_path, "[compare.grid]\nlocal.lr = [0.1, 0.2]\nrun.cohort = [3, 4]\n")
    assert settings(grid) == [
        "lr 0.1, cohort 3",
        "lr 0.1, cohort 4",
        "lr 0.2, cohort 3",
        "lr 0.2, cohort 4",
    ]


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("model.hidden=[100],[200, 100]", [[100], [200, 100]]),
        ("model.hidden=[[1, 2], [3]],[4]", [[[1, 2], [3]], [4]]),
        ('data.name="a,b",c', ["a,b", "c"]),
        ("data.name='a,b','c'", ["a,b", "c"]),
        ("data.name=digits, mnist", ["digits", "mnist"]),
        ("local.lr = 1e-2 , 0.5", [0.01, 0.5]),
        ("scenario.arrivals={2 = 3, 4 = 1},{}", [{"2": 3, "4": 1}, {}]),
        ("data.augment=true,false", [True, False]),
        ("local.epochs=7", [7]),
        ("data.path=a b.npz,[x", ["a b.npz", "[x"]),
    ],
)
def test_a_sweep_is_parted_at_its_commas(text: str, values: list[Any]) -> None:
    assert from_text(text) == Axis(text.partition("=")[0].strip(), values)


def test_values_from_python_are_those_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "own.npz"
    grid = read(
        tmp_path, axes={"data.path": [path], "data.name": ["file"], "local.lr": [np.float64(0.5)]}
    )
    again = tomllib.loads(tomli_w.dumps(grid.description()))
    assert again["settings"][0]["data"] == {"name": "file", "path": str(path)}
    assert again["settings"][0]["local"]["lr"] == 0.5


# --- seeds


@pytest.mark.parametrize(
    ("run", "compare", "argument", "expected"),
    [
        ("", "", None, (0, 1, 2)),
        ("seeds = 2", "", None, (0, 1)),
        ("seeds = 2", "seeds = 4", None, (0, 1, 2, 3)),
        ("seeds = 2", "seeds = 4", 1, (0,)),
        ("seed = 7", "", 2, (7, 8)),
        ('seed = "default"\nseeds = "default"', "", None, (0, 1, 2)),
    ],
)
def test_where_the_seeds_come_from(
    tmp_path: Path, run: str, compare: str, argument: int | None, expected: tuple[int, ...]
) -> None:
    text = f'[data]\nname = "digits"\n[run]\n{run}\n[compare]\n{compare}\n'
    grid = read(tmp_path, text=text, seeds=argument)
    assert grid.seeds == expected
    assert not {"seed", "seeds", "against"} & set(grid.settings[0].raw["run"])


CHANGES = ("compare.seeds=2", "local.lr=0.5", "method.clusters=2")


def test_changes_on_the_command_line_reach_all_sections(tmp_path: Path) -> None:
    grid = read(tmp_path, "", *CHANGES)
    assert (
        len(grid.seeds),
        grid.settings[0].raw["local"]["lr"],
        grid.methods[0].entry["clusters"],
    ) == (2, 0.5, 2)


# --- refused


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (
            '[compare]\nmethods = ["fedgruop"]',
            ["compare.methods", "unknown method", "did you mean 'fedgroup'"],
        ),
        (
            '[compare]\nmethods = [{name = ["ifca"]}]',
            ["compare.methods", "name of a method", "['ifca']"],
        ),
        ("[compare]\nmethods = []", ["lists no method", "no cell"]),
        ("[compare]\nmethods = [{clusters = 2}]", ["compare.methods", "a table with a name"]),
        (
            '[compare]\nmethods = [{name = "ifca", clustres = 2}]',
            ["compare.methods", "did you mean 'clusters'"],
        ),
        (
            '[compare]\nmethods = ["fedavg", "fedavg"]',
            ["two methods have the label 'FedAvg';", "another label"],
        ),
        ("[compare]\nseed = 3", ["study.toml: compare.seed", "did you mean 'seeds'"]),
        ("[compare]\nseeds = 0", ["study.toml: compare.seeds", "greater than or equal to 1"]),
        ("[compare]\ndata = []", ["compare.data is an empty list", "no cell"]),
        ('[compare]\ngrid = {"local.lr" = []}', ["compare.grid: local.lr", "no cell"]),
        (
            '[compare]\ngrid = {"local.lr" = 0.1}',
            ["compare.grid: local.lr", "expected a list of values", "0.1"],
        ),
        (
            '[compare]\ngrid = {"locl.lr" = [0.1]}',
            ["compare.grid: locl.lr", "did you mean 'local'"],
        ),
        ('[compare]\ngrid = {"local.lrr" = [0.1]}', ["local.lrr", "did you mean 'lr'"]),
        ('[compare]\ngrid = {"local" = [0.1]}', ["compare.grid: local", "expected section.key"]),
        ('[compare]\ngrid = {"run.seed" = [1, 2]}', ["run.seed cannot be an axis", "--seeds"]),
        (
            '[compare]\ngrid = {"run.against" = [[], ["fedavg"]]}',
            ["run.against cannot be an axis", "--methods"],
        ),
        (
            '[compare]\ngrid = {"method.name" = ["fedavg"]}',
            ["method.name cannot be an axis", "--methods"],
        ),
        ('[compare]\ngrid = {"method.cluster" = [2]}', ["no method", "method.cluster"]),
        (
            '[compare]\ngrid = {"method.clusters" = ["two"]}',
            ["method.clusters", "integer", "'two'"],
        ),
        ('[compare]\ngrid = {"local.lr" = [0.1, 0.1]}', ["two settings have the label 'lr 0.1'"]),
        (
            '[compare]\ngrid = {"local.lr" = [0.1, -1.0]}',
            ["local.lr", "greater than 0", "in the setting 'lr -1.0'"],
        ),
        (
            '[compare]\ngrid = {"data.name" = ["digits", "minst"]}',
            ["unknown data set", "did you mean 'mnist'"],
        ),
        (
            '[compare]\ngrid = {"data.iid" = [true, false]}',
            ["data.iid", "unknown key 'iid'"],
        ),  # digits have no such
        ("[[compare.data]]\nmethod = {clusters = 3}", ["compare.data", "unknown section 'method'"]),
        ("[[compare.data]]\ndata = 3", ["compare.data: data", "expected a table", "3"]),
        ("[[compare.data]]\ndata = {cleints = 3}", ["data.cleints", "did you mean 'clients'"]),
        ("[[compare.scenarios]]\nscenario = {dropout = 1.5}", ["scenario", "dropout", "[0, 1]"]),
        ("[[compare.scenarios]]\nrun = {seed = 3}", ["compare.scenarios", "run.seed", "--seeds"]),
        ("[[compare.data]]\nrun = {against = []}", ["compare.data", "run.against", "--methods"]),
        ("[compare]\nnonsense = 3", ["study.toml: compare.nonsense", "unknown key"]),
        ("[comparee]\nseeds = 3", ["study.toml: comparee", "unknown section"]),
    ],
)
def test_values_that_a_file_must_not_have(tmp_path: Path, more: str, words: list[str]) -> None:
    refused(words, tmp_path, more)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"methods": ["fedagv"]}, ["unknown method 'fedagv'", "did you mean 'fedavg'"]),
        ({"methods": []}, ["lists no method", "no cell"]),
        ({"methods": ["ifca", "ifca"]}, ["two methods have the label 'IFCA'"]),
        ({"seeds": 0}, ["seeds", "0"]),
        ({"seeds": -2}, ["seeds", "-2"]),
        ({"sweeps": ["local.lr="]}, ["--grid", "section.key=value,value", "no cell"]),
        ({"sweeps": ["local.lr=,"]}, ["--grid", "no cell"]),
        ({"sweeps": ["local.lr"]}, ["--grid", "'local.lr'"]),
        ({"sweeps": ["lr=0.1"]}, ["--grid", "'lr=0.1'"]),
        ({"sweeps": ["local.=0.1"]}, ["local.", "expected section.key"]),
        ({"sweeps": ["local.lr=0.1,0.2", "local.lr=0.3,0.4"]}, ["local.lr", "twice"]),
        ({"sweeps": ["method.clusters=2", "method.clusters=3"]}, ["method.clusters", "twice"]),
        ({"sweeps": ["local.lr=fast"]}, ["local.lr", "'fast'"]),
        ({"axes": {"local.lr": []}}, ["grid: local.lr", "no cell"]),
        (
            {"axes": {"data.name": "mnist"}},
            ["grid: data.name", "expected a list of values", "'mnist'"],
        ),
        ({"axes": {"run.target": [None, 0.5]}}, ["run.target", "None"]),
    ],
)
def test_values_that_arguments_must_not_have(
    tmp_path: Path, options: dict[str, Any], words: list[str]
) -> None:
    refused(words, tmp_path, **options)


def test_changes_without_a_file_have_no_file_in_their_place() -> None:
    with pytest.raises(ConfigError) as error:
        load(None, ["compare.seed=3"])
    assert str(error.value).startswith("compare.seed: unknown key 'seed'")


def test_files_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"study\.toml: is empty"):
        read(tmp_path, text="")
    with pytest.raises(ConfigError, match=r"nowhere\.toml"):
        load(tmp_path / "nowhere.toml")
    with pytest.raises(ConfigError, match=r"study\.toml: compare: expected a section, got 3"):
        read(tmp_path, text="compare = 3\n")
    with pytest.raises(ConfigError, match=r"study\.toml"):
        read(tmp_path, text="[compare\n")


# --- labels and files


def test_labels_are_one_line_of_text(tmp_path: Path) -> None:
    grid = read(
        tmp_path,
        '[compare]\nmethods = [{name = "ifca", label = 4}, {name = "local", label = "on\\ntwo"}]',
    )
    assert methods(grid) == ["4", "on two"]


def test_a_label_that_is_no_text_is_refused(tmp_path: Path) -> None:
    refused(
        ["label: expected text", "[1]"],
        tmp_path,
        '[compare]\nmethods = [{name = "ifca", label = [1]}]',
    )
    refused(["label: expected text", "[1]"], tmp_path, "[[compare.data]]\nlabel = [1]")


def test_labels_that_share_a_folder_are_refused(tmp_path: Path) -> None:
    more = '[compare]\nmethods = [{name = "ifca", label = "A b"}, {name = "local", label = "a/B"}]'
    refused(["'A b'", "'a/B'", "another label"], tmp_path, more)


def test_a_description_is_read_back_from_toml(tmp_path: Path) -> None:
    more = """
[compare]
methods = ["fedavg", {name = "ifca", clusters = 2}]
[[compare.data]]
data = {name = "digits", partition = "dirichlet"}
label = "a"
[[compare.data]]
data = {name = "synthetic", alpha = 0.5}
scenario = {arrivals = {2 = 3}}
"""
    for grid in (read(tmp_path, more, sweeps=["local.lr=0.01,0.03"]), read(tmp_path), load(None)):
        assert (
            from_description(tomllib.loads(tomli_w.dumps(grid.description())), Path("c.toml"))
            == grid
        )


def test_a_named_server_optimizer_keeps_the_options_that_it_has(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    more = '[server_optimizer]\nname = "fedadam"\nlr = 0.02\ntau = 0.5\nbeta2 = 0.75\n'
    names = "fedadam,fedyogi,fedadagrad,fedavgm,none"
    grid = read(tmp_path, more, sweeps=[f"server_optimizer.name={names}"])
    entries = {one.label: one.config(grid.methods[0]).option_entries for one in grid.settings}
    found = {
        label: entry["server_optimizer"].values if entry else {} for label, entry in entries.items()
    }
    assert found["fedyogi"] == {
        "name": "fedyogi",
        "lr": 0.02,
        "beta1": 0.9,
        "beta2": 0.75,
        "tau": 0.5,
    }
    assert found["fedadam"] == {**found["fedyogi"], "name": "fedadam"}
    assert found["fedadagrad"] == {"name": "fedadagrad", "lr": 0.02, "beta1": 0.0, "tau": 0.5}
    assert found["fedavgm"] == {"name": "fedavgm", "lr": 0.02, "beta": 0.9} and found["none"] == {}
    assert "fedadagrad: beta2 = 0.75" in caplog.text
    assert "fedavgm: tau = 0.5, beta2 = 0.75" in caplog.text
    lr = read(
        tmp_path, more, sweeps=["server_optimizer.lr=1,2", "server_optimizer.name=fedyogi,fedavgm"]
    )
    assert [
        one.config(lr.methods[0]).option_entries["server_optimizer"].values["lr"]
        for one in lr.settings
    ] == [1, 2, 1, 2]


def test_methods_that_mean_another_thing_by_an_option_of_the_grid_keep_their_own(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    names = [
        "ifca",
        "fedsim",
        "hierarchical",
        {"name": "flhc", "distance": 1.0},
        {"name": "flhc", "label": "K"},
    ]
    grid = read(tmp_path, sweeps=["method.clusters=2,3"], methods=names)
    chosen = [(variant.label, variant.entry.get("clusters")) for variant in grid.methods]
    assert chosen[:2] == [("IFCA, clusters 2", 2), ("IFCA, clusters 3", 3)]
    assert [k for _, k in chosen[2:]] == [5, None, None, 2, 3]
    assert "method.clusters is not applied to fedsim, hierarchical, flhc" in caplog.text
    kmeans = {"name": "hierarchical", "algorithm": "kmeans", "clusters": 4}
    assert [
        v.entry["clusters"]
        for v in read(tmp_path, sweeps=["method.clusters=2,3"], methods=[kmeans]).methods
    ] == [2, 3]
    alone = read(tmp_path, sweeps=["method.clusters=2,3"], methods=["fedsim", "fedavg"])
    assert [v.entry.get("clusters") for v in alone.methods] == [2, 3, None]
    main = read(
        tmp_path,
        "",
        "method.name=fedsim",
        sweeps=["method.clusters=2,3"],
        methods=["fedsim", "ifca"],
    )
    assert [v.entry["clusters"] for v in main.methods] == [2, 3, 3]
    both = ["method.algorithm=kmeans", "method.clusters=2,3"]
    assert [
        v.entry["clusters"] for v in read(tmp_path, sweeps=both, methods=["hierarchical"]).methods
    ] == [2, 3]
    alpha = read(tmp_path, sweeps=["method.alpha=3,4"], methods=["fedgroup", "panm"])
    assert [v.entry["alpha"] for v in alpha.methods] == [3, 4, 0.5]
    refused(
        ["clusters", "at least 1"],
        tmp_path,
        sweeps=["method.clusters=0"],
        methods=["ifca", "fedgroup"],
    )


def test_a_grid_next_to_the_files_is_tried_with_it_and_replaces_values_of_the_same_key(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    own = '[compare]\ngrid = {"local.lr" = [0.1, 0.2], "local.epochs" = [1, 2]}\n'
    comparison_axes._say_merged.cache_clear()
    both: list[dict[str, Any]] = [{"sweeps": ["local.lr=0.5"]}, {"axes": {"local.lr": [0.5]}}]
    for given in both:
        grid = read(tmp_path, own, **given)
        assert [one.raw["local"] for one in grid.settings] == [
            {"epochs": 1, "lr": 0.5},
            {"epochs": 2, "lr": 0.5},
        ]
    assert "replaces these axes of the comparison file: local.lr" in caplog.text
    assert "these axes of the file remain: local.epochs" in caplog.text
    assert len(read(tmp_path, own, sweeps=["local.batch_size=5,10"]).settings) == 8


def test_options_dropped_from_a_method_that_does_not_run_are_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    flexcfl = FILE.replace(
        'name = "ifca"', 'name = "flexcfl"\nalpha = 7\nmigration = "label_aware"'
    )
    inherited_options._say_dropped.cache_clear()
    for named, taken in ((["ifca"], "ifca: clusters = 4"), (["fedavg"], "nothing")):
        read(tmp_path, text=flexcfl, methods=named)
        assert (
            f"names flexcfl, which does not run; inherited options: {taken}; options dropped"
            in caplog.text
        )
        assert ("alpha = 7, migration = 'label_aware'" in caplog.text) and (
            "clusters" in caplog.messages[-1]
        )
        caplog.clear()
    read(tmp_path, text=flexcfl, methods=["flexcfl", "fedavg"])
    read(tmp_path, text=flexcfl)
    # A misspelt method might share the options, so only its error is told.
    for misspelt in ("icfa", "nowhere:Mine"):
        with pytest.raises(ConfigError, match=misspelt):
            read(tmp_path, text=flexcfl, methods=[misspelt, "fedavg"])
    assert "dropped" not in caplog.text


# --- entries of [[compare.data]] and [[compare.scenarios]] as people write them


FLAT = """
[data]
name = "digits"
partition = "dirichlet"
clients = 8
[compare]
methods = ["fedavg"]
[[compare.data]]
alpha = 0.1
[[compare.data]]
alpha = 1.0
label = "mild"
[[compare.scenarios]]
dropout = 0.5
[[compare.scenarios]]
arrivals = {2 = 3}
label = "late"
"""


def test_keys_of_an_entry_are_those_of_its_section(tmp_path: Path) -> None:
    path = tmp_path / "grid.toml"
    path.write_text(FLAT)
    settings = load(path).settings
    assert [setting.label for setting in settings] == [
        "alpha 0.1, dropout 0.5",
        "alpha 0.1, late",
        "mild, dropout 0.5",
        "mild, late",
    ]
    assert [setting.raw["data"]["alpha"] for setting in settings] == [0.1, 0.1, 1.0, 1.0]
    assert settings[0].raw["scenario"] == {"dropout": 0.5}
    assert settings[1].raw["scenario"] == {"arrivals": {"2": 3}}


def test_an_entry_has_keys_and_sections_together(tmp_path: Path) -> None:
    path = tmp_path / "grid.toml"
    text = FLAT.replace('label = "mild"', 'model = {name = "mlp"}\ndata = {seed = 3}')
    path.write_text(text)
    changed = load(path).settings[2]
    assert changed.raw["data"] == {
        "name": "digits",
        "partition": "dirichlet",
        "clients": 8,
        "alpha": 1.0,
        "seed": 3,
    }
    assert changed.raw["model"]["name"] == "mlp" and changed.label.startswith("alpha 1.0")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            "alhpa = 0.1",
            r"data\.alhpa \(in the setting .*unknown key 'alhpa'; did you mean 'alpha'",
        ),
        ("modle = {name = 'mlp'}", r"compare\.data: unknown section 'modle'; did you mean 'model'"),
        ("alpha = 'a..b'", r"data\.alpha .*expected a valid number.*, got 'a\.\.b'; for example"),
    ],
)
def test_a_wrong_key_of_an_entry_is_named(line: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "grid.toml"
    path.write_text(FLAT.replace("alpha = 0.1", line, 1))
    with pytest.raises(ConfigError, match=message):
        load(path)
