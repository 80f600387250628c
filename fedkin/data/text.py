"""Text as word indices in a vocabulary, and the GloVe vectors of its words."""

from __future__ import annotations

import gzip
import re
import zipfile
from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float32, Int, Int32

from fedkin.core.errors import ConfigError, DataError
from fedkin.core.storage import user_path
from fedkin.data.files import reading
from fedkin.data.partition_options import positive

TOKEN = re.compile(r"[\w']+|[.,!?;]")
# Word 0 of a vocabulary stands for padding, and for every word outside the vocabulary.
UNKNOWN = ""


@dataclass(frozen=True)
class EncodedTexts:
    """Texts as word indices.

    Attributes:
        x: word indices.
        vocabulary: the words; the first is "", for padding and unknown words.
        vectors: vectors of the words, zero for the first one; None without a GloVe file.
    """

    x: Int32[np.ndarray, "M L"]
    vocabulary: tuple[str, ...]
    vectors: Float32[np.ndarray, "V D"] | None


def tokenize(text: str) -> list[str]:
    """The words of a text, and each . , ! ? ; as a word, as in LEAF (Caldas et al. 2018).

    Other characters are dropped. Unlike LEAF, words are lower-cased: GloVe 6B has no upper case, so
    LEAF loses every word with upper case.
    """
    return TOKEN.findall(text.lower())


def encode_texts(
    texts: Sequence[str],
    train: Int[np.ndarray, "s"],
    *,
    length: int,
    glove: str | Path | None,
    pad: str = "end",
    most: int | None = None,
    width: int | None = None,
) -> EncodedTexts:
    """The first ``length`` tokens of each text as word indices. Shorter texts are padded with 0.

    Args:
        texts: M texts.
        train: rows of the training texts.
        length: number of tokens L; tokens beyond it are ignored.
        glove: a file for :func:`read_glove`. The vocabulary then has the words of the texts that
            also occur in this file, in the order of the file. None: the vocabulary has the words of
            the training texts, the most frequent first, ties in alphabetical order.
        pad: where short texts are padded, "end" (FedProx) or "front" (FlexCFL).
        most: size of the vocabulary without ``glove``; None for all words.
        width: number of values D that the vectors in ``glove`` must have; None for any number.

    Raises:
        ConfigError: ``length``, ``pad`` or ``most`` is invalid, or ``most`` is given together with
            ``glove``.
        DataError: the file is bad, or the vocabulary is empty.
    """
    positive("length", length)
    if pad not in ("end", "front"):
        raise ConfigError(f"pad must be 'end' or 'front', got {pad!r}")
    if most is not None:
        positive("most", most)
        if glove is not None:
            raise ConfigError(
                f"most = {most} does not apply with glove, whose file determines the words"
            )
    x, numbers = _numbered(texts, length, pad)
    if glove is None:
        where = "the training texts"
        words = _frequent(x[train], list(numbers), most)
        vectors = None
    else:
        where = f"{glove}, of {len(numbers) - 1} in the texts"
        words, rows = read_glove(glove, numbers.keys() - {UNKNOWN}, width)
        vectors = np.concatenate([np.zeros((1, rows.shape[1]), np.float32), rows])
    if not words:
        raise DataError(
            f"expected words in the vocabulary, found none in {where}; check that the language is "
            "right"
        )
    # Maps indices in order of appearance to indices in the vocabulary.
    renumbered = np.zeros(len(numbers), np.int32)
    renumbered[[numbers[word] for word in words]] = np.arange(1, len(words) + 1)
    return EncodedTexts(x=renumbered[x], vocabulary=(UNKNOWN, *words), vectors=vectors)


def _numbered(
    texts: Sequence[str], length: int, pad: str
) -> tuple[Int32[np.ndarray, "M L"], dict[str, int]]:
    """Texts as word indices, and the number of each word, in order of first appearance."""
    numbers = {UNKNOWN: 0}
    x = np.zeros((len(texts), length), np.int32)
    for row, text in enumerate(texts):
        words = [numbers.setdefault(token, len(numbers)) for token in tokenize(text)[:length]]
        start = 0 if pad == "end" else length - len(words)
        x[row, start : start + len(words)] = words
    return x, numbers


def _frequent(x: Int32[np.ndarray, "s L"], words: list[str], most: int | None) -> tuple[str, ...]:
    """The ``most`` most frequent words that occur, ties in alphabetical order."""
    counts = np.bincount(x.ravel(), minlength=len(words))
    occurring = [number for number in range(1, len(words)) if counts[number]]
    ordered = sorted(occurring, key=lambda number: (-counts[number], words[number]))
    return tuple(words[number] for number in ordered[:most])


def read_glove(
    path: str | Path, words: Collection[str], width: int | None = None
) -> tuple[tuple[str, ...], Float32[np.ndarray, "n D"]]:
    """The given words that occur in a GloVe file, in the order of the file, and their vectors.

    Each line is a word and D numbers, separated by single spaces. The first line gives D. Lines are
    read one by one, and numbers are read only for the given words. If a word occurs twice, the
    first one counts.

    Args:
        path: a .txt or .gz file, or a .zip with one .txt (or with one whose name contains
            ``.{width}d.``, as in glove.6B.zip).
        words: the words to read.
        width: number of values D in a vector; None to take it from the first line.

    Raises:
        DataError: a line is not a word and D numbers, or the file is empty; the message names file
            and line.
    """
    path = user_path(path)
    encoded = {word.encode() for word in words}
    by_word: dict[bytes, Float32[np.ndarray, "D"]] = {}
    D = 0
    for number, line in _lines(path, width):
        where = f"{path}: line {number}"
        parts = line.split(b" ", 1)
        if not D:
            D = _first_width(line, width, where)
        spaces = line.count(b" ")
        if spaces != D and not (spaces > D and _spaced(line, D)):
            raise DataError(
                f"{where}: expected a word and {D} numbers as in line 1, got {spaces} numbers"
            )
        if spaces == D and parts[0] in encoded and parts[0] not in by_word:
            by_word[parts[0]] = _vector(line, where)
    if not D:
        raise DataError(
            f"{path}: expected a GloVe file of words and their vectors, found an empty file"
        )
    vectors = np.array(list(by_word.values()), np.float32).reshape(len(by_word), D)
    return tuple(word.decode() for word in by_word), vectors


def _first_width(line: bytes, width: int | None, where: str) -> int:
    """The number of values D of the vectors in a GloVe file, from its first line, which must be a
    word and its vector."""
    D = len(_vector(line, where))
    if width not in (None, D):
        raise DataError(
            f"{where}: expected GloVe of width {width}, got vectors of {D} numbers; use the "
            f"{width}d file"
        )
    return D


def _vector(line: bytes, where: str) -> Float32[np.ndarray, "D"]:
    """The vector in a line of a GloVe file. Raises DataError if the parts of the line after the
    word are not finite numbers."""
    try:
        vector = np.array([float(part) for part in line.split(b" ")[1:]])
    except ValueError:
        vector = np.zeros(0)
    with np.errstate(over="ignore"):
        small = vector.astype(np.float32)
    if not len(small) or not np.isfinite(small).all():
        shown = line[:40].decode(errors="replace")
        raise DataError(
            f"{where}: expected a word and its vector of finite numbers, separated by spaces; got "
            f"{shown!r}"
        )
    return small


def _spaced(line: bytes, D: int) -> bool:
    """Whether a line of a GloVe file has too many parts because its word has spaces, such as ". .
    ." in GloVe 840B."""
    try:
        float(line.split(b" ")[-D - 1])
    except ValueError:
        return True
    return False


def _lines(path: Path, width: int | None) -> Iterator[tuple[int, bytes]]:
    """The lines of a file, each with its number (from 1) and without its line break."""
    with reading(path, "a GloVe file"), ExitStack() as stack:
        for number, line in enumerate(_opened(path, width, stack), 1):
            yield number, line.rstrip()


def _opened(path: Path, width: int | None, stack: ExitStack) -> Any:
    """Open a GloVe file, which may be compressed or in a zip archive, to read its bytes. ``stack``
    closes the file."""
    if path.suffix == ".gz":
        return stack.enter_context(gzip.open(path))
    if path.suffix != ".zip":
        return stack.enter_context(path.open("rb"))
    archive = stack.enter_context(zipfile.ZipFile(path))
    # macOS adds files with metadata to archives.
    visible = [name for name in archive.namelist() if not name.startswith("__MACOSX/")]
    names = [name for name in visible if name.endswith(".txt")]
    members = names
    if len(names) != 1:
        members = [name for name in names if f".{width}d." in name]
    if len(members) != 1:
        raise DataError(
            f"{path}: expected one .txt file in it, found {names or 'none'}; unpack it and name "
            "the file"
        )
    return stack.enter_context(archive.open(members[0]))
