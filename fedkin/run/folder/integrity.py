"""Integrity of the files in a run folder.

A checkpoint stores a digest of each record file up to its round. A finished run has a file
``SHA256SUMS``, which ``sha256sum --check`` can read. Digests and checksums detect damage and
accidental edits, but not deliberate changes, since anybody can write new checksums.
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
    """SHA-256 digests of files to which lines are appended. Each line is hashed once.

    Args:
        contents: present content of each file, by name.
    """

    def __init__(self, contents: Mapping[str, str]) -> None:
        self._digests = {
            name: hashlib.sha256(content.encode()) for name, content in contents.items()
        }

    def add(self, name: str, line: str) -> None:
        """Add a line (given without its line break) to a file."""
        self._digests[name].update(f"{line}\n".encode())

    def values(self) -> dict[str, str]:
        """The digests of the present contents, by file name."""
        return {name: digest.hexdigest() for name, digest in self._digests.items()}


def changed_records(contents: Mapping[str, str], digests: Mapping[str, str]) -> list[str]:
    """Names of the record files whose content differs from a checkpoint's digests.

    Args:
        contents: contents of the record files up to the checkpoint's round, by name.
        digests: the checkpoint's digests by file name. Earlier versions of fedkin stored no
            digests, so files that they wrote are not checked.
    """
    now = GrowingDigests(contents).values()
    return [name for name, digest in digests.items() if now.get(name) != digest]


def write_sums(folder: Path, names: Iterable[str]) -> None:
    """Write the checksums of the files that exist.

    Args:
        folder: the run's folder.
        names: names of files in the folder.

    Raises:
        StorageError: the disk is full or cannot be written.
    """
    lines = [f"{_sha256(folder / name)}  {name}\n" for name in names if (folder / name).exists()]
    write_atomic(folder / SUMS, "".join(lines))


def refusal(folder: Path, changed: Sequence[str]) -> CheckpointError:
    """The error for files that have changed since the run wrote them.

    Args:
        folder: the run's folder.
        changed: names of the changed files.
    """
    verb = "is" if len(changed) == 1 else "are"
    return CheckpointError(
        f"{folder}: {' and '.join(changed)} {verb} damaged or changed; restore the original "
        "files, or start again in another folder"
    )


def check_files(folder: Path, newest: Checkpoint) -> None:
    """Check that the files of a finished run are unchanged.

    Args:
        folder: the run's folder.
        newest: the run's newest checkpoint.

    Raises:
        CheckpointError: files have changed; the message names them.
    """
    if changed := changed_files(folder, newest):
        raise refusal(folder, changed)


def missing_end(folder: Path, records: Sequence[Mapping[str, Any]], newest: Checkpoint) -> str:
    """Text that says that a finished run has no intact checkpoint of its last round; empty if there
    is such a checkpoint.

    Args:
        folder: the run's folder.
        records: records of the run's rounds; only the number of the last round is read.
        newest: the run's newest intact checkpoint.
    """
    last = records[-1]["round"] if records else newest.round
    if newest.round >= last:
        return ""
    return (
        f"{folder} has no intact checkpoint of its last round, {last}, so its models are from "
        f"round {newest.round}"
    )


def changed_files(folder: Path, newest: Checkpoint) -> list[str]:
    """Names of the files that are missing or differ from their digests. For an unfinished run, only
    the records up to its checkpoint are checked. Runs of earlier versions are not checked.

    Args:
        folder: the run's folder.
        newest: the run's newest checkpoint.

    Raises:
        CheckpointError: the file of checksums is damaged.
    """
    contents = {
        name: lines_of(records_up_to(folder / name, newest.round)) for name in newest.records
    }
    return sorted({*changed_records(contents, newest.records), *_differing(folder)})


def withdraw_sums(folder: Path, results: Iterable[str]) -> None:
    """Remove the checksums of a run that continues, since its files will change. The run writes new
    checksums at its end.

    A damaged result file only logs a warning, since the run writes the file again.

    Args:
        folder: the run's folder.
        results: names of the result files, which are computed from the last checkpoint.

    Raises:
        StorageError: the folder cannot be written.
    """
    try:
        damaged = [name for name in results if name in _differing(folder)]
    except CheckpointError:  # the file of checksums itself is damaged
        damaged = []
    if damaged:
        names = f"{' and '.join(damaged)} {'is' if len(damaged) == 1 else 'are'}"
        _log.warning(
            "%s: %s damaged, and will be written again from the last checkpoint",
            folder,
            names,
        )
    with storage_errors(folder):
        (folder / SUMS).unlink(missing_ok=True)


def _differing(folder: Path) -> list[str]:
    """Names of the files in a run folder that differ from their checksums. The list is empty if the
    folder has no file of checksums (an unfinished run)."""
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
    # Only the last part of a name is used, so that a changed line cannot lead out of the folder.
    return [
        match[2] for match in sums if match and _sha256(folder / Path(match[2]).name) != match[1]
    ]


def _sha256(path: Path) -> str:
    """SHA-256 of a file as hexadecimal text; an empty text if the file does not exist."""
    if not path.exists():
        return ""
    with storage_errors(path, "read"), path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
