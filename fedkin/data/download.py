"""Finds the files of named data sets in ``$FEDKIN_DATA`` or in the cache, or downloads them to the
cache.

``FEDKIN_DATA`` is the user's own folder and is only read. The cache is the folder ``data`` in
``$FEDKIN_CACHE``, or else in the operating system's place for caches (``pooch.os_cache("fedkin")``:
~/.cache/fedkin on Linux). The programs that JAX compiles for models are next to it, in the folder
``compiled``. Files with a published checksum are checked at every use. A checksum is an md5 (32
digits), or git's id of the content (40 digits), which the tree of a public repository lists.
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
from typing import Any, cast

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

from fedkin.core.errors import ChecksumError, DataError, StorageError

TIMEOUT = 30  # seconds without a byte before a download is aborted
GIT_DIGITS = 40  # of git's id of a file's content


@dataclass(frozen=True)
class Source:
    """The files of a data set, and where to find them.

    Attributes:
        name: name of the data set, for messages.
        files: checksum of each file, by its name, which may begin with folders; None if no
            checksum is published.
        folders: possible names of the set's folder below each data folder. Downloads go to the
            first one.
        url: web address, to which a file's name is appended; None if files cannot be downloaded.
        archive: name and md5 of one tar file that holds all files.
        help: text that says where to get files that cannot be downloaded.
        size: size of the download, as text.
        sub: possible subfolders of ``folders`` that have the files themselves.
    """

    name: str
    files: Mapping[str, str | None]
    folders: tuple[str, ...]
    url: str | None = None
    archive: tuple[str, str] | None = None
    help: str = ""
    size: str = ""
    # torchvision keeps its files in raw/.
    sub: tuple[str, ...] = ("", "raw")


def cache_folder() -> Path:
    """The folder of downloads."""
    import pooch

    return Path(os.environ.get("FEDKIN_CACHE") or pooch.os_cache("fedkin")) / "data"


def data_folders() -> list[Path]:
    """The folders to search, in order. Raises DataError if FEDKIN_DATA is not a folder."""
    user_folder = os.environ.get("FEDKIN_DATA")
    if not user_folder:
        return [cache_folder()]
    if not Path(user_folder).is_dir():
        raise DataError(
            f"FEDKIN_DATA must name a folder with data sets, but {user_folder!r} is not a folder; "
            "correct or unset it"
        )
    return [Path(user_folder), cache_folder()]


def locate(source: Source) -> Path | None:
    """The folder that holds all files of a set, or None. No file is read or downloaded."""
    for root in data_folders():
        for folder in source.folders:
            for sub in source.sub:
                place = root / folder / sub
                if all((place / name).is_file() for name in source.files):
                    return place
    return None


def fetch(source: Source, *, base_url: str | None = None) -> Path:
    """The folder that holds all files of a set. Files are checked, and downloaded if missing.

    Args:
        source: files of the data set.
        base_url: a mirror, which replaces the set's web address.

    Returns:
        The folder.

    Raises:
        ChecksumError: a file differs from the published one.
        DataError: the set can neither be found nor downloaded.
        StorageError: the cache cannot be written.
    """
    folder = locate(source)
    if folder is not None:
        errors = _checksum_errors(folder, source.files)
        if not errors:
            return folder
        # Damaged files in the cache are downloaded again, but a user's own files are never changed.
        if not folder.is_relative_to(cache_folder()):
            raise ChecksumError(
                f"{errors[0]}. Replace the file, or unset FEDKIN_DATA to download it"
            )
    return _download(source, base_url or source.url)


def _checksum_errors(folder: Path, files: Mapping[str, str | None]) -> list[str]:
    """A line for every file whose checksum differs from the published one."""
    actual = {name: _checksum(folder / name, kept) for name, kept in files.items() if kept}
    return [
        f"{folder / name}: expected {_kind(checksum)} {files[name]}, got {checksum}"
        for name, checksum in actual.items()
        if checksum != files[name]
    ]


def _is_git_id(checksum: str | None) -> bool:
    return checksum is not None and len(checksum) == GIT_DIGITS


def _kind(checksum: str | None) -> str:
    """The kind of a checksum, for messages."""
    return "git id" if _is_git_id(checksum) else "md5"


def _checksum(path: Path, published: str) -> str:
    """The checksum of a file, of the kind of the published one: git's id is the SHA-1 of a header
    with the size, and of the content. Raises DataError if the file cannot be read."""
    try:
        with path.open("rb") as file:
            if not _is_git_id(published):
                return hashlib.file_digest(file, "md5").hexdigest()
            header = f"blob {path.stat().st_size}\0".encode()
            start = hashlib.sha1(header, usedforsecurity=False)
            return hashlib.file_digest(file, start.copy).hexdigest()
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror})") from error


def _download(source: Source, base_url: str | None) -> Path:
    """Download all files of a set to the cache. Raises DataError for a set without a web
    address."""
    folder = cache_folder() / source.folders[0]
    if base_url is None:
        places = ", ".join(str(root / source.folders[0]) for root in data_folders())
        raise DataError(
            f"{source.name}: {', '.join(source.files)} not found in {places}. {source.help}".strip()
        )
    if source.archive:
        _download_archive(source, base_url, folder)
    else:
        for name, checksum in source.files.items():
            _download_file(base_url.rstrip("/") + "/" + name, folder / name, checksum)
    return folder


def _download_file(url: str, path: Path, checksum: str | None) -> None:
    """Download one file, unless it exists with this checksum. A file with another is deleted.

    pooch writes a temporary file, and renames it when it is complete.
    """
    if _is_git_id(checksum) and path.is_file() and _checksum(path, checksum or "") != checksum:
        path.unlink()
    _retrieve(url, path, None if _is_git_id(checksum) else checksum)
    # pooch compares an md5, and knows no ids of git.
    if _is_git_id(checksum) and _checksum(path, checksum or "") != checksum:
        path.unlink()
        raise _other_checksum(url, checksum)


def _other_checksum(url: str, checksum: str | None) -> ChecksumError:
    return ChecksumError(
        f"{url}: expected {_kind(checksum)} {checksum}, but the download has another; try again "
        "later"
    )


def _retrieve(url: str, path: Path, md5: str | None) -> None:
    """Download one file, unless it exists with this md5 (any, if None)."""
    import pooch
    from requests.exceptions import RequestException

    # pooch's log is silenced, since there is a progress bar.
    pooch.get_logger().setLevel(logging.WARNING)
    bar = _Bar(path.name)
    # pooch accepts more types than it declares, hence the casts.
    http: Any = pooch.HTTPDownloader(progressbar=cast(Any, bar), timeout=TIMEOUT)
    known = f"md5:{md5}" if md5 else None
    try:
        pooch.retrieve(url, known, path.name, path.parent, downloader=http)
    except RequestException as error:
        raise DataError(
            f"{url}: could not be downloaded ({error}). Check the network, or put {path.name} "
            f"into {path.parent} by hand, or set FEDKIN_DATA to a folder that has it"
        ) from error
    except ValueError as error:
        raise _other_checksum(url, md5) from error
    except OSError as error:
        raise StorageError(
            f"{path.parent}: cannot be written ({error.strerror or error}); set FEDKIN_CACHE to a "
            "folder that can be written"
        ) from error
    finally:
        # pooch leaves the file open after a failed download.
        bar.close()


def _download_archive(source: Source, base_url: str, folder: Path) -> None:
    """Download a tar file and unpack the set's files. The set's folder appears when all files are
    complete."""
    assert source.archive
    name, md5 = source.archive
    archive = folder.parent / name
    _download_file(base_url.rstrip("/") + "/" + name, archive, md5)
    try:
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}-") as temporary:
            # Unpack next to the folder and rename, so that an interruption leaves no partial
            # folder.
            unpacked = Path(temporary) / "files"
            _unpack(archive, list(source.files), unpacked)
            shutil.rmtree(folder, ignore_errors=True)
            unpacked.rename(folder)
        archive.unlink()
    except (tarfile.TarError, EOFError, zlib.error) as error:
        raise DataError(
            f"{archive}: expected a tar file, but it is damaged ({error}); delete it "
            "to download it again"
        ) from error
    except OSError as error:
        raise StorageError(
            f"{folder}: cannot be written ({error.strerror or error}); set FEDKIN_CACHE to a "
            "folder that can be written"
        ) from error


def _unpack(archive: Path, names: list[str], folder: Path) -> None:
    """Extract the named files of a tar file into a new folder, ignoring their folders in the
    archive."""
    folder.mkdir()
    with tarfile.open(archive) as tar:
        members = {Path(member.name).name: member for member in tar.getmembers() if member.isfile()}
        for name in names:
            if name not in members:
                raise DataError(
                    f"{archive}: expected the file {name} in this archive, found "
                    f"{sorted(members)}; get the files {', '.join(names)} from elsewhere, and put "
                    "all of them into the data set's folder below FEDKIN_DATA"
                )
            content = tar.extractfile(members[name])
            # None would mean a folder, but these members are files.
            assert content is not None
            with content, (folder / name).open("wb") as out:
                shutil.copyfileobj(content, out)


class _Bar:
    """The progress bar of a download, drawn on stderr; silent if that is not a terminal.

    pooch sets ``total`` and calls the methods.
    """

    def __init__(self, name: str) -> None:
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            DownloadColumn(),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            transient=True,
        )
        self._task = self._progress.add_task(name, total=None)
        # Size of the download in bytes; 0 if the server does not report it.
        self.total = 0

    def update(self, size: int) -> None:
        """Advance the bar by ``size`` bytes."""
        self._progress.start()
        self._progress.update(self._task, total=self.total or None, advance=size)

    def reset(self) -> None:
        """Start again at zero."""
        self._progress.reset(self._task)

    def close(self) -> None:
        """Remove the bar."""
        self._progress.stop()
