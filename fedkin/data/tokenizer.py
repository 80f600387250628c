"""From texts to token numbers, by the tokenizer of a pretrained model.

Source of the file format: the library tokenizers (extra ``text``), which reads ``tokenizer.json``.
The file ``config.json`` next to it names the padding token and the number of positions.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Int

from fedkin.core.errors import ConfigError, DataError, MissingExtra, ModelError
from fedkin.core.storage import user_path

_FILE = "tokenizer.json"
_SETTINGS = "tokenizer_config.json"
_BERT_PADDING = "[PAD]"
_WRITTEN_AGAIN = "save_pretrained(folder) of transformers writes it again"
CONFIG = "config.json"
_NO_PADDING = (
    "texts of different lengths cannot be put into one array; write the number of the padding "
    'token there: "pad_token_id": 0'
)
_NO_POSITIONS = "the largest length of a text is unknown; write it there"
_EXAMPLE = 32  # length in messages
_SHARE = 0.95  # share of the texts that are not cut, if no length is given
_MULTIPLE = 8  # lengths are multiples of this number, so that few programs are compiled
_log = logging.getLogger("fedkin")


@dataclass(frozen=True, eq=False)
class Tokenizer:
    """The tokenizer of a pretrained model.

    Attributes:
        path: the file it was read from.
        padding: the token number of padding.
        positions: the largest number of tokens of a text.
        digest: SHA-256 of the file.
        encoder: the tokenizer of the library tokenizers.
    """

    path: Path
    padding: int
    positions: int
    digest: str
    encoder: Any

    @classmethod
    def from_folder(cls, folder: str | Path) -> Tokenizer:
        """The tokenizer in a folder of a Hugging Face model.

        Args:
            folder: a folder with ``tokenizer.json`` and ``config.json``.

        Raises:
            MissingExtra: the library tokenizers is not installed.
            ModelError: the folder lacks a file, or its settings name no padding token, or another
                one than the tokenizer has.
        """
        folder = user_path(folder)
        config = model_config(folder)
        try:
            import tokenizers
        except ImportError as error:
            raise MissingExtra(
                "texts need the library tokenizers: pip install 'fedkin[text]'"
            ) from error
        path = folder / _FILE
        if not path.is_file():
            raise ModelError(
                f"{folder} has no {_FILE}; tokenizer.save_pretrained(folder) of a fast tokenizer "
                "writes it"
            )
        try:
            encoder = tokenizers.Tokenizer.from_file(str(path))
        except Exception as error:  # the library raises plain exceptions
            raise ModelError(
                f"{path} cannot be read: {error}; tokenizer.save_pretrained(folder) writes it again"
            ) from error
        padding = _whole_number(folder, config, "pad_token_id", _NO_PADDING)
        _check_padding(folder, encoder, padding)
        # The file may ask for a fixed length; texts are cut and filled up here instead.
        encoder.no_padding()
        encoder.no_truncation()
        return cls(
            path=path,
            padding=padding,
            positions=_whole_number(folder, config, "max_position_embeddings", _NO_POSITIONS),
            digest=hashlib.sha256(path.read_bytes()).hexdigest(),
            encoder=encoder,
        )

    def check_vocabulary(self, rows: int) -> None:
        """Raise ModelError if the tokenizer has more tokens than the model has word vectors.

        Args:
            rows: number of word vectors of the model.
        """
        tokens = self.encoder.get_vocab_size(with_added_tokens=True)
        if tokens > rows:
            raise ModelError(
                f"{self.path} has {tokens:,} tokens, but the model has {rows:,} word vectors: "
                "the tokenizer belongs to another model; copy the one of this model to the folder"
            )

    def tokens(
        self, texts: Any, length: int | None = None, place: Path | str | None = None
    ) -> Int[np.ndarray, "M L"]:
        """Token numbers of texts, filled up with padding at the end.

        Args:
            texts: M texts.
            length: number of tokens L of every text; longer texts are cut, and a warning says how
                many. None: enough for 95% of the texts, rounded up to a multiple of 8, and a
                warning only if more than 5% are cut.
            place: file or name of the data with which the warning begins; None without one.

        Raises:
            ConfigError: the length is above the model's.
            DataError: a text is no string.
        """
        if length is not None and not 2 <= length <= self.positions:
            raise ConfigError(
                f"length must be between 2 and {self.positions}, the positions of the model, "
                f"got {length}; for example length = {min(_EXAMPLE, self.positions)}"
            )
        encoded = self.encoder.encode_batch(_strings(texts))
        sizes = np.array([len(text.ids) for text in encoded], np.int64)
        # The default cuts a few texts on purpose, which is documented.
        allowed = 0.0
        if length is None:
            length = self.length_for(sizes)
            allowed = 1 - _SHARE
        cut = int((sizes > length).sum())
        if cut > allowed * len(sizes):
            self._warn_of_cut(sizes, length, place)
        out = np.full((len(encoded), length), self.padding, np.int32)
        for row, text in enumerate(encoded):
            kept = text.ids[:length]
            # A special token at the end, such as [SEP], is kept when the text is cut.
            if len(text.ids) > length and text.special_tokens_mask[-1]:
                kept[-1] = text.ids[-1]
            out[row, : len(kept)] = kept
        return out

    def _warn_of_cut(
        self, sizes: Int[np.ndarray, "M"], length: int, place: Path | str | None
    ) -> None:
        """Log a warning that says how many texts are cut.

        Args:
            sizes: number of tokens of each text.
            length: number of tokens to which they are cut.
            place: file or name of the data; None without one.
        """
        if length < self.positions:
            way_on = f"make the data with a larger length, up to {self.positions}"
        else:
            way_on = "the model has no more positions; divide long texts into several rows"
        _log.warning(
            "%s%s of %s texts are cut to %d tokens: the longest has %s; %s",
            "" if place is None else f"{place}: ",
            f"{int((sizes > length).sum()):,}",
            f"{len(sizes):,}",
            length,
            f"{int(sizes.max()):,}",
            way_on,
        )

    def length_for(self, sizes: Int[np.ndarray, "M"]) -> int:
        """The length that 95% of the texts do not exceed, rounded up to a multiple of 8."""
        if not len(sizes):
            return _MULTIPLE
        wanted = int(np.ceil(np.quantile(sizes, _SHARE)))
        return min(-(-wanted // _MULTIPLE) * _MULTIPLE, self.positions)


def model_config(folder: Path) -> dict[str, Any]:
    """The settings in a folder of a Hugging Face model.

    Raises:
        ModelError: there is no such folder or file, or it is no JSON object.
    """
    path = folder / CONFIG
    if not folder.is_dir():
        raise ModelError(
            f"{folder} is no folder; give a local folder of a Hugging Face model, as "
            "model.save_pretrained(folder) writes it (nothing is downloaded)"
        )
    if not path.is_file():
        raise ModelError(
            f"{folder} has no {CONFIG}, so it is no folder of a Hugging Face model; "
            "model.save_pretrained(folder) writes one"
        )
    return _json_object(path)


def _json_object(path: Path) -> dict[str, Any]:
    """The settings in a file. Raises ModelError if it is no JSON object."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ModelError(f"{path} is no JSON: {error}; {_WRITTEN_AGAIN}") from error
    if not isinstance(found, dict):
        raise ModelError(
            f"{path} holds a {type(found).__name__}, not an object of settings; {_WRITTEN_AGAIN}"
        )
    return found


def _check_padding(folder: Path, encoder: Any, padding: int) -> None:
    """Raise ModelError if the model's padding is another token than the tokenizer's.

    Args:
        folder: folder of the model.
        encoder: the tokenizer of the library tokenizers.
        padding: the padding token number in the model's settings.
    """
    word = _padding_word(folder, encoder)
    number = None if word is None else encoder.token_to_id(word)
    if number is not None and number != padding:
        raise ModelError(
            f"{folder / CONFIG}: pad_token_id is {padding}, but the tokenizer's padding {word!r} "
            f'is token {number}; write "pad_token_id": {number} if the model was trained with this '
            "tokenizer"
        )


def _padding_word(folder: Path, encoder: Any) -> str | None:
    """The tokenizer's padding token: in its own settings, in those of transformers, or the one of
    BERT; None if it is unknown."""
    if encoder.padding is not None:
        return encoder.padding["pad_token"]
    path = folder / _SETTINGS
    word = _json_object(path).get("pad_token") if path.is_file() else None
    # Older versions of transformers write an object with the text of the token.
    if isinstance(word, dict):
        word = word.get("content")
    if isinstance(word, str):
        return word
    return _BERT_PADDING if encoder.token_to_id(_BERT_PADDING) is not None else None


def _whole_number(folder: Path, config: dict[str, Any], name: str, why: str) -> int:
    """A whole number among the settings of a model."""
    value = config.get(name)
    if not isinstance(value, int) or isinstance(value, bool):
        raise ModelError(f"{folder / CONFIG} names no {name}, so {why}")
    return value


def _strings(texts: Any) -> Sequence[str]:
    """The texts as a list. Raises DataError if an entry is no text."""
    found = list(texts)
    for row, text in enumerate(found):
        if not isinstance(text, str):
            raise DataError(f"the text in row {row} is {text!r}, not a string")
    return found
