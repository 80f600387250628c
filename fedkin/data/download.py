"""Where the files of a named set are: in ``$FEDKIN_DATA``, else in the cache, else downloaded into the cache.

``FEDKIN_DATA`` is the user's own folder and is only read. The cache is the folder ``data`` in ``$FEDKIN_CACHE``, else
in the operating system's place for caches (``pooch.os_cache("fedkin")``: ~/.cache/fedkin on Linux); compiled programs
are kept beside it. Files with a published checksum are checked every time they are found.
"""

from __future__ import annotations

import hashlib
import logging
import os
import shutil
import tarfile
import tempfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

from fedkin.core.errors import ChecksumError, DataError, StorageError

TIMEOUT = 30  # seconds without a byte before a server is given up


@dataclass(frozen=True)
class Source:
    """The files of a set: names and md5 (None where none is published), the folders they may lie in below a data
    folder (the first is the one in the cache), and the web address to which a name is appended (None: not
    downloadable; ``help`` then says where to get them). ``archive`` is one tar file (name, md5) that holds them all.
    """

    name: str
    files: Mapping[str, str | None]
    folders: tuple[str, ...]
    url: str | None = None
    archive: tuple[str, str] | None = None
    help: str = ""
    size: str = ""  # of the download, for people
    sub: tuple[str, ...] = ("", "raw")  # torchvision keeps its files in raw/


def cache() -> Path:
    """The folder that downloads go to."""
    import pooch

    return Path(os.environ.get("FEDKIN_CACHE") or pooch.os_cache("fedkin")) / "data"


def roots() -> list[Path]:
    """The folders that are searched, in order. Raises DataError where FEDKIN_DATA is not a folder."""
    own = os.environ.get("FEDKIN_DATA")
    if own and not Path(own).is_dir():
        raise DataError(f"FEDKIN_DATA must name a folder with data sets, {own!r} is none; correct or unset it")
    return [*([Path(own)] if own else []), cache()]


def where(source: Source) -> Path | None:
    """The folder that holds all files of a set, or None. Reads no file and downloads nothing."""
    for root in roots():
        for folder in source.folders:
            for sub in source.sub:
                if all((root / folder / sub / name).is_file() for name in source.files):
                    return root / folder / sub
    return None


def find(source: Source, *, base_url: str | None = None) -> Path:
    """The folder that holds all files of a set, checked, downloaded first if need be.

    ``base_url`` takes the place of the set's own web address (a mirror). Raises ChecksumError where bytes are not
    the published ones, DataError where the set can neither be found nor downloaded, StorageError where the cache
    cannot be written.
    """
    folder = where(source)
    own = folder is not None and not folder.is_relative_to(cache())
    wrong = _wrong(folder, source.files) if folder else []
    if folder and not wrong:
        return folder
    if own:  # the user's own files are never touched
        raise ChecksumError(f"{wrong[0]}. Replace the file, or unset FEDKIN_DATA to download it")
    return _download(source, base_url or source.url)


def _wrong(folder: Path, files: Mapping[str, str | None]) -> list[str]:
    """One line for every file whose md5 is not the published one."""
    found = {name: _md5(folder / name) for name, md5 in files.items() if md5}
    return [
        f"{folder / name}: expected md5 {files[name]}, got {md5}" for name, md5 in found.items() if md5 != files[name]
    ]


def _md5(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "md5").hexdigest()
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror})") from error


def _download(source: Source, base_url: str | None) -> Path:
    folder = cache() / source.folders[0]
    if base_url is None:
        places = ", ".join(str(root / source.folders[0]) for root in roots())
        raise DataError(f"{source.name}: {', '.join(source.files)} not found in {places}. {source.help}".strip())
    if source.archive:
        _fetch_archive(source, base_url, folder)
    else:
        for name, md5 in source.files.items():
            _fetch(base_url.rstrip("/") + "/" + name, folder / name, md5)
    return folder


def _fetch(url: str, path: Path, md5: str | None) -> None:
    """Download one file, unless it is there and right; pooch writes a temporary file and moves it when it is whole."""
    import pooch
    from requests.exceptions import RequestException

    pooch.get_logger().setLevel(logging.WARNING)  # the bar says it all
    http = pooch.HTTPDownloader(progressbar=(bar := _Bar(path.name)), timeout=TIMEOUT)  # pyright: ignore
    try:
        pooch.retrieve(url, f"md5:{md5}" if md5 else None, path.name, path.parent, downloader=http)  # pyright: ignore
    except RequestException as error:
        raise DataError(
            f"{url}: could not be downloaded ({error}). Check the network, or put {path.name} into {path.parent} "
            "by hand, or set FEDKIN_DATA to a folder that has it"
        ) from error
    except ValueError as error:
        raise ChecksumError(f"{url}: expected md5 {md5}, the download has another; try again later") from error
    except OSError as error:
        raise StorageError(f"{path.parent}: cannot be written ({error.strerror or error}); set FEDKIN_CACHE") from error
    finally:
        bar.close()  # pooch leaves it open where a download breaks off


def _fetch_archive(source: Source, base_url: str, folder: Path) -> None:
    """Download a tar file and unpack the set's files; the folder appears only when they are all there."""
    assert source.archive
    name, md5 = source.archive
    archive = folder.parent / name
    _fetch(base_url.rstrip("/") + "/" + name, archive, md5)
    try:
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}-") as fresh:
            _unpack(archive, list(source.files), whole := Path(fresh) / "files")
            shutil.rmtree(folder, ignore_errors=True)
            whole.rename(folder)
        archive.unlink()
    except (tarfile.TarError, EOFError, zlib.error) as error:
        raise DataError(f"{archive}: expected a tar file, but it is damaged ({error}); delete it") from error
    except OSError as error:
        raise StorageError(f"{folder}: cannot be written ({error.strerror or error}); set FEDKIN_CACHE") from error


def _unpack(archive: Path, names: list[str], folder: Path) -> None:
    """The named files of a tar file, whatever folder they lie in there."""
    folder.mkdir()
    with tarfile.open(archive) as tar:
        members = {Path(member.name).name: member for member in tar.getmembers() if member.isfile()}
        for name in names:
            if name not in members:
                raise DataError(f"{archive}: expected it to hold {name}, found {sorted(members)}")
            content = tar.extractfile(members[name])
            assert content is not None  # it is a file
            with content, (folder / name).open("wb") as out:
                shutil.copyfileobj(content, out)


class _Bar:
    """The progress bar that pooch asks for, drawn by rich on stderr (silent where that is not a terminal)."""

    def __init__(self, name: str) -> None:
        columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
        self._progress = Progress(*columns, console=Console(stderr=True), transient=True)
        self._task = self._progress.add_task(name, total=None)
        self.total = 0  # set by pooch, to 0 where the server does not tell

    def update(self, size: int) -> None:
        self._progress.start()
        self._progress.update(self._task, total=self.total or None, advance=size)

    def reset(self) -> None:
        self._progress.reset(self._task)

    def close(self) -> None:
        self._progress.stop()
