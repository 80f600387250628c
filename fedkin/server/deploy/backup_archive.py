"""The archive that ``fedkin deploy backup`` writes: a tar file whose first member lists all files
with their digests, the federation, and the version of fedkin."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path, PurePosixPath

from fedkin import __version__
from fedkin.config.server import load_client, load_server
from fedkin.core.codec import digest
from fedkin.core.errors import ConfigError
from fedkin.server.deploy import deployment_folder as files
from fedkin.server.deploy.selection import select

MANIFEST = "fedkin-backup.json"  # the archive's first member
_FORMAT = 1  # version of the archive's format


@dataclass(frozen=True)
class Federation:
    """The federation of a deployment or of a backup.

    Attributes:
        name: name of the federation.
        authority: digest of the authority's certificate; empty without keys.
    """

    name: str
    authority: str

    def __str__(self) -> str:
        authority = f"authority {self.authority[:8]}" if self.authority else "without keys"
        return f"{self.name!r} ({authority})"


@dataclass(frozen=True)
class Manifest:
    """The contents of a backup.

    Attributes:
        federation: the federation.
        version: version of fedkin that wrote the backup.
        date: date and time of the backup, such as 2026-11-28 17:05:00.
        round: the last round of the run's newest checkpoint; None if there is none.
        digests: SHA-256 of each file, by its path in the deployment's folder.
    """

    federation: Federation
    version: str
    date: str
    round: int | None
    digests: dict[str, str]

    def text(self) -> bytes:
        """The content of the archive's first member."""
        values = asdict(self)
        described = {"format": _FORMAT, **values, "digest": digest(values)}
        return json.dumps(described, indent=1).encode()

    def run_words(self) -> str:
        """Words about the run, for messages."""
        if self.round is None:
            return "without a checkpoint of a run"
        return f"the run is at round {self.round}"


def federation_of(folder: Path) -> Federation:
    """The federation of a deployment or of a site's folder. Raises ConfigError if there is none."""
    selection = select(folder)
    if selection.holds_server:
        name = load_server(folder / files.SERVER).federation.name
    else:
        site = load_client(min(selection.sites.values()) / files.CLIENT).site
        name = site.federation or site.name
    authority = ""
    for path in (folder / files.CA, folder / files.SITE_CA):
        if path.exists():
            authority = hashlib.sha256(path.read_bytes()).hexdigest()
    return Federation(name, authority)


def add_file(archive: tarfile.TarFile, name: str, content: bytes, mode: int) -> None:
    """Append a file to an archive.

    Args:
        archive: the archive, open for writing.
        name: path of the file in the deployment's folder.
        content: content of the file.
        mode: permissions of the file.
    """
    member = tarfile.TarInfo(name)
    member.size = len(content)
    member.mode = mode
    member.mtime = int(time.time())
    archive.addfile(member, io.BytesIO(content))


def read_backup(file: Path) -> Manifest:
    """Read the contents of a backup, and verify the digests of all its files.

    Raises:
        ConfigError: the file cannot be read, or is no complete backup.
    """
    try:
        if not tarfile.is_tarfile(file):
            raise ConfigError(
                f"{file} is no backup of fedkin deploy, because it is no tar file; name a file "
                "that fedkin deploy backup wrote"
            )
        with tarfile.open(file) as archive:
            manifest = _manifest(archive, file)
            names = _verify(archive, manifest, file)
    except OSError as error:
        raise ConfigError(f"{file} cannot be read: {error.strerror or error}") from error
    except (tarfile.TarError, EOFError) as error:
        raise ConfigError(
            f"{file} is no backup of fedkin deploy, or is damaged ({error}); name a file that "
            "fedkin deploy backup wrote"
        ) from error
    missing = manifest.digests.keys() - names
    if missing:
        raise ConfigError(
            f"{file} is damaged: {min(missing)} is missing; take another backup. Nothing was "
            "changed"
        )
    return manifest


def _manifest(archive: tarfile.TarFile, file: Path) -> Manifest:
    """The list of contents of an archive. Raises ConfigError if it has none."""
    member = archive.next()
    content = archive.extractfile(member) if member is not None else None
    if member is None or member.name != MANIFEST or content is None:
        raise ConfigError(
            f"{file} is no backup of fedkin deploy, because its first file is not {MANIFEST}; name "
            "a file that fedkin deploy backup wrote"
        )
    try:
        values = json.loads(content.read())
        form = values.pop("format")
        stated = values.pop("digest")
        manifest = Manifest(**{**values, "federation": Federation(**values["federation"])})
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise ConfigError(f"{file} is damaged: {MANIFEST} cannot be read ({error})") from error
    if form != _FORMAT:
        raise ConfigError(
            f"{file} has format {form} of a backup, but fedkin {__version__} reads format "
            f"{_FORMAT}; restore it with fedkin {values['version']}"
        )
    if stated != digest(values):
        raise ConfigError(f"{file} is damaged: {MANIFEST} was changed; take another backup")
    return manifest


def _verify(archive: tarfile.TarFile, manifest: Manifest, file: Path) -> set[str]:
    """Verify all files of an archive after the first, and return their names. Raises ConfigError
    for a file that is not listed, is no regular file, or has another digest."""
    names = set()
    while (member := archive.next()) is not None:
        name = PurePosixPath(member.name)
        content = archive.extractfile(member) if member.isreg() else None
        expected = manifest.digests.get(member.name)
        inside = not name.is_absolute() and ".." not in name.parts
        if content is None or expected is None or not inside or member.name in names:
            raise ConfigError(
                f"{file} is damaged: {member.name!r} is not a file of this backup; take another "
                "backup. Nothing was changed"
            )
        if hashlib.file_digest(content, "sha256").hexdigest() != expected:  # type: ignore[arg-type]
            raise ConfigError(
                f"{file} is damaged: {member.name} has another digest; take another backup. "
                "Nothing was changed"
            )
        names.add(member.name)
    return names
