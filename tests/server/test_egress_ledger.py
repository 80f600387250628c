"""The file of a site's ledger: locked, synced, rotated, and mended after a kill."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from filelock import FileLock

from fedkin.core import storage
from fedkin.core.errors import StorageError
from fedkin.security.line_chain import START, parse_line, read_chain
from fedkin.server import egress_ledger
from fedkin.server.egress_ledger import LEDGER, SiteLedger, Tail


def write(ledger: SiteLedger, count: int = 1, run: str = "north", round: int = 1) -> None:
    for _ in range(count):
        with ledger.writing() as tail:
            ledger.append(tail, {"run": run, "round": round, "bytes": 10 + tail.seq})


def test_lines_form_a_chain(tmp_path: Path) -> None:
    ledger = SiteLedger(tmp_path / "site-0")
    assert ledger.files() == [] and ledger.lines() == [] and ledger.torn() == 0
    with ledger.writing() as tail:
        assert tail == Tail(0, START, 0)
    write(ledger, 3)
    chain = read_chain(ledger.lines())
    assert chain.broken is None and len(chain.lines) == 3
    # Another process goes on where this one ended.
    with SiteLedger(tmp_path / "site-0").writing() as tail:
        assert tail == Tail(3, chain.head, 0)


def test_a_full_file_is_followed_by_another(tmp_path: Path) -> None:
    ledger = SiteLedger(tmp_path, largest=300)
    write(ledger, 9)
    names = [path.name for path in ledger.files()]
    assert names == ["egress-000000000000.jsonl", "egress-000000000003.jsonl", LEDGER]
    lines = ledger.lines()
    assert read_chain(lines).broken is None and len(lines) == 9
    second = parse_line((tmp_path / names[1]).read_bytes().splitlines()[0])
    last_of_first = parse_line((tmp_path / names[0]).read_bytes().splitlines()[-1])
    assert second is not None and last_of_first is not None
    assert second.entries["prev"] == last_of_first.digest
    # The site was killed after the rename: the chain goes on from the file before.
    os.replace(tmp_path / LEDGER, tmp_path / "egress-000000000006.jsonl")
    write(ledger)
    assert read_chain(ledger.lines()).broken is None and len(ledger.lines()) == 10


def test_a_full_file_never_replaces_another(tmp_path: Path) -> None:
    ledger = SiteLedger(tmp_path, largest=300)
    write(ledger, 4)
    oldest = tmp_path / "egress-000000000000.jsonl"
    kept = oldest.read_bytes()
    last = ledger.lines()[-1] + b"\n"
    # The first line of the full file is damaged, so its name is unknown.
    ledger.path.write_bytes(b"x" * 400 + b"\n" + last)
    with pytest.raises(StorageError, match=r"first line of .*egress.jsonl is damaged.*\bmv "):
        write(ledger)
    assert oldest.read_bytes() == kept and ledger.path.read_bytes().startswith(b"xxx")
    # An older file has this name already.
    again = kept + last
    ledger.path.write_bytes(again)
    with pytest.raises(StorageError, match=r"is full, but .*0000\.jsonl exists.*\bmv "):
        write(ledger)
    assert oldest.read_bytes() == kept and ledger.path.read_bytes() == again


def test_an_incomplete_line_is_removed_and_counted(tmp_path: Path) -> None:
    ledger = SiteLedger(tmp_path)
    write(ledger, 2)
    whole = ledger.path.read_bytes()
    ledger.path.write_bytes(whole + b'{"bytes":1')
    assert ledger.torn() == 10 and len(ledger.lines()) == 2
    with ledger.writing() as tail:
        assert (tail.seq, tail.torn) == (2, 10)
    assert ledger.path.read_bytes() == whole
    # The first line of all was not complete.
    ledger.path.write_bytes(b'{"by')
    with ledger.writing() as tail:
        assert tail == Tail(0, START, 4)


def test_nothing_follows_a_damaged_line(tmp_path: Path) -> None:
    ledger = SiteLedger(tmp_path)
    write(ledger, 2)
    with ledger.path.open("ab") as file:
        file.write(b"\n")
    with pytest.raises(StorageError, match=r"last line of .*egress.jsonl is damaged.*\bmv ") as e:
        write(ledger)
    assert "damaged-egress.jsonl" in str(e.value)
    assert len(ledger.lines()) == 3


def test_a_line_that_cannot_be_written_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Full(storage.FileSystem):
        def sync(self, path: Path) -> None:
            raise OSError(28, "No space left on device")

    ledger = SiteLedger(tmp_path)
    monkeypatch.setattr(storage, "file_system", Full())
    with pytest.raises(StorageError, match="No space left"):
        write(ledger)
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match=r"Not a directory|File exists"):
        write(SiteLedger(tmp_path / "file"))


def test_another_process_that_never_ends_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(egress_ledger, "_TIMEOUT", 0.01)
    with (
        FileLock(tmp_path / ".egress.lock"),
        pytest.raises(StorageError, match="no message can be sent; restart the site"),
    ):
        write(SiteLedger(tmp_path))


def test_bytes_of_a_round(tmp_path: Path) -> None:
    ledger = SiteLedger(tmp_path)
    write(ledger, 2)
    write(ledger, 2, round=2)
    write(ledger, 1, run="south")
    with ledger.path.open("ab") as file:
        file.write(b"damaged\n")
    assert ledger.bytes_of_round("north", 1) == 10 + 11
    assert ledger.bytes_of_round("north", 2) == 12 + 13
    assert ledger.bytes_of_round("south", 1) == 14
    assert ledger.bytes_of_round("south", 2) == 0


@pytest.mark.parametrize("entries", [{}, {"bytes": "7"}, {"bytes": True}])
def test_bytes_of_a_round_with_a_line_that_has_none(tmp_path: Path, entries: dict) -> None:
    ledger = SiteLedger(tmp_path)
    write(ledger)
    with ledger.writing() as tail:
        ledger.append(tail, {"run": "north", "round": 1, **entries})
    with pytest.raises(StorageError, match=r"line 1 of the ledger .*fedkin egress verify"):
        ledger.bytes_of_round("north", 1)
    assert ledger.bytes_of_round("north", 2) == 0


def test_the_folder_is_synced_with_a_new_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[Path] = []

    class Noted(storage.FileSystem):
        def sync(self, path: Path) -> None:
            synced.append(path)
            super().sync(path)

    monkeypatch.setattr(storage, "file_system", Noted())
    ledger = SiteLedger(tmp_path)
    write(ledger, 2)
    assert synced == [ledger.path, tmp_path, ledger.path]
