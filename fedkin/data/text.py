"""Text as numbers: words, their numbers in a vocabulary, and the GloVe vectors of these words."""

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
from fedkin.data.files import reading
from fedkin.data.partition_options import positive

TOKEN = re.compile(r"[\w']+|[.,!?;]")
UNKNOWN = ""  # word 0 of a vocabulary: padding, and every word that the vocabulary does not have


@dataclass(frozen=True)
class Words:
    """Texts as numbers of words. ``vocabulary[0]`` is "", which stands for padding and for unknown words; its vector
    is zero."""

    x: Int32[np.ndarray, "M L"]
    vocabulary: tuple[str, ...]
    vectors: Float32[np.ndarray, "V D"] | None  # None where no GloVe file was given


def tokens(text: str) -> list[str]:
    """The words of a text, and each of . , ! ? ; by itself, as in LEAF (Caldas et al. 2018); all else is dropped.

    Unlike LEAF's, ours are lower-cased: GloVe 6B has no upper case, so that LEAF loses every word that has some.
    """
    return TOKEN.findall(text.lower())


def worded(
    texts: Sequence[str],
    train: Int[np.ndarray, "s"],
    *,
    length: int,
    glove: str | Path | None,
    pad: str = "end",
    most: int | None = None,
    width: int | None = None,
) -> Words:
    """The first ``length`` tokens of each text as numbers of a vocabulary, shorter texts padded with 0.

    With ``glove``, a file as :func:`read_glove` reads it, the vocabulary is the words of the texts that the file has,
    in its order, and ``width``, where given, is the only D that is taken. Without, it is the words of the training
    texts (rows ``train`` of ``texts``), the most frequent first, ties in alphabetical order, ``most`` of them. Tokens
    beyond ``length`` do not count. ``pad`` is "end" (FedProx) or "front" (FlexCFL).

    Raises ConfigError for a ``length``, ``pad`` or ``most`` that cannot be, and for ``most`` beside ``glove``;
    DataError for a bad file, and where no word is left.
    """
    positive("length", length)
    if pad not in ("end", "front"):
        raise ConfigError(f"pad must be 'end' or 'front', got {pad!r}")
    if most is not None:
        positive("most", most)
        if glove is not None:
            raise ConfigError(f"most = {most} means nothing with glove, whose file says which words there are")
    x, seen = _numbered(texts, length, pad)
    if glove is None:
        names, vectors = _frequent(x[train], list(seen), most), None
    else:
        names, found = read_glove(glove, seen.keys() - {UNKNOWN}, width)
        vectors = np.concatenate([np.zeros((1, found.shape[1]), np.float32), found])
    if not names:
        where = "the training texts" if glove is None else f"{glove}, of {len(seen) - 1} in the texts"
        raise DataError(f"expected words in the vocabulary, found none in {where}; is it the right language?")
    number = np.zeros(len(seen), np.int32)  # in the vocabulary, by the number in order of appearance
    number[[seen[name] for name in names]] = np.arange(1, len(names) + 1)
    return Words(number[x], (UNKNOWN, *names), vectors)


def _numbered(texts: Sequence[str], length: int, pad: str) -> tuple[Int32[np.ndarray, "M L"], dict[str, int]]:
    """Every text as numbers of words in the order of their first appearance, and these numbers."""
    seen = {UNKNOWN: 0}
    x = np.zeros((len(texts), length), np.int32)
    for row, text in enumerate(texts):
        numbers = [seen.setdefault(token, len(seen)) for token in tokens(text)[:length]]
        start = 0 if pad == "end" else length - len(numbers)
        x[row, start : start + len(numbers)] = numbers
    return x, seen


def _frequent(x: Int32[np.ndarray, "s L"], words: list[str], most: int | None) -> tuple[str, ...]:
    counts = np.bincount(x.ravel(), minlength=len(words))
    there = [number for number in range(1, len(words)) if counts[number]]
    return tuple(words[number] for number in sorted(there, key=lambda number: (-counts[number], words[number]))[:most])


def read_glove(
    path: str | Path, words: Collection[str], width: int | None = None
) -> tuple[tuple[str, ...], Float32[np.ndarray, "n D"]]:
    """Those of ``words`` that a GloVe file has, in the order of the file, and their vectors.

    Each line is a word and D numbers, separated by single blanks; D is that of the first line, and ``width`` where
    given. A .txt or .gz file, or a .zip with one .txt (or one whose name has ``.{width}d.`` in it, as in
    glove.6B.zip). Lines are read one by one, and numbers only where the word is wanted; of a word that occurs twice,
    the first counts. Raises DataError, naming file and line, for any other line, and for an empty file.
    """
    path, wanted = Path(path), {word.encode() for word in words}
    found: dict[bytes, Float32[np.ndarray, "D"]] = {}
    D = 0
    for number, line in _lines(path, width):
        where = f"{path}: line {number}"
        parts = line.split(b" ", 1)
        if not D:
            D = _first_width(line, width, where)
        blanks = line.count(b" ")
        if blanks != D and not (blanks > D and _spaced(line, D)):
            raise DataError(f"{where}: expected a word and {D} numbers as in line 1, got {blanks} numbers")
        if blanks == D and parts[0] in wanted and parts[0] not in found:
            found[parts[0]] = _vector(line, where)
    if not D:
        raise DataError(f"{path}: expected a GloVe file of words and their vectors, found an empty file")
    vectors = np.array(list(found.values()), np.float32).reshape(len(found), D)
    return tuple(word.decode() for word in found), vectors


def _first_width(line: bytes, width: int | None, where: str) -> int:
    """D, from the first line, which must be a vector: else the file is of another kind."""
    D = len(_vector(line, where))
    if width not in (None, D):
        raise DataError(f"{where}: expected GloVe of width {width}, got vectors of {D} numbers; take the {width}d file")
    return D


def _vector(line: bytes, where: str) -> Float32[np.ndarray, "D"]:
    try:
        vector = np.array([float(part) for part in line.split(b" ")[1:]])
    except ValueError:
        vector = np.zeros(0)
    with np.errstate(over="ignore"):
        small = vector.astype(np.float32)
    if not len(small) or not np.isfinite(small).all():
        shown = line[:40].decode(errors="replace")
        raise DataError(
            f"{where}: expected a word and its vector of finite numbers, separated by blanks; got {shown!r}"
        )
    return small


def _spaced(line: bytes, D: int) -> bool:
    """Whether too many parts are a word with blanks in it (GloVe 840B has some, such as ". . ."), not numbers."""
    try:
        float(line.split(b" ")[-D - 1])
    except ValueError:
        return True
    return False


def _lines(path: Path, width: int | None) -> Iterator[tuple[int, bytes]]:
    """The lines of a file, numbered from 1, without their ends."""
    with reading(path, "a GloVe file"), ExitStack() as stack:
        for number, line in enumerate(_opened(path, width, stack), 1):
            yield number, line.rstrip()


def _opened(path: Path, width: int | None, stack: ExitStack) -> Any:
    if path.suffix == ".gz":
        return stack.enter_context(gzip.open(path))
    if path.suffix != ".zip":
        return stack.enter_context(path.open("rb"))
    archive = stack.enter_context(zipfile.ZipFile(path))
    names = [name for name in archive.namelist() if name.endswith(".txt") and not name.startswith("__MACOSX/")]
    fitting = [name for name in names if f".{width}d." in name]
    chosen = names if len(names) == 1 else fitting
    if len(chosen) != 1:
        raise DataError(f"{path}: expected one .txt file in it, found {names or 'none'}; unpack it and name the file")
    return stack.enter_context(archive.open(chosen[0]))
