"""Backups of deployments: what they hold, and that a restore is whole or does nothing."""

from __future__ import annotations

import io
import shutil
import sqlite3
import stat
import sys
import tarfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

pytest.importorskip("cryptography", reason="keys need pip install 'fedkin[flower]'")
from fedkin.core.errors import ConfigError, StorageError
from fedkin.server.deploy import backup as backup_module
from fedkin.server.deploy import restore as restore_module
from fedkin.server.deploy.backup import backup
from fedkin.server.deploy.backup_archive import MANIFEST, read_backup
from fedkin.server.deploy.init import init
from fedkin.server.deploy.place import recorded_folder
from fedkin.server.deploy.processes import SITE, Program, start, stop
from fedkin.server.deploy.restore import restore
from fedkin.server.deploy.sites import remove, rotate


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two sites with keys, a run at round 7, a database, and files that no backup needs."""
    folder = init(tmp_path_factory.mktemp("deploy") / "fed", 2).folder
    (folder / "run/checkpoints").mkdir(parents=True)
    (folder / "run/checkpoints/round-000007.safetensors").write_bytes(b"seven")
    (folder / "run/metrics.jsonl").write_text("{}\n")
    (folder / ".run.registry").write_bytes(b"registry")
    with closing(sqlite3.connect(folder / "state.db")) as database, database:
        database.execute("create table node (name text)")
        database.execute("insert into node values ('site-0')")
    for name in ("server.log", ".deploy.lock", "state.db-wal", "site-0/site.log"):
        (folder / name).write_text("left out")
    (folder / "site-0/client.worker").mkdir()
    (folder / "site-0/client.worker/socket").write_text("left out")
    (folder / "state.db-wal").unlink()
    return folder


@pytest.fixture
def fed(original: Path, tmp_path: Path) -> Path:
    folder = Path(shutil.copytree(original, tmp_path / "fed"))
    for name in ("app/pyproject.toml", "flwr/config.toml"):
        path = folder / name
        path.write_text(path.read_text().replace(str(original), str(folder)))
    return folder


@pytest.fixture
def saved(fed: Path) -> Path:
    file = fed.with_name("fed.tar")
    backup(fed, file, say=quiet)
    return file


def quiet(line: str) -> None:
    """Say nothing."""


def content(folder: Path) -> dict[str, tuple[bytes, int]]:
    """The content and the mode of each file, but for the database and files that are left out."""
    found = {}
    for path in folder.rglob("*"):
        name = path.relative_to(folder).as_posix()
        if path.is_file() and not name.endswith((".log", ".lock", "socket", "state.db")):
            found[name] = (path.read_bytes(), stat.S_IMODE(path.stat().st_mode))
    return found


def test_a_restored_folder_has_the_same_files_and_modes(fed: Path, saved: Path) -> None:
    before = content(fed)
    assert stat.S_IMODE(saved.stat().st_mode) == 0o600
    fed.rename(fed.with_name("gone"))
    said: list[str] = []
    manifest = restore(saved, fed, say=said.append)
    assert content(fed) == before and before["site-0/key"][1] == 0o600
    assert manifest.round == 7 and "the run is at round 7" in said[0]
    names = manifest.digests.keys()
    assert {"run/metrics.jsonl", ".run.registry", "keys/ca-key.pem", "server.toml"} <= names
    assert not [name for name in names if name.endswith((".log", ".lock", "socket"))]
    with closing(sqlite3.connect(fed / "state.db")) as database:
        assert database.execute("select name from node").fetchall() == [("site-0",)]


def test_the_database_is_whole_while_another_process_writes(fed: Path) -> None:
    """What a SuperLink has committed to its write-ahead log is in the backup."""
    with closing(sqlite3.connect(fed / "state.db")) as database:
        database.execute("pragma journal_mode = wal")
        database.execute("insert into node values ('site-1')")
        database.commit()
        backup(fed, fed.with_name("fed.tar"), say=quiet)
    restore(fed.with_name("fed.tar"), fed.with_name("again"), say=quiet)
    with closing(sqlite3.connect(fed.with_name("again") / "state.db")) as database:
        assert database.execute("select count(*) from node").fetchone() == (2,)


def test_every_changed_byte_of_a_file_is_found_and_nothing_is_written(saved: Path) -> None:
    with tarfile.open(saved) as archive:
        places = {member.name: member.offset_data for member in archive if member.size}
    data = saved.read_bytes()
    assert len(places) > 10
    for name, place in places.items():
        damaged = bytearray(data)
        damaged[place] ^= 1
        saved.write_bytes(damaged)
        with pytest.raises(ConfigError, match="is damaged"):
            restore(saved, saved.with_name("new"), say=quiet)
        assert not saved.with_name("new").exists(), name


@pytest.mark.parametrize("share", [0.0, 0.3, 0.9])
def test_a_backup_that_was_cut_off_is_refused(saved: Path, share: float) -> None:
    data = saved.read_bytes()
    saved.write_bytes(data[: int(share * len(data))])
    with pytest.raises(ConfigError, match=r"fed\.tar is"):
        restore(saved, saved.with_name("new"), say=quiet)
    assert not saved.with_name("new").exists()


def test_another_archive_is_no_backup(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a")
    with tarfile.open(tmp_path / "a.tar", "w") as archive:
        archive.add(tmp_path / "a.txt", "a.txt")
    with pytest.raises(ConfigError, match=f"its first file is not {MANIFEST}"):
        read_backup(tmp_path / "a.tar")
    with pytest.raises(ConfigError, match="cannot be read: No such file"):
        read_backup(tmp_path / "b.tar")


@pytest.mark.parametrize("kind", ["outside", "link", "unlisted", "twice"])
def test_a_file_that_is_not_listed_or_leaves_the_folder_is_refused(saved: Path, kind: str) -> None:
    member = tarfile.TarInfo({"outside": "../evil", "twice": "server.toml"}.get(kind, "evil"))
    if kind == "link":
        member.type = tarfile.SYMTYPE
        member.linkname = "/etc/passwd"
    with tarfile.open(saved, "a") as archive:
        archive.addfile(member, io.BytesIO())
    with pytest.raises(ConfigError, match="is not a file of this backup"):
        restore(saved, saved.with_name("new"), say=quiet)
    assert not saved.with_name("new").exists() and not saved.with_name("evil").exists()


def test_a_backup_of_another_federation_is_refused(saved: Path, tmp_path: Path) -> None:
    other = init(tmp_path / "other", 2).folder
    before = content(other)
    with pytest.raises(ConfigError) as refused:
        restore(saved, other, say=quiet)
    message = str(refused.value)
    assert f"{saved} is a backup of federation 'trial' (authority " in message
    assert f"but {other} holds federation 'trial' (authority " in message
    assert f"fedkin deploy restore {saved} {other}-restored" in message
    assert content(other) == before


def test_a_federation_without_keys_is_known_by_its_name(tmp_path: Path) -> None:
    for name in ("north", "south"):
        settings = [f"federation.name={name}"]
        init(tmp_path / name, 1, secure=False, settings=settings)
    backup(tmp_path / "north", tmp_path / "north.tar", say=quiet)
    with pytest.raises(ConfigError, match=r"'north' .without keys.*holds federation 'south'"):
        restore(tmp_path / "north.tar", tmp_path / "south", say=quiet)
    restore(tmp_path / "north.tar", tmp_path / "north", say=quiet)


def test_a_folder_with_other_files_is_refused(saved: Path, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/thesis.tex").write_text("mine")
    with pytest.raises(ConfigError, match="holds no deployment; name another folder"):
        restore(saved, tmp_path / "mine", say=quiet)
    assert [*(tmp_path / "mine").iterdir()] == [tmp_path / "mine/thesis.tex"]
    (tmp_path / "empty").mkdir()
    restore(saved, tmp_path / "empty", say=quiet)
    assert (tmp_path / "empty/server.toml").exists()


def test_the_former_folder_is_kept_and_keys_that_are_valid_again_are_named(
    fed: Path, saved: Path
) -> None:
    (fed / "state.db").unlink()  # it has no key that Flower could revoke
    rotate(fed, "site-0", say=quiet)
    remove(fed, "site-1", say=quiet)
    later = content(fed)
    said: list[str] = []
    restore(saved, fed, say=said.append)
    (kept,) = fed.parent.glob("fed-before-*")
    assert content(kept) == later
    assert f"the former folder is kept as {kept}" in said
    again = [line.rpartition(": ")[2] for line in said if "is valid again" in line]
    assert again == [f"fedkin deploy rotate {fed} site-0", f"fedkin deploy remove {fed} site-1"]


def test_a_restore_that_fails_leaves_everything_as_it_was(
    fed: Path, saved: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = content(fed)
    extract = tarfile.TarFile.extractall

    def half(self: tarfile.TarFile, path: Path, members: list[tarfile.TarInfo], **how: str) -> None:
        extract(self, path, members[:5], filter="data")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(restore_module.tarfile.TarFile, "extractall", half)
    with pytest.raises(StorageError, match="free some space"):
        restore(saved, fed, say=quiet)
    with pytest.raises(StorageError, match="free some space"):
        restore(saved, fed.with_name("new"), say=quiet)
    assert content(fed) == before
    assert {path.name for path in fed.parent.iterdir()} == {"fed", "fed.tar"}


@pytest.mark.skipif(not Path("/proc/self/environ").is_file(), reason="processes are in /proc")
def test_a_running_deployment_is_not_replaced(fed: Path, saved: Path) -> None:
    part = Program(fed / "site-1", SITE)
    start(part, [sys.executable, "-c", "import time; time.sleep(600)"], {})
    try:
        with pytest.raises(ConfigError, match=r"site-1 of .* still run; stop them first"):
            restore(saved, fed, say=quiet)
    finally:
        stop([part], 0.0)


def test_a_folder_in_another_place_gets_its_path_and_a_copy_is_told_so(
    fed: Path, saved: Path
) -> None:
    said: list[str] = []
    restore(saved, fed.with_name("copy"), say=said.append)
    assert any(f"{fed} still holds this federation" in line for line in said)
    fed.rename(fed.with_name("gone"))
    restore(saved, fed.with_name("moved"), say=quiet)
    assert recorded_folder(fed.with_name("moved")) == fed.with_name("moved")


# --- writing a backup


def changing(fed: Path, times: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """Let a checkpoint be saved during the first so many copies."""
    write = backup_module._write_archive
    copies = 0

    def write_and_change(*arguments: object) -> bool:
        nonlocal copies
        copies += 1
        if copies <= times:
            path = fed / f"run/checkpoints/round-{7 + copies:06}.safetensors"
            path.write_bytes(b"next")
        return write(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(backup_module, "_write_archive", write_and_change)
    monkeypatch.setattr(backup_module.time, "sleep", lambda seconds: None)
    yield copies


def test_a_folder_that_changes_meanwhile_is_copied_again(
    fed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    next(changing(fed, 2, monkeypatch))
    manifest = backup(fed, fed.with_name("fed.tar"), say=quiet)
    assert manifest.round == 9 and "run/checkpoints/round-000009.safetensors" in manifest.digests
    assert read_backup(fed.with_name("fed.tar")) == manifest


def test_a_folder_that_always_changes_has_no_backup(
    fed: Path, saved: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = saved.read_bytes()
    next(changing(fed, 99, monkeypatch))
    with pytest.raises(StorageError, match="no backup was written; stop the run first"):
        backup(fed, saved, say=quiet)
    assert saved.read_bytes() == before
    assert {path.name for path in fed.parent.iterdir()} == {"fed", "fed.tar"}


def test_a_backup_does_not_replace_other_files(fed: Path, saved: Path) -> None:
    with pytest.raises(ConfigError, match="name a file elsewhere, such as"):
        backup(fed, fed / "fed.tar", say=quiet)
    (fed.parent / "thesis.tex").write_text("mine")
    with pytest.raises(StorageError, match="was not written by this command"):
        backup(fed, fed.parent / "thesis.tex", say=quiet)
    backup(fed, saved, say=quiet)


def test_data_can_be_left_out(tmp_path: Path) -> None:
    (tmp_path / "fed/site-0").mkdir(parents=True)
    (tmp_path / "fed/site-0/own.csv").write_text("a,y\n1,0\n2,1\n3,0\n4,1\n")
    table = ["data.name=file", "data.path=own.csv", "data.partition=iid", "data.clients=1"]
    init(tmp_path / "fed", 1, secure=False, settings=table)
    whole = backup(tmp_path / "fed", tmp_path / "a.tar", say=quiet)
    without = backup(tmp_path / "fed", tmp_path / "b.tar", data=False, say=quiet)
    assert whole.digests.keys() - without.digests.keys() == {"site-0/own.csv"}


def test_a_run_outside_the_deployment_is_refused(fed: Path) -> None:
    path = fed / "server.toml"
    path.write_text(path.read_text().replace("[federation]", '[federation]\nfolder = "/srv/run"'))
    with pytest.raises(ConfigError, match=r'federation\.folder is /srv/run.*folder = "run"'):
        backup(fed, fed.with_name("fed.tar"), say=quiet)


def test_a_site_on_its_own_machine_has_a_backup_too(fed: Path, tmp_path: Path) -> None:
    site = Path(shutil.copytree(fed / "site-0", tmp_path / "there/site-0"))
    before = content(site)
    backup(site, tmp_path / "site.tar", say=quiet)
    shutil.rmtree(site)
    restore(tmp_path / "site.tar", site, say=quiet)
    assert content(site) == before


def test_an_old_python_without_safe_extraction_is_refused(
    saved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(tarfile, "data_filter")
    with pytest.raises(ConfigError, match=r"needs Python 3\.11\.4 or newer"):
        restore(saved, tmp_path / "new", say=quiet)
    assert not (tmp_path / "new").exists()
