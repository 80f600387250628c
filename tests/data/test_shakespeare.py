from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedkin.core.errors import ConfigError, DataError
from fedkin.data import FederatedData
from fedkin.data.shakespeare import shakespeare

LINES = {
    "play/SHORT": ["too short"],
    "play/LONG": [
        "abcdefghij",
        "klmnopqrst",
        "uvwxyzabcd",
    ],  # 32 characters with the blanks between
    "play/OTHER": ["the quick brown fox jumps over the lazy dog", "and again"],
}


@pytest.fixture
def roles(tmp_path: Path) -> Path:
    (path := tmp_path / "roles.json").write_text(json.dumps({"users": list(LINES), "lines": LINES}))
    return path


def window(data: FederatedData, row: int) -> str:
    """The characters of a sample, and the one to be predicted."""
    assert data.vocabulary is not None
    return "".join(data.vocabulary[number] for number in [*data.x[row], data.y[row]])


def test_windows_at_every_position(roles: Path) -> None:
    data = shakespeare(path=roles, length=4, stride=1)
    assert data.client_names == ("play/LONG", "play/OTHER")
    text = "abcdefghij klmnopqrst uvwxyzabcd"
    trained = [window(data, row) for row in data.train[0]]
    tested = [window(data, row) for row in data.test[0]]
    assert trained == [text[i : i + 5] for i in range(22)]  # int(0.8 x 28) of 28 windows
    assert tested == [text[i : i + 5] for i in range(26, 28)]  # text[25] is the last training label


def test_stride(roles: Path) -> None:
    data = shakespeare(path=roles, length=4, stride=3)
    text = "abcdefghij klmnopqrst uvwxyzabcd"
    # 8 of 10.
    assert [window(data, row) for row in data.train[0]] == [
        text[i : i + 5] for i in range(0, 24, 3)
    ]
    # 24 would overlap text[21:26].
    assert [window(data, row) for row in data.test[0]] == [text[27:32]]


@pytest.mark.parametrize(
    ("length", "stride", "fraction"), [(4, 1, 0.8), (3, 2, 0.5), (7, 5, 0.6), (5, 9, 0.3)]
)
def test_no_test_window_has_a_character_of_training(
    tmp_path: Path, length: int, stride: int, fraction: float
) -> None:
    """Every character occurs once, so that windows that share one share a place."""
    text = "".join(chr(0x100 + i) for i in range(60))
    (path := tmp_path / "r.json").write_text(json.dumps({"users": ["a"], "lines": {"a": [text]}}))
    data = shakespeare(path=path, length=length, stride=stride, train_fraction=fraction)
    trained = set("".join(window(data, row) for row in data.train[0]))
    tested = set("".join(window(data, row) for row in data.test[0]))
    assert trained and tested and max(trained) < min(tested)
    assert len(data.train[0]) == int(fraction * len(range(0, 60 - length, stride)))


def test_vocabulary_of_the_whole_file(roles: Path) -> None:
    data = shakespeare(path=roles, length=4, clients=1)
    assert data.vocabulary == tuple(" abcdefghijklmnopqrstuvwxyz") and data.classes == 27
    assert data.x.dtype == np.uint8


def test_more_symbols_than_a_byte_holds(tmp_path: Path) -> None:
    text = "".join(chr(0x4E00 + i) for i in range(300))
    (path := tmp_path / "r.json").write_text(json.dumps({"users": ["a"], "lines": {"a": [text]}}))
    data = shakespeare(path=path, length=4, stride=1)
    assert data.x.dtype == np.uint16 and data.classes == 300
    assert window(data, data.test[0][-1]) == text[-5:]


def test_clients_are_drawn(tmp_path: Path) -> None:
    lines = {f"play/{u}": [f"role number {u} says a few words"] for u in range(12)}
    with gzip.open(path := tmp_path / "r.json.gz", "wt") as file:
        json.dump({"users": list(lines), "lines": lines}, file)
    everybody = shakespeare(path=path, length=4, stride=1)
    assert everybody.client_names == tuple(lines)
    drawn = [
        shakespeare(path=path, length=4, stride=1, clients=4, seed=seed) for seed in (0, 0, 1, 2)
    ]
    assert drawn[0].client_names == drawn[1].client_names
    assert len({data.client_names for data in drawn}) > 1
    for data in drawn:
        assert data.client_names is not None and len(set(data.client_names)) == 4
        for u, name in enumerate(data.client_names):
            whole = everybody.train[list(lines).index(name)]
            np.testing.assert_array_equal(data.x[data.train[u]], everybody.x[whole])


def test_least_windows(roles: Path) -> None:
    # LONG has 22 + 2 windows.
    assert shakespeare(path=roles, length=4, stride=1, least=24).clients == 2
    assert shakespeare(path=roles, length=4, stride=1, least=25).client_names == ("play/OTHER",)


def test_no_role_is_long_enough(roles: Path) -> None:
    with pytest.raises(DataError, match="no role is long enough for windows of 80 characters"):
        shakespeare(path=roles)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"clients": 0},
            "clients must be from 1 to 2, the number of roles that are long enough; got 0",
        ),
        ({"clients": 3}, "clients must be from 1 to 2"),
        ({"length": 0}, "length must be at least 1"),
        ({"stride": 0}, "stride must be at least 1"),
        ({"least": 0}, "least must be at least 1"),
        ({"train_fraction": 1}, "train_fraction must be between 0 and 1"),
        ({"train_fraction": 0.0}, "train_fraction must be between 0 and 1"),
        ({"seed": -1}, "seed must be"),
    ],
)
def test_options_that_cannot_be(roles: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        shakespeare(path=roles, **({"length": 4} | options))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "damaged or of another kind"),
        ("[1]", "expected a JSON object with users and lines, got a list"),
        (
            '{"users": ["a"]}',
            r"expected 'users', a list of roles, and the 'lines' of each role; found \['users'\]",
        ),
        ('{"users": [], "lines": {}}', "expected 'users', a list of roles"),
        ('{"users": ["a", "a"], "lines": {"a": []}}', "role 'a' occurs twice"),
        (
            '{"users": ["a"], "lines": {"a": [], "b": []}}',
            "role 'b' has lines but is not among 'users'",
        ),
        (
            '{"users": ["a", "b"], "lines": {"a": []}}',
            "'lines' of role 'b' as a list of texts, got None",
        ),
        ('{"users": ["a"], "lines": {"a": ["x", 1]}}', "'lines' of role 'a' as a list of texts"),
        ('{"users": ["a"], "lines": {"a": []}}', "no role is long enough"),
    ],
)
def test_damaged_files(tmp_path: Path, content: str, message: str) -> None:
    (path := tmp_path / "r.json").write_text(content)
    with pytest.raises(DataError, match=f"r.json: .*{message}"):
        shakespeare(path=path, length=4)


def test_files_that_cannot_be_read(tmp_path: Path, places: Path) -> None:
    with pytest.raises(DataError, match="found no such file"):
        shakespeare(path=tmp_path / "none.json")
    (path := tmp_path / "r.json.gz").write_bytes(b"{}")
    with pytest.raises(DataError, match="damaged or of another kind"):
        shakespeare(path=path)
    with pytest.raises(
        DataError, match=r"shakespeare: shakespeare_roles\.json\.gz not found in .*Shakespeare"
    ):
        shakespeare()


def test_the_real_plays(real: Path) -> None:
    data = shakespeare(clients=20, stride=1)
    assert (
        data.clients == 20
        and data.classes == 73
        and data.x.shape[1] == 80
        and data.x.dtype == np.uint8
    )
    with gzip.open(real / "Shakespeare" / "shakespeare_roles.json.gz") as file:
        lines = json.load(file)["lines"]
    assert data.client_names is not None
    for u, name in enumerate(data.client_names):
        text = " ".join(lines[name])
        total = len(text) - 80
        assert (
            len(data.train[u]) == int(0.8 * total)
            and len(data.test[u]) == total - int(0.8 * total) - 80
        )
        assert (
            window(data, data.train[u][0]) == text[:81]
            and window(data, data.test[u][-1]) == text[-81:]
        )
