"""Files are whole or absent."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from fedkin.core.errors import ConfigError, StorageError
from fedkin.core.storage import (
    WRITTEN_BY,
    append_line,
    check_output,
    complete_lines,
    drop_torn_line,
    file_system,
    force_to_disk,
    storage_errors,
    toml_text,
    user_path,
    write_atomic,
)
from tests.full_disk import no_file_longer_than


def test_a_file_is_replaced_as_a_whole(tmp_path: Path) -> None:
    write_atomic(tmp_path / "a", "old")
    write_atomic(tmp_path / "a", b"new")
    assert (tmp_path / "a").read_bytes() == b"new"
    assert [p.name for p in tmp_path.iterdir()] == ["a"]


def test_a_full_disk_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    write_atomic(tmp_path / "a", "old")
    with (
        no_file_longer_than(100),
        pytest.raises(StorageError, match=r"cannot write .*a: File too large"),
    ):
        write_atomic(tmp_path / "a", "x" * 1000)
    assert (tmp_path / "a").read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["a"]


def test_a_line_that_does_not_fit_is_taken_back(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    append_line(path, "first")
    with no_file_longer_than(100), pytest.raises(StorageError):
        append_line(path, "x" * 1000)
    append_line(path, "second")
    assert path.read_text() == "first\nsecond\n"


def test_no_space_left_is_named_in_the_systems_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(descriptor: int) -> Any:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(
        StorageError, match="No space left on device; free some space or choose another folder"
    ):
        write_atomic(tmp_path / "a", "text")
    assert not list(tmp_path.iterdir())


def test_a_missing_folder_is_a_storage_error(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="No such file or directory"):
        write_atomic(tmp_path / "nowhere" / "a", "text")


def test_a_torn_last_line_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    path.write_bytes(b"one\ntwo\nthr")
    assert complete_lines(path) == ["one", "two"]
    assert complete_lines(tmp_path / "nothing") == []
    path.write_bytes(b"torn")
    assert complete_lines(path) == []


def test_a_torn_last_line_is_cut_off_before_the_next(tmp_path: Path) -> None:
    """A line that is added goes on from a whole one, in files that are torn, empty, whole or not
    there."""
    path = tmp_path / "lines"
    for before, kept in (
        (b"one\ntwo\nthr", b"one\ntwo\n"),
        (b"torn", b""),
        (b"", b""),
        (b"one\n", b"one\n"),
    ):
        path.write_bytes(before)
        drop_torn_line(path)
        assert path.read_bytes() == kept
    drop_torn_line(tmp_path / "nothing")
    assert not (tmp_path / "nothing").exists()


def test_the_innermost_path_is_named(tmp_path: Path) -> None:
    with pytest.raises(StorageError) as inner, storage_errors(tmp_path / "outer"):
        write_atomic(tmp_path / "nowhere" / "a", "text")
    assert "nowhere" in str(inner.value) and "outer" not in str(inner.value)


def test_bytes_added_to_a_file_are_forced_to_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "lines"
    synced = []
    append_line(path, "first")
    with monkeypatch.context() as disk:
        disk.setattr(file_system, "sync", synced.append)
        force_to_disk(path)
    assert synced == [path]
    with pytest.raises(
        StorageError,
        match=r"cannot write .*nothing: No such file or directory; choose another folder",
    ):
        force_to_disk(tmp_path / "nothing")


def test_a_file_that_cannot_be_read_is_not_one_that_cannot_be_written(tmp_path: Path) -> None:
    with (
        pytest.raises(StorageError, match=r"^cannot read .*: Is a directory$"),
        storage_errors(tmp_path, "read"),
    ):
        tmp_path.read_bytes()


def test_a_path_of_a_user_begins_at_the_home_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert user_path("~/t.csv") == tmp_path / "t.csv" and user_path(Path("~")) == tmp_path
    assert user_path("a/~/t.csv") == Path("a/~/t.csv") and user_path("") == Path()
    assert user_path("C:/t.csv") == Path("C:/t.csv")  # one letter is a drive


@pytest.mark.parametrize(
    "address", ["https://example.org/t.csv", "s3://bucket/t.csv", "hdfs://host/t"]
)
def test_an_address_is_no_path(address: str) -> None:
    for given in (address, Path(address)):
        with pytest.raises(
            ConfigError, match=f"{address}: expected a path on this machine, got an address"
        ):
            user_path(given)


def test_only_own_files_are_replaced(tmp_path: Path) -> None:
    target = tmp_path / "my table.csv"
    check_output(target)
    target.touch()
    check_output(target)
    target.write_text("prediction,probability_a\n")
    check_output(target, begins="prediction,")
    with pytest.raises(StorageError, match=r"my table\.csv exists and .*rm '.*my table"):
        check_output(target)
    with pytest.raises(StorageError, match="is read by this command"):
        check_output(target, [target], begins="prediction,")
    (tmp_path / "link.csv").symlink_to(target)
    with pytest.raises(StorageError, match=r"link\.csv is read by this command"):
        check_output(tmp_path / "link.csv", [target], begins="prediction,")
    with pytest.raises(StorageError, match="is a folder; name a file in it"):
        check_output(tmp_path)
    target.write_text(f"<meta content='{WRITTEN_BY}'>")
    check_output(target)


def test_toml_may_begin_with_a_byte_order_mark(tmp_path: Path) -> None:
    file = tmp_path / "c.toml"
    file.write_bytes(b'\xef\xbb\xbfname = "K\xc3\xb6ln"\n')
    assert toml_text(file) == 'name = "Köln"\n'
    write_atomic(file, os.fsdecode(b"r\xe4"))
    assert toml_text(file) == os.fsdecode(b"r\xe4")


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-be"])
def test_toml_in_utf_16_is_refused_with_a_cure(encoding: str, tmp_path: Path) -> None:
    file = tmp_path / "c.toml"
    file.write_text("\ufeff" * (encoding == "utf-16-be") + 'name = "a"', encoding=encoding)
    with pytest.raises(ValueError, match=r"text in UTF-16.*save it as UTF-8"):
        toml_text(file)
