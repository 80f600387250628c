"""The wheel that goes into the containers: the files of fedkin, as pip installs them."""

from __future__ import annotations

import base64
import hashlib
import io
import zipfile
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from types import SimpleNamespace

import pytest

import fedkin
from fedkin.core.errors import ConfigError
from fedkin.server.deploy import own_wheel

PACKAGE = Path(fedkin.__file__).parent


@pytest.fixture(scope="module")
def members() -> dict[str, bytes]:
    """The members of the wheel by name."""
    archive = zipfile.ZipFile(io.BytesIO(own_wheel.own_wheel()))
    return {name: archive.read(name) for name in archive.namelist()}


def test_it_has_all_files_of_the_package_and_no_others(members: dict[str, bytes]) -> None:
    expected = {
        path.relative_to(PACKAGE.parent).as_posix()
        for path in PACKAGE.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert "fedkin/analysis/advise/field_benchmark.json" in expected
    assert {name for name in members if name.startswith("fedkin/")} == expected
    assert members["fedkin/__init__.py"] == (PACKAGE / "__init__.py").read_bytes()


def test_its_metadata_name_the_version_the_extras_and_the_command(
    members: dict[str, bytes],
) -> None:
    folder = f"fedkin-{fedkin.__version__}.dist-info"
    metadata = members[f"{folder}/METADATA"].decode()
    assert (
        f"\nVersion: {fedkin.__version__}\n" in metadata
        and "\nProvides-Extra: flower\n" in metadata
    )
    assert "fedkin = fedkin.cli:main" in members[f"{folder}/entry_points.txt"].decode()
    assert "Tag: py3-none-any" in members[f"{folder}/WHEEL"].decode()
    assert own_wheel.wheel_name() == f"fedkin-{fedkin.__version__}-py3-none-any.whl"


def test_its_record_has_the_digest_of_every_member(members: dict[str, bytes]) -> None:
    record = f"fedkin-{fedkin.__version__}.dist-info/RECORD"
    lines = [line.rsplit(",", 2) for line in members[record].decode().splitlines()]
    assert {name for name, _, _ in lines} == members.keys()
    for name, digest, size in lines:
        if name == record:
            assert digest == size == ""
            continue
        expected = (
            base64.urlsafe_b64encode(hashlib.sha256(members[name]).digest()).decode().rstrip("=")
        )
        assert digest == f"sha256={expected}" and int(size) == len(members[name])


def test_the_same_files_give_the_same_bytes() -> None:
    assert own_wheel.own_wheel() == own_wheel.own_wheel()


def test_without_an_installation_the_cure_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(own_wheel, "distribution", missing)
    with pytest.raises(ConfigError, match=r"not installed.*pip install --editable"):
        own_wheel.own_wheel()


def test_metadata_of_another_version_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_wheel, "distribution", lambda name: SimpleNamespace(version="0.0.9"))
    with pytest.raises(ConfigError, match=r"0\.0\.9.*install fedkin again"):
        own_wheel.own_wheel()
