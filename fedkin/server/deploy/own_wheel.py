"""Builds a wheel from the files of the installed fedkin, without a network or a build tool."""

from __future__ import annotations

import base64
import hashlib
import zipfile
from importlib.metadata import PackageNotFoundError, distribution
from io import BytesIO
from pathlib import Path
from typing import Any

from fedkin import __version__
from fedkin.core.errors import ConfigError

_PACKAGE = Path(__file__).resolve().parents[2]
_TIME = (1980, 1, 1, 0, 0, 0)  # timestamp of every file, so that equal files give equal bytes
_WHEEL = "Wheel-Version: 1.0\nGenerator: fedkin\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
_CURE = "install fedkin again (in a checkout: pip install --editable .)"


def wheel_name() -> str:
    """Name of the wheel's file."""
    return f"fedkin-{__version__}-py3-none-any.whl"


def own_wheel() -> bytes:
    """The content of a wheel with the running fedkin, from a checkout or an installation.

    Raises:
        ConfigError: fedkin is not installed, or its metadata describe another version.
    """
    members = {**_package_files(), **_metadata_files(_installed())}
    record = f"fedkin-{__version__}.dist-info/RECORD"
    lines = [_record_line(name, content) for name, content in members.items()]
    members[record] = "".join([*lines, f"{record},,\n"]).encode()
    buffer = BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            information = zipfile.ZipInfo(name, _TIME)
            information.compress_type = zipfile.ZIP_DEFLATED
            information.external_attr = 0o644 << 16
            archive.writestr(information, content)
    return buffer.getvalue()


# The return type is not Distribution: if the backport importlib_metadata is imported, the object
# has that package's class.
def _installed() -> Any:
    """The metadata of the installed fedkin. Raises ConfigError if it has another version."""
    try:
        installed = distribution("fedkin")
    except PackageNotFoundError:
        message = f"fedkin is imported from {_PACKAGE}, but it is not installed, so no wheel of it"
        raise ConfigError(f"{message} can be made for the containers: {_CURE}") from None
    if installed.version != __version__:
        message = (
            f"the installed metadata are of fedkin {installed.version}, the code is {__version__}"
        )
        raise ConfigError(f"{message}, so no wheel can be made for the containers: {_CURE}")
    return installed


def _package_files() -> dict[str, bytes]:
    """The content of the package's files, by their names in a wheel."""
    paths = sorted(path for path in _PACKAGE.rglob("*") if path.is_file())
    kept = [path for path in paths if "__pycache__" not in path.parts]
    return {path.relative_to(_PACKAGE.parent).as_posix(): path.read_bytes() for path in kept}


def _metadata_files(installed: Any) -> dict[str, bytes]:
    """The content of the installed fedkin's metadata files, by their names in a wheel."""
    folder = f"fedkin-{__version__}.dist-info"
    texts = {name: installed.read_text(name) for name in ("METADATA", "entry_points.txt")}
    if None in texts.values():
        raise ConfigError(f"the metadata of the installed fedkin are damaged: {_CURE}")
    texts["WHEEL"] = _WHEEL
    return {f"{folder}/{name}": (text or "").encode() for name, text in texts.items()}


def _record_line(name: str, content: bytes) -> str:
    """A line of the wheel's RECORD file: name, digest and size of one file."""
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
    return f"{name},sha256={digest},{len(content)}\n"
