from __future__ import annotations

import csv
import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedkin.core.errors import ConfigError, DataError
from fedkin.data.sent140 import FILE, sent140

Row = tuple[str, str, str]  # polarity, user, text
# Tweets of each, half of them positive: 270 in all.
SIZES = {f"user{u:02d}": 4 + u for u in range(20)}


def rows() -> list[Row]:
    """Negative tweets first, as in the original. Each text names its user and its sentiment."""
    return [
        (polarity, user, f"{user} says {feeling}, number {i}")
        for polarity, feeling, odd in (("0", "bad", 0), ("4", "good", 1))
        for user, size in SIZES.items()
        for i in range(size)
        if i % 2 == odd
    ]


def write(path: Path, content: list[Row]) -> Path:
    """In the original form."""
    with path.open("w", encoding="latin-1", newline="") as file:
        out = csv.writer(file, quoting=csv.QUOTE_ALL)
        out.writerows(
            (p, str(i), "Mon Apr 06 2009", "NO_QUERY", user, text)
            for i, (p, user, text) in enumerate(content)
        )
    return path


@pytest.fixture
def tweets(tmp_path: Path) -> Path:
    return write(tmp_path / "tweets.csv", rows())


def made(**options: Any) -> Any:
    """Any, because names and words are there, which a type checker cannot know."""
    return sent140(**options)


def said(data: Any, row: int) -> list[str]:
    return [data.vocabulary[number] for number in data.x[row]]


def test_everybody(tweets: Path) -> None:
    data = made(path=tweets, fraction=1, least=1)
    assert (
        data.classes == 2
        and data.x.shape == (270, 25)
        and sorted(data.client_names) == sorted(SIZES)
    )
    everything = np.concatenate([data.train.rows, data.test.rows])
    assert sorted(everything) == list(range(270))
    for u, name in enumerate(data.client_names):
        n = SIZES[name]
        assert len(data.train[u]) == int(0.8 * n) and len(data.test[u]) == n - int(0.8 * n)
        mine = np.concatenate([data.train[u], data.test[u]])
        for row in mine:
            words = said(data, row)
            # "": a word that no training text has.
            assert words[0] in (name, "") and words[1] == "says"
            assert words[2] == ("good" if data.y[row] == 1 else "bad")
        numbers = {str(i) for i in range(n)}
        assert {said(data, row)[5] for row in mine} <= numbers | {""}
        assert data.y[mine].sum() == n // 2


def test_both_labels_are_tested(tweets: Path) -> None:
    """A split in file order would test on positive tweets only."""
    data = made(path=tweets, fraction=1, least=1)
    tested = data.label_counts("test").sum(0)
    trained = data.label_counts("train").sum(0)
    assert tested.min() >= 10 and trained.min() >= 80


def test_whole_users_up_to_the_fraction(tweets: Path) -> None:
    drawn = []
    for seed in range(5):
        data = made(path=tweets, fraction=0.3, least=1, seed=seed)
        sizes = data.train.sizes + data.test.sizes
        assert sizes.tolist() == [SIZES[name] for name in data.client_names]
        assert sizes.sum() >= 81 > sizes[:-1].sum()  # 0.3 x 270: the last user passes the mark
        drawn.append(data.client_names)
    assert len(set(drawn)) > 1


def test_small_users_go_after_the_draw(tweets: Path) -> None:
    everybody = made(path=tweets, fraction=0.5, least=1, seed=3)
    some = made(path=tweets, fraction=0.5, least=12, seed=3)
    assert some.client_names == tuple(name for name in everybody.client_names if SIZES[name] >= 12)
    assert len(some.client_names) < len(everybody.client_names)


def test_first_clients_of_the_draw(tweets: Path) -> None:
    whole, few = (made(path=tweets, fraction=1, least=10, clients=count) for count in (None, 3))
    assert few.client_names == whole.client_names[:3] and few.clients == 3
    assert len(few.x) == sum(SIZES[name] for name in few.client_names)
    with pytest.raises(
        ConfigError,
        match="clients must be from 1 to 14, the number of users after filtering; got 15",
    ):
        made(path=tweets, fraction=1, least=10, clients=15)


def test_same_seed_same_federation(tweets: Path) -> None:
    one, same, other = (made(path=tweets, fraction=0.5, least=1, seed=seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(one.x, same.x)
    np.testing.assert_array_equal(one.test.rows, same.test.rows)
    assert one.client_names != other.client_names


def test_vocabulary_is_of_the_training_texts(tmp_path: Path) -> None:
    content = [("4", "a", f"word{i}") for i in range(10)]
    data = made(path=write(tmp_path / "t.csv", content), fraction=1, least=1)
    trained = {f"word{i}" for i in range(10) if f"word{i}" in data.vocabulary}
    assert len(trained) == 8 and data.vocabulary[0] == ""
    assert (data.x[data.train.rows][:, 0] > 0).all() and not data.x[data.test.rows].any()
    fewer = made(path=tmp_path / "t.csv", fraction=1, least=1, most=3)
    assert len(fewer.vocabulary) == 4


def test_glove_and_padding(tweets: Path, tmp_path: Path) -> None:
    (glove := tmp_path / "g.txt").write_text("good 1 2 3\nbad 4 5 6\nnever 7 8 9\n")
    data = made(path=tweets, fraction=1, least=1, glove=glove, length=4, pad="front")
    assert data.vocabulary == ("", "good", "bad") and data.vectors is not None
    np.testing.assert_array_equal(data.vectors, [[0, 0, 0], [1, 2, 3], [4, 5, 6]])
    np.testing.assert_array_equal(data.x[:, 2], 2 - data.y)
    assert not data.x[:, [0, 1, 3]].any()


def test_texts_and_names_that_look_like_gaps(tmp_path: Path) -> None:
    content = [
        ("0", "NA", "null"),
        ("4", "NA", "café, nan"),
        ("4", "nan", "NA"),
        ("0", "nan", 'say "NULL"'),
    ]
    data = made(path=write(tmp_path / "t.csv", content), fraction=1, least=1, train_fraction=1)
    assert set(data.client_names) == {"NA", "nan"}
    assert set(data.vocabulary) == {"", "null", "café", ",", "nan", "na", "say"}


def test_csv_with_a_header(tweets: Path, tmp_path: Path) -> None:
    lines = [f'{i},"{text}",{user},{polarity}' for i, (polarity, user, text) in enumerate(rows())]
    (plain := tmp_path / "h.csv").write_text(
        "\n".join(["row,text,user,polarity", *lines]), encoding="utf-8"
    )
    (packed := tmp_path / "h.csv.gz").write_bytes(gzip.compress(plain.read_bytes()))
    original = made(path=tweets, fraction=0.5, least=1)
    for path in (plain, packed):
        data = made(path=path, fraction=0.5, least=1)
        np.testing.assert_array_equal(data.x, original.x)
        np.testing.assert_array_equal(data.y, original.y)
        assert data.client_names == original.client_names and data.vocabulary == original.vocabulary


@pytest.mark.parametrize("folder", ["Sent140", "sent140", "sentiment140"])
def test_found_in_a_data_folder(places: Path, folder: str) -> None:
    (places / folder).mkdir()
    write(places / folder / FILE, rows())
    assert sent140(fraction=1, least=1).clients == 20


def test_not_found(places: Path) -> None:
    with pytest.raises(DataError, match=rf"sent140: {FILE} not found in .*Sent140.* Unpack"):
        sent140()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({1: ("2", "user00", "so so")}, r"unknown label '2' in row 1 \(1 such rows\).*neutral"),
        (
            {2: ("1", "user00", "hm"), 4: ("", "user00", "hm")},
            r"unknown label '1' in row 2 \(2 such rows\)",
        ),
        ({3: ("0", "", "text")}, r"user is empty in row 3 \(1 such rows\).*skip_bad"),
        (
            {5: ("4", "user00", " \t"), 6: ("4", "user00", "")},
            r"text is empty in row 5 \(2 such rows\)",
        ),
    ],
)
def test_bad_rows(tmp_path: Path, change: dict[int, Row], message: str) -> None:
    path = write(tmp_path / "t.csv", [change.get(i, row) for i, row in enumerate(rows())])
    with pytest.raises(DataError, match=f"t.csv: {message}"):
        made(path=path)


def test_bad_rows_skipped(tmp_path: Path) -> None:
    content = rows() + [("0", "user00", "  "), ("4", " ", "text"), ("4", "user99", "")]
    path = write(tmp_path / "t.csv", content)
    data = made(path=path, fraction=1, least=1, skip_bad=True)
    assert len(data.x) == 270 and data.clients == 20
    with pytest.raises(DataError, match="expected one tweet with its user per row, found none"):
        made(path=write(tmp_path / "empty.csv", content[-3:]), skip_bad=True)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "damaged or of another kind"),
        ("a,b\n1,2\n", r"expected the columns polarity, id, .* row 0 is \['a', 'b'\]"),
        ("label,user,text\n0,me,hello\n", "or a header with polarity, user, text"),
        (
            '"0","1","d","q","me","a"\n"4","1","d","q","me",b,c\n',
            "damaged.* 6 fields in line 2, saw 7",
        ),
        ('"0","1","d","q","me","a"\n"4","1","d"\n', "user is empty in row 1"),
        ("polarity,user,text\n0,me,hi\n4,me,hi,there\n", "damaged.* 3 fields in line 3, saw 4"),
    ],
)
def test_other_files(tmp_path: Path, content: str, message: str) -> None:
    (path := tmp_path / "t.csv").write_text(content)
    with pytest.raises(DataError, match=f"t.csv: .*{message}"):
        made(path=path, fraction=1, least=1)


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"none\.csv: .* found no such file"):
        made(path=tmp_path / "none.csv")


def test_no_user_left(tweets: Path) -> None:
    with pytest.raises(DataError, match="no user is left with at least 30 samples"):
        made(path=tweets)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"fraction": 0}, r"fraction must be in \(0, 1\]"),
        ({"fraction": 1.5}, r"fraction must be in \(0, 1\]"),
        ({"least": 0}, "least must be at least 1"),
        ({"clients": 0}, "clients must be at least 1"),
        ({"train_fraction": 0}, "train_fraction must be"),
        ({"pad": "left"}, "pad must be"),
        ({"length": 0}, "length must be"),
        ({"seed": -1}, "seed must be"),
    ],
)
def test_options_that_cannot_be(tweets: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        made(path=tweets, **({"least": 1} | options))
