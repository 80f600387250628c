from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.feature_extraction.text import CountVectorizer

from fedkin.core.errors import ConfigError, DataError
from fedkin.data.federated import FederatedData
from fedkin.data.goodreads import goodreads

TRAIN = {"b": (["the end is sad", "a good book"], [1, 0]), "a": (["the butler did it"], [1])}
TEST = {"b": (["a sad butler"], [0])}

Users = dict[str, tuple[list[Any], list[int]]]


def leaf_file(path: Path, users: Users) -> None:
    data = {user: {"x": x, "y": y} for user, (x, y) in users.items()}
    content = {
        "users": list(users),
        "user_data": data,
        "num_samples": [len(y) for _, y in users.values()],
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content))


@pytest.fixture
def sentences(places: Path) -> Path:
    leaf_file(places / "FedGoodreads" / "fed_goodreads_text_train.json", TRAIN)
    leaf_file(places / "FedGoodreads" / "fed_goodreads_text_test.json", TEST)
    return places / "FedGoodreads"


@pytest.fixture
def counts(places: Path) -> Path:
    """Two users; the second has no test sample."""
    (places / "FedGoodreads").mkdir(exist_ok=True)
    np.savez(
        places / "FedGoodreads" / "fed_goodreads_counts.npz",
        x=np.array([[0, 7, 1], [1, 0, 0], [2, 0, 3], [0, 0, 255]], np.uint8),
        y=np.array([1, 0, 1, 0]),
        client_id=np.array([0, 1, 0, 0]),
        split=np.array([0, 0, 0, 1]),
        users=np.array(["u", "v"]),
    )  # type: ignore[arg-type]
    return places / "FedGoodreads"


def test_counts_are_not_scaled(counts: Path) -> None:
    data = goodreads()
    assert data.name == "goodreads" and data.classes == 2 and data.client_names == ("u", "v")
    assert data.x.dtype == np.float32 and data.x.tolist() == [
        [0, 7, 1],
        [1, 0, 0],
        [2, 0, 3],
        [0, 0, 255],
    ]
    assert [data.train[u].tolist() for u in range(2)] == [[0, 2], [1]]
    assert [data.test[u].tolist() for u in range(2)] == [[3], []]
    assert data.vocabulary is None and data.vectors is None


def test_counts_in_leafs_layout(places: Path) -> None:
    leaf_file(places / "goodreads" / "train" / "a.json", {"u": ([[0, 2], [1, 0]], [0, 1])})
    leaf_file(places / "goodreads" / "test" / "a.json", {"u": ([[3, 0]], [1])})
    data = goodreads()
    assert data.x.tolist() == [[0, 2], [1, 0], [3, 0]] and data.train.sizes.tolist() == [2]
    with pytest.raises(
        DataError, match="expected sentences as x, got numbers; leave out the option text"
    ):
        goodreads(text=True)
    leaf_file(places / "goodreads" / "train" / "a.json", {"u": ([[0, 2], [1, 0]], [0, 2])})
    with pytest.raises(
        DataError, match="goodreads: labels must be whole numbers from 0 to 1, but row 1 has 2"
    ):
        goodreads()


def read(data: FederatedData, row: int) -> list[str]:
    """The words of a sample."""
    assert data.vocabulary is not None
    return [data.vocabulary[number] for number in data.x[row]]


def test_text(sentences: Path) -> None:
    data = goodreads(text=True)
    assert (
        data.x.shape == (4, 40)
        and data.y.tolist() == [1, 0, 1, 0]
        and data.client_names == ("b", "a")
    )
    assert [data.train[u].tolist() for u in range(2)] == [[0, 1], [2]]
    assert [data.test[u].tolist() for u in range(2)] == [[3], []]
    assert read(data, 0) == ["the", "end", "is", "sad"] + [""] * 36 and data.vectors is None
    assert read(data, 3) == ["a", "sad", "butler"] + [""] * 37


def test_the_vocabulary_comes_from_the_training_sentences(sentences: Path) -> None:
    leaf_file(sentences / "fed_goodreads_text_test.json", {"b": (["a sad surprise"], [0])})
    data = goodreads(text=True, length=3)
    words = {word for texts, _ in TRAIN.values() for text in texts for word in text.split()[:3]}
    assert (
        data.vocabulary is not None and set(data.vocabulary) == words | {""} and "sad" not in words
    )
    assert read(data, 3) == ["a", "", ""]
    assert read(goodreads(text=True, length=6, pad="front"), 2) == [
        "",
        "",
        "the",
        "butler",
        "did",
        "it",
    ]


def test_word_vectors(sentences: Path, tmp_path: Path) -> None:
    glove = tmp_path / "glove.txt"
    glove.write_text("butler 1 2\nunused 3 4\nsad 5 6\n")
    data = goodreads(text=True, length=4, glove=glove)
    assert (
        data.vocabulary is not None and data.vectors is not None and "unused" not in data.vocabulary
    )
    vectors = {word: data.vectors[i].tolist() for i, word in enumerate(data.vocabulary)}
    assert vectors == {"": [0, 0], "butler": [1, 2], "sad": [5, 6]}
    assert read(data, 3) == ["", "sad", "butler", ""]


def test_text_and_counts_are_not_mistaken_for_each_other(sentences: Path) -> None:
    with pytest.raises(
        DataError,
        match=r"FedGoodreads: expected word counts .* as x.* got sentences; use text=True",
    ):
        goodreads()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"glove": "glove.txt"}, "glove does not apply to goodreads without text"),
        ({"length": 40}, "length does not apply to goodreads without text"),
        ({"pad": "end"}, "pad does not apply to goodreads without text"),
        ({"reviews": 10}, "reviews does not apply to goodreads without path"),
        ({"clients": 10}, "clients does not apply to goodreads without path"),
        ({"min_df": 10, "text": True}, "min_df does not apply to goodreads without path"),
        ({"min_df": 10, "text": True, "path": "x"}, "min_df does not apply to goodreads with text"),
        ({"text": True, "pad": "middle"}, "pad must be 'end' or 'front', got 'middle'"),
        ({"text": True, "length": 0}, "length must be at least 1"),
        ({"path": "x", "reviews": 0}, "reviews must be at least 1"),
        ({"path": "x", "clients": 0}, "clients must be at least 1"),
        ({"path": "x", "min_df": 0}, "min_df must be at least 1"),
    ],
)
def test_options_that_mean_nothing_or_cannot_be(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        goodreads(**options)


def test_missing_files_say_where_to_look(places: Path) -> None:
    with pytest.raises(
        DataError, match=r"fed_goodreads_counts\.npz not found in .*FedGoodreads.*path="
    ):
        goodreads()
    with pytest.raises(
        DataError, match=r"fed_goodreads_text_train\.json, .* not found in .*FedGoodreads.*path="
    ):
        goodreads(text=True)


def review(user: str, pairs: list[tuple[Any, Any]]) -> dict[str, Any]:
    return {
        "user_id": user,
        "review_id": "r",
        "book_id": "b",
        "rating": 5,
        "review_sentences": pairs,
    }


def about(user: int) -> list[tuple[int, str]]:
    """A user's sentences, all different. Users 0 .. 5 have five of each class, 6 has two
    spoilers only, 7 has no other sentences. Spoilers end with "dies"."""
    spoilers, others = {6: (2, 9), 7: (9, 0)}.get(user, (5, 5))
    pairs = [(1, f"reader{user} says hero number{i} dies") for i in range(spoilers)]
    return pairs + [(0, f"reader{user} says book number{i} is fine") for i in range(others)]


def reviews_file(path: Path) -> Path:
    """Every user's sentences in three reviews."""
    lines = [review(f"user{u}", about(u)[part::3]) for part in range(3) for u in range(8)]
    text = "".join(json.dumps(line) + "\n" for line in lines).encode()
    path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)
    return path


def texts_of(data: FederatedData, client: int) -> list[str]:
    """The sentences of a client, as the words that were counted."""
    rows = np.concatenate([data.train[client], data.test[client]])
    words = np.array(VOCABULARY)
    return [" ".join(words[data.x[row] > 0]) for row in rows]


ALL = [text for user in range(8) for _, text in about(user)]
VOCABULARY = CountVectorizer(min_df=1).fit(ALL).get_feature_names_out().tolist()


@pytest.mark.parametrize("name", ["r.json.gz", "r.json"])
def test_the_recipe(name: str, tmp_path: Path) -> None:
    data = goodreads(path=reviews_file(tmp_path / name), clients=6, min_df=1)
    assert (
        data.name == "goodreads"
        and data.x.shape[1] == len(VOCABULARY)
        and data.x.dtype == np.float32
    )
    assert data.client_names is not None and set(data.client_names) == {
        f"user{u}" for u in range(6)
    }
    rows = np.concatenate([data.train.rows, data.test.rows])
    assert len(np.unique(rows)) == len(rows) == len(data.y)
    for u, user in enumerate(data.client_names):
        expected = {" ".join(sorted(text.split())) for _, text in about(int(user[-1]))}
        texts = texts_of(data, u)
        # This user's own, none twice.
        assert set(texts) <= expected and len(set(texts)) == len(texts)
        labels = data.y[np.concatenate([data.train[u], data.test[u]])]
        assert labels.tolist() == ["dies" in text for text in texts]
        n = len(labels)
        assert 1 <= labels.sum() <= 4 and 1 <= n - labels.sum() <= 4
        assert len(data.train[u]) == min(n - 1, int(0.8 * n)) and len(data.test[u]) >= 1


def test_features_are_the_words_of_enough_sentences(tmp_path: Path) -> None:
    path = reviews_file(tmp_path / "r.json.gz")
    words = CountVectorizer(min_df=8).fit(ALL)
    data = goodreads(path=path, clients=3, min_df=8)
    assert data.x.shape[1] == len(words.vocabulary_) < len(VOCABULARY)
    dies = sorted(words.vocabulary_).index("dies")
    # Columns are in alphabetical order, and the right way round.
    assert np.array_equal(data.x[:, dies], data.y)
    with pytest.raises(
        DataError,
        match=r"r\.json\.gz: no word occurs in 1000 sentences, the most frequent one in 80; set a",
    ):
        goodreads(path=path, clients=3)


def test_counts_and_text_are_of_the_same_sentences(tmp_path: Path) -> None:
    path = reviews_file(tmp_path / "r.json.gz")
    counted = goodreads(path=path, clients=4, min_df=1)
    texts = goodreads(path=path, clients=4, text=True, length=6)
    assert counted.client_names == texts.client_names and np.array_equal(counted.y, texts.y)
    assert np.array_equal(counted.train.rows, texts.train.rows)
    assert texts.vocabulary is not None
    for row in texts.train.rows:
        assert set(read(texts, row)) - {""} == {
            VOCABULARY[i] for i in np.flatnonzero(counted.x[row])
        }


def test_seeds_and_sizes(tmp_path: Path) -> None:
    path = reviews_file(tmp_path / "r.json.gz")
    seeds = [goodreads(path=path, clients=3, min_df=1, seed=seed) for seed in (0, 0, 1, 2)]
    assert np.array_equal(seeds[0].x, seeds[1].x) and seeds[0].client_names == seeds[1].client_names
    assert len({data.client_names for data in seeds}) > 1
    few = goodreads(path=path, clients=6, min_df=1, seed=0)
    assert few.client_names is not None and few.client_names[:3] == seeds[0].client_names
    sizes = {int(n) for data in seeds for n in data.train.sizes + data.test.sizes}
    assert len(sizes) > 2


def test_too_few_users(tmp_path: Path) -> None:
    path = reviews_file(tmp_path / "r.json.gz")
    with pytest.raises(
        DataError,
        match=r"r\.json\.gz: only 6 of 8 users have 3 spoilers .* 7 clients are requested",
    ):
        goodreads(path=path, clients=7, min_df=1)
    # No user has three of each in one.
    with pytest.raises(DataError, match=r"0 of 8 users .* in the first 8 reviews"):
        goodreads(path=path, reviews=8, clients=1, min_df=1)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b'{"user_id": "u"', "line 3: expected a review with user_id and review_sentences"),
        (b'{"user_id": "u"}', "line 3: expected a review with .*review_sentences"),
        (b'{"review_sentences": []}', "line 3: expected a review with .*user_id"),
        (b"[1]", "line 3: expected a review"),
        (b"", "line 3: expected a review"),
        (b'{"user_id": "u", "review_sentences": [[1]]}', "line 3: expected a review"),
        (b'{"user_id": "u", "review_sentences": 5}', "line 3: expected a review"),
        (
            b'{"user_id": "u", "review_sentences": [[2, "a"]]}',
            r"line 3: expected .* \[0 or 1, text\], got \[2, 'a'\]",
        ),
        (
            b'{"user_id": "u", "review_sentences": [[0, 4]]}',
            r"line 3: expected .* \[0 or 1, text\], got \[0, 4\]",
        ),
    ],
)
def test_broken_lines_are_refused(line: bytes, message: str, tmp_path: Path) -> None:
    path = reviews_file(tmp_path / "r.json")
    lines = path.read_bytes().splitlines()
    lines[2] = line
    path.write_bytes(b"\n".join(lines))
    with pytest.raises(DataError, match=rf"r\.json: {message}"):
        goodreads(path=path, clients=1, min_df=1)
    # Lines beyond those asked for are not read.
    with pytest.raises(DataError, match="0 of 2 users"):
        goodreads(path=path, reviews=2, clients=1, min_df=1)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda raw: raw[:-40], "damaged after line"),
        (lambda raw: raw[:-8] + bytes(4) + raw[-4:], "damaged after line 24 .*CRC"),
        (lambda raw: b"", "expected one review in each line, found none"),
    ],
)
def test_damaged_files_are_refused(
    change: Callable[[bytes], bytes], message: str, tmp_path: Path
) -> None:
    path = reviews_file(tmp_path / "r.json.gz")
    path.write_bytes(change(path.read_bytes()))
    with pytest.raises(DataError, match=rf"r\.json\.gz: .*{message}"):
        goodreads(path=path, clients=1, min_df=1)


def test_no_such_file(tmp_path: Path) -> None:
    for place in (tmp_path / "absent.json.gz", tmp_path):
        with pytest.raises(DataError, match="expected a file of reviews"):
            goodreads(path=place)


def test_the_real_counts(real: Path) -> None:
    data = goodreads()
    assert data.x.shape == (485, 2517) and data.clients == 100 and data.classes == 2
    assert (
        len(data.train.rows) == 355
        and len(data.test.rows) == 130
        and data.y[data.train.rows].sum() == 189
    )
    assert (data.train.sizes.min(), data.train.sizes.max()) == (1, 6) and set(data.test.sizes) == {
        1,
        2,
    }
    assert (data.x == np.round(data.x)).all() and data.x.max() > 1


def test_the_real_sentences(real: Path) -> None:
    counted = goodreads()
    data = goodreads(text=True)
    assert (
        data.x.shape == (485, 40)
        and data.client_names == counted.client_names
        and data.vocabulary is not None
    )
    for split in ("train", "test"):
        for u in range(100):
            assert (
                data.y[data.part(split)[u]].tolist() == counted.y[counted.part(split)[u]].tolist()
            )
    assert read(data, data.train[0][0])[:3] == ["everybody", "had", "secrets"]
