"""Fed-Goodreads: sentences of book reviews, to classify as spoilers (FedSim, Palihawadana et al.
2022, section 4.1; reviews by Wan et al., ACL 2019)."""

from __future__ import annotations

import gzip
import json
import random as python_random
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Literal

import numpy as np
from jaxtyping import Bool, Float32, Int

from fedkin.core.errors import ConfigError, DataError
from fedkin.core.storage import user_path
from fedkin.data.about import AboutData, Form, named
from fedkin.data.download import Source, fetch, locate
from fedkin.data.federated import FederatedData, Ragged
from fedkin.data.files import check_labels
from fedkin.data.leaf import (
    LeafFiles,
    find_leaf_folder,
    read_leaf,
    read_leaf_arrays,
    read_leaf_files,
)
from fedkin.data.partition_options import checked, legacy_random, positive
from fedkin.data.text import encode_texts

CLASSES = 2
# Smallest number of sentences of each class that a user must have.
LEAST = 3
# Largest number of sentences of each class that a client keeps.
MOST = 4

_FOLDERS = ("FedGoodreads", "fedgoodreads", "goodreads")
_HELP = (
    "Set FEDKIN_DATA to the folder that has FedGoodreads/ in it, or make the federation from "
    "goodreads_reviews_spoiler.json.gz with path=..."
)
_TEXTS = tuple(f"fed_goodreads_text_{split}.json" for split in ("train", "test"))
COUNTS = Source("goodreads", {"fed_goodreads_counts.npz": None}, folders=_FOLDERS, help=_HELP)
TEXT = Source("goodreads as text", dict.fromkeys(_TEXTS), folders=_FOLDERS, help=_HELP)


@named(
    AboutData(
        clients=100,
        samples="485",
        content="sentences of book reviews, spoilers or not; word counts, or text",
        source=COUNTS,
        forms=(
            Form(
                "word counts, text",
                partial(locate, replace(COUNTS, files={**COUNTS.files, **TEXT.files})),
            ),
            Form("word counts", partial(locate, COUNTS)),
            Form("text", partial(locate, TEXT)),
            Form("LEAF's layout", partial(find_leaf_folder, COUNTS)),
        ),
    )
)
@checked
def goodreads(
    *,
    text: bool = False,
    path: str | Path | None = None,
    glove: str | Path | None = None,
    length: int | None = None,
    pad: str | None = None,
    reviews: int | None = None,
    clients: int | None = None,
    min_df: int | None = None,
    seed: int = 0,
) -> FederatedData:
    """Fed-Goodreads: sentences by 100 reviewers, 2 to 8 each; class 1 is a spoiler.

    By default x is float32 [M, 2517]: word counts of the sentence, not scaled.

    Files, in the folder FedGoodreads, with the published split (355 training and 130 test samples,
    whatever the seed): ``fed_goodreads_counts.npz`` with x, y, client_id, split, users;
    ``fed_goodreads_text_train.json`` and ``_test.json``; or, for either form, a folder in LEAF's
    layout.

    With ``path`` a federation is made from reviews, as the authors describe it. All sentences of
    the first reviews are shuffled. Clients are the first users in that order with three sentences
    of each class. Each client gives 1 to 4 sentences of each class, all four numbers equally likely
    (if 4 is drawn and there are only 3, it gives 3): 80 % of them for training, and at least one
    for testing. The authors published sizes but no draws, so their files cannot be reproduced. The
    file is read twice, so that only the selected sentences are in memory.

    Args:
        text: whether x is word indices [M, length] with a vocabulary, instead of word counts.
        path: a file ``goodreads_reviews_spoiler.json.gz``, or unpacked; None for the published
            files.
        glove: file of word vectors, whose words are the vocabulary; None for the words of the
            training sentences.
        length: number of words in a sentence; None for 40.
        pad: where short sentences are padded, "end" (also None) or "front".
        reviews: number of reviews to read from ``path``; None for 200,001, as in the authors' code.
        clients: number of clients N, only with ``path``; None for 100.
        min_df: a feature is a word that occurs in at least this number of sentences, only with
            ``path``; None for 1,000.
        seed: seed of the draws, only with ``path``.

    Raises:
        ConfigError: options cannot be combined.
        DataError: files are missing or damaged; the message names file and line.
    """
    _check_options(
        for_text={"glove": glove, "length": length, "pad": pad},
        for_path={"reviews": reviews, "clients": clients, "min_df": min_df},
        text=text,
        path=path is not None,
    )
    encoding = None
    if text:
        encoding = _Encoding(
            glove=glove,
            length=40 if length is None else length,
            pad="front" if pad == "front" else "end",
        )
    if path is None:
        return _published(encoding)
    sampling = _Sampling(
        reviews=200_001 if reviews is None else reviews,
        clients=100 if clients is None else clients,
        min_df=1000 if min_df is None else min_df,
        seed=seed,
    )
    return _from_reviews(user_path(path), sampling, encoding)


def _check_options(
    *, for_text: dict[str, Any], for_path: dict[str, Any], text: bool, path: bool
) -> None:
    """Raise ConfigError for options that have no effect without ``text`` or ``path``, instead of
    ignoring them silently."""
    given_for_text = [name for name, value in for_text.items() if value is not None]
    given_for_path = [name for name, value in for_path.items() if value is not None]
    ignored = []
    if not text:
        ignored += [(name, "without text") for name in given_for_text]
    if not path:
        ignored += [(name, "without path") for name in given_for_path]
    if text and for_path["min_df"] is not None:
        ignored.append(("min_df", "with text, which uses all words"))
    if ignored:
        name, why = ignored[0]
        raise ConfigError(f"{name} does not apply to goodreads {why}; leave it out")
    for name in ("length", "reviews", "clients", "min_df"):
        value = (for_text | for_path).get(name)
        if value is not None:
            positive(name, value)
    if for_text["pad"] not in (None, "end", "front"):
        raise ConfigError(f"pad must be 'end' or 'front', got {for_text['pad']!r}")


@dataclass(frozen=True)
class _Encoding:
    """Options for the encoding of sentences as word indices."""

    glove: str | Path | None
    length: int
    pad: Literal["end", "front"]

    def federation(
        self,
        texts: Sequence[str],
        y: Int[np.ndarray, "M"],
        train: Ragged,
        test: Ragged,
        users: tuple[str, ...],
    ) -> FederatedData:
        """Make a federation of texts, encoded as word indices with these options."""
        words = encode_texts(
            texts, np.unique(train.rows), length=self.length, glove=self.glove, pad=self.pad
        )
        return FederatedData(
            name="goodreads",
            x=words.x,
            y=y,
            classes=CLASSES,
            train=train,
            test=test,
            client_names=users,
            vocabulary=words.vocabulary,
            vectors=words.vectors,
        )


def _published(encoding: _Encoding | None) -> FederatedData:
    """The published federation: word indices if an encoding is given, otherwise word counts."""
    files, place = _files(COUNTS if encoding is None else TEXT)
    check_labels(files.y, CLASSES, place)
    if encoding is not None:
        if not isinstance(files.x, tuple):
            raise DataError(
                f"{place}: expected sentences as x, got numbers; leave out the option text=True"
            )
        return encoding.federation(
            texts=files.x, y=files.y, train=files.train, test=files.test, users=files.users
        )
    expected = f"{place}: expected word counts [M, words] as x"
    if isinstance(files.x, tuple):
        raise DataError(f"{expected}, got sentences; use text=True")
    if files.x.ndim != 2:
        raise DataError(f"{expected}, got shape {files.x.shape}")
    return FederatedData(
        name="goodreads",
        x=files.x,
        y=files.y,
        classes=CLASSES,
        train=files.train,
        test=files.test,
        client_names=files.users,
    )


def _files(source: Source) -> tuple[LeafFiles, Path]:
    """The content of the published files of Fed-Goodreads or, if there are none, of a folder in
    LEAF's layout; and the path from which it was read."""
    folder = locate(source)
    if folder is None:
        # ``fetch`` raises an error that names the folders.
        folder = find_leaf_folder(source) or fetch(source)
        return read_leaf(folder), folder
    if source is COUNTS:
        path = folder / "fed_goodreads_counts.npz"
        return read_leaf_arrays(path, CLASSES), path
    train, test = _TEXTS
    return read_leaf_files([folder / train], [folder / test]), folder


@dataclass(frozen=True)
class _Sampling:
    """Options of a federation made from a file of reviews."""

    reviews: int
    clients: int
    min_df: int
    seed: int


def _from_reviews(path: Path, sampling: _Sampling, encoding: _Encoding | None) -> FederatedData:
    """A federation from a file of reviews."""
    survey = _survey(path, sampling, count_words=encoding is None)
    sampled = _draw(survey, sampling, path)
    rows = sampled.rows.tolist()
    texts, y = _selected(path, sampling.reviews, rows)

    owned = Ragged(np.arange(len(y)), sampled.offsets)
    cuts = [min(size - 1, int(0.8 * size)) for size in owned.sizes.tolist()]
    train = Ragged.of([owned[u][:cut] for u, cut in enumerate(cuts)])
    test = Ragged.of([owned[u][cut:] for u, cut in enumerate(cuts)])
    first_rows = sampled.rows[sampled.offsets[:-1]]
    users = tuple(survey.users[user] for user in survey.owner[first_rows])
    if encoding is not None:
        return encoding.federation(texts=texts, y=y, train=train, test=test, users=users)
    x = _counted(texts, survey.frequency, sampling.min_df, path)
    return FederatedData(
        name="goodreads", x=x, y=y, classes=CLASSES, train=train, test=test, client_names=users
    )


def _selected(path: Path, reviews: int, rows: list[int]) -> tuple[list[str], Int[np.ndarray, "M"]]:
    """Texts and labels of the sentences in ``rows``, which are numbered in the order of the
    file."""
    needed = set(rows)
    text_of: dict[int, str] = {}
    label_of: dict[int, bool] = {}
    sentences = islice(_sentences(path, reviews), max(needed) + 1)
    for row, (_, spoiler, text) in enumerate(sentences):
        if row in needed:
            text_of[row] = text
            label_of[row] = spoiler
    return [text_of[row] for row in rows], np.array([label_of[row] for row in rows], np.int64)


def _counted(
    texts: list[str], frequency: Counter[str], min_df: int, path: Path
) -> Float32[np.ndarray, "M V"]:
    """Word counts of each sentence, for the words that occur in at least ``min_df`` sentences."""
    # This import is slow, so it happens only when it is needed.
    from sklearn.feature_extraction.text import CountVectorizer

    vocabulary = sorted(word for word, count in frequency.items() if count >= min_df)
    if not vocabulary:
        top = max(frequency.values(), default=0)
        raise DataError(
            f"{path}: no word occurs in {min_df} sentences, the most frequent one in {top}; set a "
            "smaller min_df"
        )
    return CountVectorizer(vocabulary=vocabulary).transform(texts).toarray().astype(np.float32)


@dataclass(frozen=True)
class _Survey:
    """What the first reading of the file found, with a few bytes per sentence, so that it fits into
    memory.

    Attributes:
        users: names of the users.
        owner: the user of each sentence.
        spoiler: whether each sentence is a spoiler.
        frequency: number of sentences with each word.
    """

    users: tuple[str, ...]
    owner: Int[np.ndarray, "s"]
    spoiler: Bool[np.ndarray, "s"]
    frequency: Counter[str]


def _survey(path: Path, sampling: _Sampling, count_words: bool) -> _Survey:
    """Read the file for the first time: user and class of each sentence, and word counts if
    wanted."""
    from sklearn.feature_extraction.text import CountVectorizer

    words_of = CountVectorizer().build_analyzer()
    numbers: dict[str, int] = {}
    owner = np.zeros(1024, np.int32)
    spoiler = np.zeros(1024, bool)
    frequency: Counter[str] = Counter()
    total = 0
    for user, flag, text in _sentences(path, sampling.reviews):
        if total == len(owner):
            # The number of sentences is unknown, so the arrays grow.
            owner = np.resize(owner, 2 * total)
            spoiler = np.resize(spoiler, 2 * total)
        owner[total] = numbers.setdefault(user, len(numbers))
        spoiler[total] = flag
        total += 1
        if count_words:
            frequency.update(set(words_of(text)))
    return _Survey(tuple(numbers), owner[:total].astype(np.int64), spoiler[:total], frequency)


def _draw(survey: _Survey, sampling: _Sampling, path: Path) -> Ragged:
    """Draw the sentences of each client, as their numbers in the file. The sentences of a client
    are in random order, and the first ones will be for training."""
    # All sentences in a random order, which also determines the order of the users.
    order = legacy_random(sampling.seed).permutation(len(survey.owner))
    owner = survey.owner[order]
    spoiler = survey.spoiler[order]
    N = len(survey.users)
    spoilers = np.bincount(owner[spoiler], minlength=N)
    others = np.bincount(owner[~spoiler], minlength=N)
    enough = np.minimum(spoilers, others) >= LEAST
    users, first = np.unique(owner, return_index=True)
    eligible = [int(user) for user in users[np.argsort(first)] if enough[user]]
    if len(eligible) < sampling.clients:
        raise DataError(
            f"{path}: only {len(eligible)} of {N} users have {LEAST} spoilers and {LEAST} other "
            f"sentences in the first {sampling.reviews:,} reviews, but {sampling.clients} clients "
            "are requested; use more reviews or fewer clients"
        )
    random = python_random.Random(sampling.seed)
    rows = []
    for user in eligible[: sampling.clients]:
        sentences = np.flatnonzero(owner == user)
        parts = []
        for flag in (True, False):
            of_class = sentences[spoiler[sentences] == flag]
            count = random.choice(range(1, MOST + 1))
            parts.append(of_class[:count])
        selected = np.concatenate(parts).tolist()
        random.shuffle(selected)
        rows.append(order[selected])
    return Ragged.of(rows)


def _sentences(path: Path, reviews: int) -> Iterator[tuple[str, bool, str]]:
    """User, class (True for a spoiler) and text of every sentence in the first reviews.

    The file is read one line at a time.
    """
    line = 0
    try:
        with path.open("rb") as raw:
            packed = raw.read(2) == b"\x1f\x8b"
        with gzip.open(path) if packed else path.open("rb") as file:
            for line, text in enumerate(islice(file, reviews), start=1):
                yield from _of_review(text, f"{path}: line {line}")
    except FileNotFoundError:
        raise DataError(f"{path}: expected a file of reviews, found no such file") from None
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(
            f"{path}: expected a file of reviews, but it is damaged after line {line} ({error})"
        ) from error
    if line == 0:
        raise DataError(f"{path}: expected one review in each line, found none")


def _of_review(text: bytes, place: str) -> Iterator[tuple[str, bool, str]]:
    """User, class (True for a spoiler) and text of each sentence of a review, which is a line of
    JSON. Raises DataError if the line is not a review."""
    try:
        review = json.loads(text)
        user = review["user_id"]
        sentences = review["review_sentences"]
        pairs = [(flag, sentence) for flag, sentence in sentences]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise DataError(
            f"{place}: expected a review with user_id and review_sentences ({error!r})"
        ) from error
    for flag, sentence in pairs:
        if flag not in (0, 1) or not isinstance(sentence, str):
            raise DataError(
                f"{place}: expected review_sentences of [0 or 1, text], got [{flag!r}, "
                f"{sentence!r}]"
            )
        yield str(user), bool(flag), sentence
