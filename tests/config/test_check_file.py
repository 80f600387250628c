"""``check_file`` tells the kind of each file and all of its errors; nothing is run."""

from __future__ import annotations

from pathlib import Path

import pytest
import tomli_w

from fedkin.config import run
from fedkin.config.check_file import check_file, kind_of
from fedkin.core.errors import ConfigError

RUN = '[data]\nname = "digits"\n[method]\nname = "fedavg"\n[run]\nrounds = 3\n'
COMPARISON = RUN + '[compare]\nmethods = ["fedavg", "ifca"]\n[[compare.data]]\nclients = 5\n'
SAMPLES = "[samples]\nshape = [64]\nclasses = 10\n"
SERVER = '[federation]\ncapacity = 4\n[method]\nname = "ifca"\n' + SAMPLES
SITE = '[client]\nname = "site-1"\nclients = "0:3"\n[data]\nname = "digits"\n' + SAMPLES
PEER = (
    '[peer]\nname = "a"\n[network]\nlisten = []\n[data]\nname = "digits"\n[method]\nname = "panm"\n'
)
FILES = {"run": RUN, "comparison": COMPARISON, "server": SERVER, "site": SITE, "peer": PEER}


def errors(tmp_path: Path, text: str) -> list[str]:
    """The errors of a file, without its path."""
    path = tmp_path / "file.toml"
    path.write_text(text)
    found = check_file(path).errors
    assert all(error.startswith(f"{path}: ") and "\n" not in error for error in found)
    return [error.removeprefix(f"{path}: ") for error in found]


@pytest.mark.parametrize("kind", FILES)
def test_a_right_file_has_its_kind_and_no_error(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "file.toml"
    path.write_text(FILES[kind])
    checked = check_file(path)
    assert (checked.kind, checked.errors) == (kind, ())


@pytest.mark.parametrize("kind", FILES)
def test_a_misspelt_section_does_not_change_the_kind(kind: str) -> None:
    marks = {
        "run": "run",
        "comparison": "compare",
        "server": "federation",
        "site": "client",
        "peer": "network",
    }
    assert (
        kind_of({f"{marks[kind][:-1]}": {}, "method": {}} | ({"data": {}} if kind == "run" else {}))
        == kind
    )


@pytest.mark.parametrize(
    ("kind", "old", "new", "place", "reason", "example"),
    [
        ("run", "rounds =", "rouns =", "run.rouns", "did you mean 'rounds'?", "rounds = 50"),
        ("comparison", "methods =", "metods =", "compare.metods", "'methods'?", "methods = ["),
        ("server", "capacity", "capasity", "federation.capasity", "'capacity'?", "capacity = 16"),
        ("server", "classes", "clases", "samples.clases", "'classes'?", "classes = 10"),
        ("site", "clients =", "cleints =", "client.cleints", "'clients'?", 'clients = "0:5000"'),
        (
            "peer",
            "listen",
            "lisen",
            "network.lisen",
            "'listen'?",
            'listen = ["tcp/127.0.0.1:7450"]',
        ),
        # Ranges that are none.
        ("site", '"0:3"', '"0:0"', "client.clients", "at least one number", 'clients = "0:5000"'),
        ("site", '"0:3"', '"3:1"', "client.clients", "at least one number", 'clients = "0:5000"'),
        ("site", '"0:3"', '"a..b"', "client.clients", "got 'a..b'", 'clients = "0:5000"'),
        ("run", "= 3", "= 'log(3,1)'", "run.rounds", "got 'log(3,1)'", "rounds = 50"),
        ("run", "= 3", "= '0:0'", "run.rounds", "got '0:0'", "rounds = 50"),
        ("comparison", "s = 5", "s = 'a..b'", "data.clients", "'a..b'", "data.clients=20"),
        ("server", "capacity = 4", "quorum = '0:0'", "federation.quorum", "'0:0'", "quorum = 1.0"),
        (
            "peer",
            "listen = []",
            "deadline = 'a..b'",
            "network.deadline",
            "'a..b'",
            "deadline = 5.0",
        ),
    ],
)
def test_a_mistake_is_one_line_with_place_reason_and_example(
    kind: str, old: str, new: str, place: str, reason: str, example: str, tmp_path: Path
) -> None:
    assert old in FILES[kind]
    (found,) = errors(tmp_path, FILES[kind].replace(old, new, 1))
    assert found.startswith(place) and reason in found
    assert "or example " in found and found.partition("or example ")[2].startswith(example)


def test_a_misspelt_section_is_named(tmp_path: Path) -> None:
    (found,) = errors(tmp_path, RUN.replace("[run]", "[rum]"))
    assert found == "rum: unknown section 'rum'; did you mean 'run'?"


def test_all_errors_are_found(tmp_path: Path) -> None:
    text = """
[dta]
nam = "digits"
[method]
name = "flexclf"
clutsers = "three"
[local]
lr = "high"
momentum = 2.0
[run]
rounds = 0
against = ["ifca", "fedavgg"]
"""
    places = [error.partition(": ")[0] for error in errors(tmp_path, text)]
    assert sorted(places) == sorted(
        [
            "dta",
            "data.nam",
            "method.name",
            "method.clutsers",
            "method.clusters",
            "local.lr",
            "local",
            "run.rounds",
            "run.against",
        ]
    )


GRID = """
[data]
name = "digits"
clients = 5
[local]
lr = "high"
[compare]
methods = ["fedavgg", {name = "ifca", cluster = 3}, {name = "flexcfl", clusters = "three"}]
grid = {"local.lr" = "log(0.3,0.01)", "local.epochs" = [1, "x"], "method.clusterz" = [1, 2]}
[[compare.data]]
alfa = 1.0
[[compare.data]]
data = {classes_per_client = "two"}
"""


def test_methods_grid_and_entries_are_checked_whatever_else_is_wrong(tmp_path: Path) -> None:
    found = errors(tmp_path, GRID)
    expected = [
        ("local.lr:", "got 'high'; for example lr = 0.03"),
        ("compare.methods: name:", "unknown method 'fedavgg'; did you mean 'fedavg'?"),
        ("compare.methods: cluster:", "'cluster'; did you mean 'clusters'? For example"),
        ("compare.methods: clusters:", "got 'three'; for example clusters = 3"),
        ("compare.grid: local.lr: log(0.3,0.01):", "as in log(0.01, 0.3)"),
        ("compare.grid: ", "option 'method.clusterz'; did you mean 'method.clusters'?"),
        ("data.alfa (in the setting ", "did you mean 'alpha'? For example alpha = 0.5"),
        ("data.classes_per_client (in the setting ", "got 'two'; for example classes_per_client"),
        ("local.epochs (in the setting ", "got 'x'; for example epochs = 10"),
    ]
    for place, reason in expected:
        assert [one for one in found if one.startswith(place) and reason in one], (place, found)
    assert len(found) == len(expected)


def test_a_repair_makes_no_error_of_a_grid(tmp_path: Path) -> None:
    """The misspelt method has the option of the grid, and the data set the key of an entry."""
    text = RUN.replace('"digits"', '"nothing like it"')
    grid = '[compare]\nmethods = ["iifca"]\ngrid = {"method.clusters" = [2, 3]}\n'
    found = errors(tmp_path, text + grid + "[[compare.data]]\nalpha = 1.0\n")
    assert [error.partition(";")[0] for error in found] == [
        "data.name: unknown data set 'nothing like it'",
        "compare.methods: name: unknown method 'iifca'",
    ]


def test_keys_that_are_missing_are_all_named(tmp_path: Path) -> None:
    found = errors(tmp_path, "[client]\nfolder = 'state'\n[samples]\n[model]\nname = 'mlp'\n")
    assert [error.partition(";")[0] for error in found] == [
        "client.name: is required",
        "samples.shape: is required",
        "samples.classes: is required",
    ]
    found = errors(tmp_path, "[client]\nname = 'a'\ncleints = '0:3'\n")
    assert [error.partition(":")[0] for error in found] == ["samples", "client.cleints"]


def test_an_error_that_no_repair_cures_ends_the_check(tmp_path: Path) -> None:
    """A server cannot run a method between peers, whatever its options are."""
    found = errors(tmp_path, SERVER.replace('"ifca"', '"panm"'))
    assert len(found) == 1 and "needs peers" in found[0]
    found = errors(tmp_path, PEER.replace('"panm"', '"ifca"'))
    assert len(found) == 1 and "needs a server" in found[0]


def test_a_network_table_of_a_peer(tmp_path: Path) -> None:
    found = errors(
        tmp_path, PEER + "[network.tls]\ncaa = 'ca.pem'\ncertificate = ['c']\nkey = 'k'\n"
    )
    assert found[0].startswith("network.tls.caa: unknown key 'caa'; did you mean 'ca'?")
    assert any(error.startswith("network.tls.certificate: ") for error in found)


def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "file.toml"
    with pytest.raises(ConfigError, match="there is no such file"):
        check_file(path)
    path.write_text("")
    with pytest.raises(ConfigError, match="is empty"):
        check_file(path)
    path.write_text("[run\n")
    with pytest.raises(ConfigError, match="is not TOML"):
        check_file(path)


def test_the_config_of_a_run_is_a_right_file(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_bytes(tomli_w.dumps(run.load().description().sections).encode())
    assert check_file(path).errors == ()


def test_files_stay_as_they_are(tmp_path: Path) -> None:
    path = tmp_path / "file.toml"
    path.write_text(RUN.replace("rounds", "rouns"))
    before = path.read_text()
    assert check_file(path).errors and path.read_text() == before
    assert list(tmp_path.iterdir()) == [path]
