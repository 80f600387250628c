from __future__ import annotations

import gzip
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedkin.core.errors import ConfigError, DataError
from fedkin.data.text import encode_texts, read_glove, tokenize

GLOVE = "the 0.5 -1\n, 2 3\ncat 4.25 5\nsat 6 7\n"


@pytest.fixture
def glove(tmp_path: Path) -> Path:
    """Four words and two dimensions."""
    path = tmp_path / "glove.txt"
    path.write_text(GLOVE)
    return path


def test_tokens_are_words_and_five_marks() -> None:
    assert tokenize("The cat, at 7pm; it's LOUD!? (really) #1 @you_2.") == [
        *("the", "cat", ",", "at", "7pm", ";", "it's", "loud", "!", "?"),
        *("really", "1", "you_2", "."),
    ]
    assert tokenize(" :-) ") == []


def test_words_that_glove_has(glove: Path) -> None:
    words = encode_texts(["Cat, dog the", "sat"], np.array([1]), length=5, glove=glove)
    assert words.vocabulary == ("", "the", ",", "cat", "sat")
    np.testing.assert_array_equal(words.x, [[3, 2, 0, 1, 0], [4, 0, 0, 0, 0]])
    assert words.vectors is not None
    np.testing.assert_array_equal(words.vectors, [[0, 0], [0.5, -1], [2, 3], [4.25, 5], [6, 7]])
    assert words.x.dtype == np.int32 and words.vectors.dtype == np.float32


def test_pad_in_front_and_first_tokens_kept(glove: Path) -> None:
    words = encode_texts(
        ["sat cat the cat", "the", ""], np.arange(3), length=3, glove=glove, pad="front"
    )
    assert [words.vocabulary[number] for number in words.x.ravel()] == [
        "sat",
        "cat",
        "the",
        "",
        "",
        "the",
        "",
        "",
        "",
    ]


def test_words_of_the_training_texts() -> None:
    texts = ["b a a c", "only tested a", "c c d"]
    words = encode_texts(texts, np.array([0, 2]), length=4, glove=None)
    assert words.vocabulary == ("", "c", "a", "b", "d") and words.vectors is None
    np.testing.assert_array_equal(words.x, [[3, 2, 2, 1], [0, 0, 2, 0], [1, 1, 4, 0]])
    fewer = encode_texts(texts, np.array([0, 2]), length=4, glove=None, most=2)
    assert fewer.vocabulary == ("", "c", "a")
    np.testing.assert_array_equal(fewer.x, [[0, 2, 2, 1], [0, 0, 2, 0], [1, 1, 0, 0]])


def test_tokens_beyond_the_length_are_not_counted() -> None:
    words = encode_texts(["a b b b"], np.array([0]), length=2, glove=None)
    assert words.vocabulary == ("", "a", "b")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"length": 0}, "length must be at least 1"),
        ({"pad": "left"}, "pad must be 'end' or 'front', got 'left'"),
        ({"most": 0}, "most must be at least 1"),
        ({"most": 3, "glove": "some.txt"}, "most = 3 does not apply with glove"),
    ],
)
def test_options_that_cannot_be(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        encode_texts(["a"], np.array([0]), **({"length": 2, "glove": None} | options))


def test_no_word_left(glove: Path) -> None:
    with pytest.raises(DataError, match=r"found none in .*glove\.txt, of 2 in the texts"):
        encode_texts(["der Hund"], np.array([0]), length=2, glove=glove)
    with pytest.raises(DataError, match="none in the training texts"):
        encode_texts(["(:", "word"], np.array([0]), length=2, glove=None)


def test_glove_packed(tmp_path: Path) -> None:
    (packed := tmp_path / "glove.txt.gz").write_bytes(gzip.compress(GLOVE.encode()))
    with zipfile.ZipFile(zipped := tmp_path / "glove.zip", "w") as archive:
        archive.writestr("glove.2d.txt", GLOVE)
    for path in (packed, zipped):
        names, vectors = read_glove(path, {"sat", "the", "dog"})
        assert names == ("the", "sat")
        np.testing.assert_array_equal(vectors, [[0.5, -1], [6, 7]])


def test_glove_may_be_in_the_home_folder(glove: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(glove.parent))
    names, _ = read_glove("~/glove.txt", {"sat"})
    assert names == ("sat",)


def test_glove_zip_of_several_widths(tmp_path: Path) -> None:
    with zipfile.ZipFile(path := tmp_path / "glove.6B.zip", "w") as archive:
        archive.writestr("glove.6B.1d.txt", "the 9\n")
        archive.writestr("glove.6B.2d.txt", GLOVE)
    np.testing.assert_array_equal(read_glove(path, {"the"}, width=2)[1], [[0.5, -1]])
    with pytest.raises(DataError, match=r"expected one \.txt file in it"):
        read_glove(path, {"the"})


def test_glove_words_with_blanks_accents_and_doubles(tmp_path: Path) -> None:
    (path := tmp_path / "g.txt").write_bytes("café 1 2\r\n. . . 3 4\r\ncafé 5 6\r\n".encode())
    names, vectors = read_glove(path, {"café", "."})
    assert names == ("café",)
    np.testing.assert_array_equal(vectors, [[1, 2]])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "expected a GloVe file .* found an empty file"),
        ("the 1 2\ncat 1\n", "line 2: expected a word and 2 numbers as in line 1, got 1 numbers"),
        (
            "the 1 2\ndog 1 2 3\n",
            "line 2: expected a word and 2 numbers as in line 1, got 3 numbers",
        ),
        ("the 1 2\n\ncat 1 2\n", "line 2: .* got 0 numbers"),
        (
            "the 1 2\ncat 1 x\n",
            "line 2: expected a word and its vector of finite numbers.*'cat 1 x'",
        ),
        ("the 1 2\ncat 1 nan\n", "line 2: expected .* finite"),
        ("the 1 2\ncat 1 1e39\n", "line 2: expected .* finite"),
        ("<html>\n", "line 1: expected a word and its vector"),
        (
            "400000 2\nthe 1 2\n",
            "line 2: expected a word and 1 numbers as in line 1, got 2 numbers",
        ),
    ],
)
def test_glove_damaged(tmp_path: Path, content: str, message: str) -> None:
    (path := tmp_path / "g.txt").write_text(content)
    with pytest.raises(DataError, match=f"g.txt: {message}"):
        read_glove(path, {"cat"})


def test_glove_of_another_width(glove: Path) -> None:
    with pytest.raises(
        DataError, match="line 1: expected GloVe of width 300, got vectors of 2 numbers"
    ):
        encode_texts(["the cat"], np.array([0]), length=2, glove=glove, width=300)
    assert encode_texts(["the cat"], np.array([0]), length=2, glove=glove, width=2).vocabulary == (
        "",
        "the",
        "cat",
    )


def test_glove_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="found no such file"):
        read_glove(tmp_path / "none.txt", {"cat"})
    for name in ("bad.zip", "bad.gz"):
        (tmp_path / name).write_bytes(b"not packed")
        with pytest.raises(DataError, match=f"{name}: expected a GloVe file, but it is damaged"):
            read_glove(tmp_path / name, {"cat"})
    with pytest.raises(DataError, match="damaged or of another kind"):
        read_glove(tmp_path, {"cat"})
