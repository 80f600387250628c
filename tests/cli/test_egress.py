"""The commands of ``fedkin egress``, on the ledgers of a small federation in memory."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
import tomli_w
from typer.testing import CliRunner

from fedkin.cli import app
from fedkin.config.server import load_server
from fedkin.security.line_chain import line_text
from fedkin.security.statements import Statement, read_private_key, sign
from fedkin.server.deploy import egress_report
from fedkin.server.deploy.run_server import serve
from fedkin.server.message import RpcMessage
from tests.refusals import refused
from tests.server.egress_sites import outbox_of, recorded
from tests.server.memory_transport import MemoryTransport
from tests.server.small_federations import clustered_data, model_of, node_of

pytest.importorskip("cryptography", reason="needs pip install 'fedkin[flower]'")
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

SITES = 3
SERVER = {
    "federation": {"name": "trial", "capacity": SITES, "wait_for": SITES},
    "samples": {"shape": [6], "classes": 6},
    "model": {"name": "mclr"},
    "method": {"name": "ifca", "clusters": 2},
    "run": {"rounds": 2, "cohort": SITES, "against": ["fedavg"]},
}


def said(*arguments: object) -> Any:
    return CliRunner().invoke(app, ["egress", *map(str, arguments)])


def served(folder: Path, **sections: Any) -> Path:
    """A deployment that has run, with its sites' folders."""
    folder.mkdir(exist_ok=True)
    (folder / "server.toml").write_text(tomli_w.dumps({**SERVER, **sections}))
    transport = MemoryTransport()
    data = clustered_data(SITES)
    for number in range(SITES):
        name = f"site-{number}"
        node = node_of(name, [number], data, model_of(SITES))
        transport.join(9 - number, recorded(lambda node=node: node, outbox_of(folder / name, name)))
    config = load_server(folder / "server.toml")
    serve(config, transport, transport.clock.time, transport.clock.sleep)
    return folder


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return served(tmp_path_factory.mktemp("egress") / "fed")


@pytest.fixture
def fed(finished: Path, tmp_path: Path) -> Path:
    """A copy that a test may change."""
    return Path(shutil.copytree(finished, tmp_path / "fed"))


def lines_of(folder: Path, number: int = 0) -> list[str]:
    return (folder / f"site-{number}" / "egress.jsonl").read_text().splitlines()


def write(folder: Path, lines: list[str], number: int = 0) -> None:
    path = folder / f"site-{number}" / "egress.jsonl"
    path.write_text("".join(f"{line}\n" for line in lines))


def test_all_bytes_of_a_run_are_explained(finished: Path) -> None:
    received = 0
    for number in range(SITES):
        for against in (finished, finished / "run"):
            result = said("verify", finished / f"site-{number}", "--against", against, "--json")
            assert result.exit_code == 0, result.output
        check = json.loads(result.output)
        assert (
            check["is_sound"] and check["undelivered"] == [] and check["site"] == f"site-{number}"
        )
        assert check["explained_bytes"] == check["received_bytes"] > 0
        assert check["run_bytes"]["counted"] == check["run_bytes"]["received"]
        assert check["run_bytes"]["counted"] > check["received_bytes"]
        assert check["statement"] is None
        received += check["received_bytes"]
    _, of_run = egress_report.verify(finished / "site-0", finished)
    assert of_run is not None and of_run.counted == of_run.received == received
    text = said("verify", finished / "site-0" / "egress.jsonl", "--against", finished).output
    assert "(100%)" in text and "no fault was found" in text
    assert f"the run counted {received:,} bytes from all sites, and has all receipts" in text
    assert "no fault was found" in said("verify", finished / "site-0").output


def test_a_run_that_was_repeated_has_more_receipts(fed: Path) -> None:
    path = fed / ".run.received.jsonl"
    path.write_text(path.read_text() + path.read_text().splitlines()[-1] + "\n")
    result = said("verify", fed / "site-0", "--against", fed)
    assert result.exit_code == 0 and "more (rounds that were repeated" in result.output
    shutil.rmtree(fed / "run")
    (fed / "run").mkdir()
    without = said("verify", fed / "site-0", "--against", fed)
    assert without.exit_code == 0 and "the run counted" not in without.output


def test_changes_are_found_and_end_with_status_1(fed: Path) -> None:
    lines = lines_of(fed)
    write(fed, [*lines[:2], lines[2].replace('"subjects":', '"subjects":1'), *lines[3:]])
    result = said("verify", fed / "site-0")
    assert result.exit_code == 1
    assert "FAULT: line 2 was changed" in result.output and "not sound" in result.output
    # A cut tail is found only with the server's receipts.
    write(fed, lines[:-1])
    assert said("verify", fed / "site-0").exit_code == 0
    result = said("verify", fed / "site-0", "--against", fed)
    assert result.exit_code == 1 and f"message of line {len(lines) - 1}, which" in result.output


def test_a_site_killed_before_it_sent_is_told(fed: Path) -> None:
    outbox = outbox_of(fed / "site-0", "site-0")
    line = json.loads(lines_of(fed)[-1])
    request = RpcMessage({"operation": "train", "run": line["run"], "round": 9})
    outbox.seal(request, RpcMessage())
    result = said("verify", fed / "site-0", "--against", fed)
    assert result.exit_code == 0
    assert "note: line" in result.output and "was written, but the server has not" in result.output
    path = fed / "site-0" / "egress.jsonl"
    path.write_bytes(path.read_bytes()[:-20])
    assert "was never sent" in said("verify", fed / "site-0").output


def test_what_cannot_be_compared_is_refused_by_name(fed: Path, tmp_path: Path) -> None:
    refused(said("verify", tmp_path), "has no egress.jsonl", "name the folder of a site")
    refused(said("verify", fed / "site-0", "--against", tmp_path), "has no receipts")
    other = served(tmp_path / "other")
    refused(said("verify", fed / "site-0", "--against", other), "the ledger is of another run")
    shutil.copytree(fed / "site-0", tmp_path / "renamed")
    text = (tmp_path / "renamed" / "egress.jsonl").read_text()
    (tmp_path / "renamed" / "egress.jsonl").write_text(text.replace('"site-0"', '"site-7"'))
    refused(
        said("verify", tmp_path / "renamed", "--against", fed), "received nothing from 'site-7'"
    )
    (fed / ".run.received.jsonl").write_text("{}\n")
    refused(said("verify", fed / "site-0", "--against", fed), "line 1 is damaged")
    write(fed, ["garbage", *lines_of(fed)])
    result = said("verify", fed / "site-0")
    assert result.exit_code == 1 and "line 0 is damaged" in result.output


def test_the_lines_are_shown(fed: Path) -> None:
    count = len(lines_of(fed))
    text = said("show", fed / "site-0").output
    assert f"{count} messages" in text and "handshake" in text and "train" in text
    lines = json.loads(said("show", fed / "site-0", "--json", "--since", "2d").output)
    assert len(lines) == count and lines[0]["operation"] == "hello"
    for since, expected in (("2999-01-01", 0), ("2020-01-01T00:00:00+02:00", count), ("1m", None)):
        shown = json.loads(said("show", fed / "site-0", "--json", "--since", since).output)
        assert expected is None or len(shown) == expected
    for since in ("yesterday", "999999w"):
        refused(said("show", fed / "site-0", "--since", since), "expected a date or time such as")
    write(fed, [lines_of(fed)[0], "garbage"])
    assert json.loads(said("show", fed / "site-0", "--json").output)[1] == {
        "seq": 1,
        "kind": "damaged",
    }


def keys(folder: Path) -> tuple[Path, Path]:
    """Files of a new key pair."""
    key = Ed25519PrivateKey.generate()
    private = folder / "key.pem"
    private.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    public = folder / "key.pub"
    public.write_bytes(
        key.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )
    )
    return private, public


def test_a_signed_statement(fed: Path, tmp_path: Path) -> None:
    private, public = keys(tmp_path)
    result = said("sign", fed / "site-0", "--key", private)
    assert result.exit_code == 0 and "signed" in result.output
    statement = fed / "site-0" / "egress-statement.json"
    assert said("sign", fed / "site-0", "--key", private).exit_code == 0  # it may be replaced
    count = len(lines_of(fed))
    options = ("--statement", statement, "--public-key", public)
    result = said("verify", fed / "site-0", *options)
    assert result.exit_code == 0 and f"the first {count} lines" in result.output
    signed = egress_report.verify_statement(fed / "site-0", statement, public).predicate
    total = sum(json.loads(line)["bytes"] for line in lines_of(fed))
    assert signed["entries"] == count and signed["bytes"] == total
    assert sum(signed["bytesByOperation"].values()) == total
    result = json.loads(said("verify", fed / "site-0", *options, "--json").output)
    assert result["statement"] == signed and result["run_bytes"] is None
    # The ledger may grow, but its signed lines may not change.
    shutil.copy(statement, tmp_path / "copy.json")
    write(fed, lines_of(fed)[:-1])
    refused(said("verify", fed / "site-0", *options), "does not begin with the", "lines that were")
    write(fed, lines_of(fed)[:-1] + ["garbage"])
    assert said("verify", fed / "site-0").exit_code == 1
    refused(said("sign", fed / "site-0", "--key", private), "is broken, so it is not signed")


def test_every_signed_line_is_checked(fed: Path, tmp_path: Path) -> None:
    """Not only the last one, whose digest the statement has."""
    private, public = keys(tmp_path)
    assert said("sign", fed / "site-0", "--key", private).exit_code == 0
    options = ("--statement", fed / "site-0" / "egress-statement.json", "--public-key", public)
    lines = lines_of(fed)
    first = {**json.loads(lines[0]), "bytes": 0}
    write(fed, [line_text(first), *lines[1:]])
    refused(said("verify", fed / "site-0", *options), "does not begin with the", "lines that were")
    write(fed, [*lines, "a line that is added later"])
    with_more = said("verify", fed / "site-0", *options).output
    assert "does not begin" not in with_more


def test_statements_about_other_things_are_refused(fed: Path, tmp_path: Path) -> None:
    private, public = keys(tmp_path)
    key = read_private_key(private)
    other = tmp_path / "other.json"
    for statement in (
        Statement({"egress.jsonl": "ab"}, "https://example.org", {"entries": 1}),
        Statement({"egress.jsonl": "ab"}, egress_report.PREDICATE, {"entries": 0}),
        Statement({"egress.jsonl": "ab"}, egress_report.PREDICATE, {}),
    ):
        other.write_text(sign(statement, key))
        options = ("--statement", other, "--public-key", public)
        refused(said("verify", fed / "site-0", *options), "is a statement about something else")
    long = Statement({"egress.jsonl": "ab"}, egress_report.PREDICATE, {"entries": 10**6})
    other.write_text(sign(long, key))
    refused(said("verify", fed / "site-0", *options), "does not begin with the 1,000,000 lines")
    refused(said("verify", fed / "site-0", "--statement", other), "belong together")
    os.remove(other)
    refused(said("verify", fed / "site-0", *options), "cannot read")
    mine = tmp_path / "notes.txt"
    mine.write_text("my notes")
    refused(said("sign", fed / "site-0", "--key", private, "--out", mine), "not overwritten")
