"""Whether the files of a run folder hold what the run wrote into them.

A checkpoint has a digest of each record file as it was in its round, and a finished run has
``SHA256SUMS``, which ``sha256sum --check`` reads, too. Damage and edits are found so; who means to
deceive can write new sums.
"""

from __future__ import annotations

import hashlib
import logging
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from fedkin.core.errors import CheckpointError
from fedkin.core.storage import storage_errors, write_atomic
from fedkin.run.folder.checkpoint import Checkpoint
from fedkin.run.folder.record_lines import lines_of, records_up_to

SUMS = "SHA256SUMS"
_log = logging.getLogger("fedkin")
_LINE = re.compile(r"([0-9a-f]{64})  (\S+)")


class GrowingDigests:
    """SHA-256 of files that grow line by line.

    Args:
        contents: what each file holds already, by name.
    """

    def __init__(self, contents: Mapping[str, str]) -> None:
        self._digests = {
            name: hashlib.sha256(content.encode()) for name, content in contents.items()
        }

    def add(self, name: str, line: str) -> None:
        """A file has one line more (without its end)."""
        self._digests[name].update(f"{line}\n".encode())

    def values(self) -> dict[str, str]:
        """The digests as they are now, by name."""
        return {name: digest.hexdigest() for name, digest in self._digests.items()}


def changed_records(contents: Mapping[str, str], digests: Mapping[str, str]) -> list[str]:
    """Names of the record files whose content is not what a checkpoint's digests say.

    Args:
        contents: of the record files up to the checkpoint's round, by name.
        digests: of the checkpoint; empty in those of earlier versions, of which nothing is known.
    """
    now = GrowingDigests(contents).values()
    return [name for name, digest in digests.items() if now.get(name) != digest]


def write_sums(folder: Path, names: Iterable[str]) -> None:
    """Write the sums of those of the files that are there.

    Args:
        folder: of the run.
        names: of files in it.

    Raises:
        StorageError: the disk does not take it.
    """
    lines = [f"{_sha256(folder / name)}  {name}\n" for name in names if (folder / name).exists()]
    write_atomic(folder / SUMS, "".join(lines))


def refusal(folder: Path, changed: Sequence[str]) -> CheckpointError:
    """That files of a run are not what the run wrote.

    Args:
        folder: of the run.
        changed: their names.
    """
    verb = "is" if len(changed) == 1 else "are"
    return CheckpointError(
        f"{folder}: {' and '.join(changed)} {verb} not what the run has written; put the files of "
        "one run back, or start again in another folder"
    )


def check_files(folder: Path, newest: Checkpoint) -> None:
    """Refuse a finished run whose files are not what it wrote.

    Args:
        folder: of the run.
        newest: its newest checkpoint.

    Raises:
        CheckpointError: with the names of the files that are not.
    """
    if changed := changed_files(folder, newest):
        raise refusal(folder, changed)


def missing_end(folder: Path, records: Sequence[Mapping[str, Any]], newest: Checkpoint) -> str:
    """That a finished run's models are not those of its last round, in words; empty where they are.

    Args:
        folder: of the run.
        records: of its rounds.
        newest: its newest checkpoint that is whole.
    """
    last = records[-1]["round"] if records else newest.round
    if newest.round >= last:
        return ""
    return (
        f"{folder} has no whole checkpoint of its last round, {last}: its models are those of "
        f"round {newest.round}"
    )


def changed_files(folder: Path, newest: Checkpoint) -> list[str]:
    """Names of the files that are missing, or are not what the run wrote. Nothing is known of runs
    of earlier versions, and of one that is not finished only the records up to its checkpoint.

    Args:
        folder: of the run.
        newest: its newest checkpoint.

    Raises:
        CheckpointError: the folder's sums are damaged.
    """
    contents = {
        name: lines_of(records_up_to(folder / name, newest.round)) for name in newest.records
    }
    return sorted({*changed_records(contents, newest.records), *_differing(folder)})


def withdraw_sums(folder: Path, results: Iterable[str]) -> None:
    """Remove the sums of a run that goes on; they come again at its end, with its results. What of
    these is damaged is logged, since it is written anew.

    Args:
        folder: of the run.
        results: names of the files that follow from its last checkpoint.

    Raises:
        StorageError: the folder cannot be written.
    """
    try:
        damaged = [name for name in results if name in _differing(folder)]
    except CheckpointError:  # the sums themselves are damaged
        damaged = []
    if damaged:
        names = f"{' and '.join(damaged)} {'is' if len(damaged) == 1 else 'are'}"
        _log.warning(
            "%s: %s not what the run has written; written anew from its last checkpoint",
            folder,
            names,
        )
    with storage_errors(folder):
        (folder / SUMS).unlink(missing_ok=True)


def _differing(folder: Path) -> list[str]:
    """Names of the files that differ from their sums; none where there are no sums."""
    try:
        lines = (folder / SUMS).read_text().splitlines()
    except FileNotFoundError:
        return []
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{folder / SUMS} cannot be read: {error}") from error
    sums = [_LINE.fullmatch(line) for line in lines]
    if not sums or not all(sums):
        raise CheckpointError(
            f"{folder / SUMS} is damaged; delete it to read the run without this check"
        )
    return [
        match[2] for match in sums if match and _sha256(folder / Path(match[2]).name) != match[1]
    ]


def _sha256(path: Path) -> str:
    """Of a file; empty where there is none."""
    if not path.exists():
        return ""
    with storage_errors(path, "read"), path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
