"""The recordings of MEx on a pressure mat (Wijekoon et al. 2019): where they are found, and how
they are downloaded.

UCI publishes an archive of all four sensors, https://archive.ics.uci.edu/dataset/500/mex, and no
checksum of it. So the number of recordings is compared with the description of the set. ``mex``
also looks for FedSim's published samples in them, whose file has a checksum.
"""

from __future__ import annotations

import re
import shutil
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path

from fedkin.core.errors import DataError, StorageError
from fedkin.data.download import Source, cache_folder, data_folders, fetch

SUBJECTS = 30
# Eight of each subject: exercise 04 is recorded on both sides. Subject 22 did it on one side only.
RECORDINGS = 8 * SUBJECTS - 1

FOLDERS = ("MEx", "mex", "FedMEx", "fedmex")
ARCHIVE = Source(
    "MEx",
    {"mex.zip": None},
    folders=FOLDERS[:2],
    url="https://archive.ics.uci.edu/static/public/500",
    help="Put the folder pm of MEx there, from https://archive.ics.uci.edu/dataset/500/mex",
)
# The folder of the pressure mat, and the places that it may have below the others.
MAT = "pm"
PLACES = (MAT, f"data/{MAT}", f"MEx/{MAT}")
_MEMBER = re.compile(rf"(?:.*/)?{MAT}/(\d\d)/(\d\d_pm(?:_\d+)?\.csv)")


def locate_recordings() -> Path | None:
    """The folder with a folder of recordings for each subject; None if there is none. Nothing is
    read or downloaded."""
    for root in data_folders():
        for folder in FOLDERS:
            for place in PLACES:
                if len(list((root / folder / place).glob("[0-9][0-9]"))) == SUBJECTS:
                    return root / folder / place
    return None


def fetch_recordings(*, base_url: str | None = None) -> Path:
    """The folder with a folder of recordings for each subject. UCI's archive is downloaded, and its
    recordings on the mat are unpacked to the cache, if they are nowhere.

    Args:
        base_url: a mirror, which replaces UCI's web address.

    Raises:
        DataError: the archive cannot be downloaded, or has other files than UCI's.
        StorageError: the cache cannot be written.
    """
    folder = locate_recordings()
    if folder is not None:
        return folder
    archive = fetch(ARCHIVE, base_url=base_url) / "mex.zip"
    target = cache_folder() / FOLDERS[0] / MAT
    try:
        _unpack(archive, target)
    except (zipfile.BadZipFile, EOFError, zlib.error) as error:
        raise DataError(
            f"{archive}: expected a zip file, but it is damaged ({error}); delete it"
        ) from error
    except OSError as error:
        raise StorageError(
            f"{target}: cannot be written ({error.strerror or error}); set FEDKIN_CACHE"
        ) from error
    if archive.is_relative_to(cache_folder()):
        archive.unlink()
    return target


def _unpack(archive: Path, target: Path) -> None:
    """Unpack the recordings on the mat. The folder appears when it is complete."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{MAT}-") as temporary:
        unpacked = Path(temporary) / MAT
        count = 0
        with zipfile.ZipFile(archive) as outer:
            for content, subject, name in _members(outer):
                place = unpacked / subject / name
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_bytes(content.read_bytes())
                count += 1
        subjects = len(list(unpacked.glob("*"))) if count else 0
        if (subjects, count) != (SUBJECTS, RECORDINGS):
            raise DataError(
                f"{archive}: expected {RECORDINGS} recordings {MAT}/01/01_pm_1.csv, .. of "
                f"{SUBJECTS} subjects, found {count} of {subjects}; delete it"
            )
        shutil.rmtree(target, ignore_errors=True)
        unpacked.rename(target)


def _members(archive: zipfile.ZipFile) -> Iterator[tuple[zipfile.Path, str, str]]:
    """The recordings in an archive and in the archives in it: the file, the subject, the name."""
    for info in archive.infolist():
        if match := _MEMBER.fullmatch(info.filename):
            yield zipfile.Path(archive, info.filename), match[1], match[2]
        elif info.filename.lower().endswith(".zip"):
            with archive.open(info) as file, zipfile.ZipFile(file) as inner:
                yield from _members(inner)
