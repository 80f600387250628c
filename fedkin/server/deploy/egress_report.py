"""``fedkin egress``: checks, shows and signs the ledger of a site."""

from __future__ import annotations

import datetime
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from fedkin.config.server import load_server
from fedkin.core.errors import ConfigError
from fedkin.core.storage import check_output, storage_errors, write_atomic
from fedkin.run.folder.run_folder import AGAINST, read_records
from fedkin.security import statements
from fedkin.security.line_chain import parse_line, read_chain
from fedkin.security.statements import Statement
from fedkin.server.deploy import deployment_folder as files
from fedkin.server.egress_check import LedgerCheck, check_against, check_lines
from fedkin.server.egress_ledger import LEDGER, SiteLedger, time_text
from fedkin.server.egress_receipts import Receipt, read_receipts, receipts_file

PREDICATE = "https://fedkin.example/egress/v1"  # meaning of the predicate of a signed statement
STATEMENT_FILE = "egress-statement.json"
_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


class RunBytes(NamedTuple):
    """The bytes that a run's own ledger counts, and the bytes of its receipts, of all sites."""

    counted: int
    received: int

    def sentence(self) -> str:
        """The comparison in words."""
        if self.counted == self.received:
            return f"the run counted {self.counted:,} bytes from all sites, and has all receipts"
        more = self.received - self.counted
        return (
            f"the run counted {self.counted:,} bytes from all sites, and has receipts of "
            f"{more:,} more (rounds that were repeated after a restart, or have not ended)"
        )


def site_ledger(site: Path) -> SiteLedger:
    """The ledger of a site. Raises ConfigError if there is none.

    Args:
        site: folder of the site, or its file egress.jsonl.
    """
    folder = site.parent if site.name == LEDGER else site
    ledger = SiteLedger(folder)
    if not ledger.files():
        raise ConfigError(
            f"{folder} has no {LEDGER}; name the folder of a site (with its client.toml) that has "
            "sent messages"
        )
    return ledger


def run_folder_of(run: Path) -> Path:
    """The folder of a run: the path itself, or the run of the deployment in this folder."""
    server = run / files.SERVER
    return Path(load_server(server).federation.folder) if server.exists() else run


def verify(site: Path, against: Path | None = None) -> tuple[LedgerCheck, RunBytes | None]:
    """Check the ledger of a site.

    Args:
        site: folder of the site.
        against: folder of the run, or of its deployment, whose receipts are compared; None: only
            the ledger's chain is checked.

    Returns:
        The result, and the bytes of the whole run if it was compared.

    Raises:
        ConfigError: a folder has no ledger or no receipts, or they belong to different runs.
        StorageError: a file cannot be read.
    """
    ledger = site_ledger(site)
    if against is None:
        return check_lines(ledger.lines(), ledger.torn())[0], None
    run = run_folder_of(against)
    path = receipts_file(run)
    if not path.exists():
        raise ConfigError(
            f"{run} has no receipts ({path}); name the run's folder at the server, or the folder "
            "of the deployment"
        )
    receipts = read_receipts(path)
    check = check_against(ledger.lines(), receipts, str(run), ledger.torn())
    return check, run_bytes(run, receipts)


def run_bytes(run: Path, receipts: list[Receipt]) -> RunBytes | None:
    """The bytes that a run's ledger counts, and those of its receipts; None without a record.

    Args:
        run: folder of the run, with the folders of compared methods.
        receipts: the receipts of all sites.
    """
    counted = 0
    found = False
    for folder in (run, *sorted(run.glob(f"{AGAINST}/*"))):
        records = read_records(folder)
        if records:
            found = True
            messages = records[-1].get("messages_by_operation", {})
            counted += sum(up for _, up in messages.values())
    if not found:
        return None
    return RunBytes(counted, sum(receipt.bytes for receipt in receipts))


def shown_lines(site: Path, since: str = "") -> Iterator[dict[str, Any]]:
    """The lines of a site's ledger, from a time on. A damaged line has only its position.

    Args:
        site: folder of the site.
        since: a date or time such as ``2026-11-27`` or ``2026-11-27T21:00:00Z``, or a duration up
            to now such as ``12h`` or ``7d``; empty: all lines.

    Raises:
        ConfigError: there is no ledger, or ``since`` is no time.
    """
    start = _start_time(since)
    for position, line in enumerate(site_ledger(site).lines()):
        parsed = parse_line(line)
        if parsed is None:
            yield {"seq": position, "kind": "damaged"}
        elif str(parsed.entries.get("time", "")) >= start:
            yield parsed.entries


def sign(site: Path, key: Path, out: Path | None = None) -> Path:
    """Write a signed statement about a site's ledger: its head, its number of lines and its bytes.

    Args:
        site: folder of the site.
        key: file of a private Ed25519 key.
        out: the new file; None: ``egress-statement.json`` in the site's folder.

    Raises:
        ConfigError: there is no ledger, it is broken, or the key cannot be used.
        StorageError: the file cannot be written.
    """
    ledger = site_ledger(site)
    private = statements.read_private_key(key)
    check, chain = check_lines(ledger.lines(), ledger.torn())
    if not check.is_sound:
        raise ConfigError(
            f"{ledger.path} is broken, so it is not signed: {check.faults[0]} (fedkin egress "
            "verify lists all faults)"
        )
    operations = Counter[str]()
    for line in chain.lines:
        operations[str(line.entries.get("operation"))] += line.entries["bytes"]
    statement = Statement(
        subject={LEDGER: check.head},
        predicate_type=PREDICATE,
        predicate={
            "site": check.site,
            "entries": check.lines,
            "bytes": sum(check.bytes_by_kind.values()),
            "bytesByOperation": dict(sorted(operations.items())),
            "first": chain.lines[0].entries.get("time") if chain.lines else None,
            "last": chain.lines[-1].entries.get("time") if chain.lines else None,
        },
    )
    path = ledger.folder / STATEMENT_FILE if out is None else out
    check_output(path, inputs=[key, *ledger.files()], begins='{"payload"')
    write_atomic(path, statements.sign(statement, private) + "\n")
    return path


def verify_statement(site: Path, file: Path, key: Path) -> Statement:
    """Check a signed statement, and that a site's ledger still begins with the lines that it is
    about.

    Args:
        site: folder of the site.
        file: file of the statement.
        key: file of the signer's public key.

    Raises:
        ConfigError: the signature is not by this key, the statement is about something else, or the
            ledger has other lines.
    """
    lines = site_ledger(site).lines()
    public = statements.read_public_key(key)
    with storage_errors(file, "read"):
        envelope = file.read_bytes()
    statement = statements.verify(envelope, public, str(file))
    entries = statement.predicate.get("entries")
    if statement.predicate_type != PREDICATE or type(entries) is not int or entries < 1:
        raise ConfigError(f"{file}: is a statement about something else than a ledger of a site")
    signed = read_chain(lines[:entries])
    is_whole = len(signed.lines) == entries and signed.broken is None
    if not is_whole or signed.head != statement.subject.get(LEDGER):
        raise ConfigError(
            f"{file}: the ledger of {site} does not begin with the {entries:,} lines that were "
            "signed; a line was changed or removed since, or the statement is of another site"
        )
    return statement


def sentences(check: LedgerCheck) -> list[str]:
    """The result of a check in words."""
    total = sum(check.bytes_by_kind.values())
    kinds = ", ".join(f"{kind} {size:,}" for kind, size in sorted(check.bytes_by_kind.items()))
    lines = [f"{check.site}: {check.lines:,} lines, {total:,} bytes ({kinds or 'none'})"]
    if check.received is not None:
        share = 100 * check.explained_bytes / max(check.received_bytes, 1)
        lines.append(
            f"the server has received {check.received:,} messages with "
            f"{check.received_bytes:,} bytes; the ledger explains {check.explained_bytes:,} "
            f"({share:.4g}%)"
        )
    lines += [f"note: {note}" for note in check.notes]
    lines += [f"FAULT: {fault}" for fault in check.faults]
    lines.append("no fault was found" if check.is_sound else "the ledger is not sound")
    return lines


def _start_time(since: str) -> str:
    """A time in the form of a ledger's lines. Raises ConfigError for a text that is no time."""
    if not since:
        return ""
    duration = re.fullmatch(r"(\d{1,6})([mhdw])", since)
    now = datetime.datetime.now(datetime.UTC)
    try:
        if duration is not None:
            start = now - datetime.timedelta(**{_UNITS[duration[2]]: int(duration[1])})
        else:
            start = datetime.datetime.fromisoformat(since)
    except (ValueError, OverflowError) as error:
        raise ConfigError(
            f"--since {since}: expected a date or time such as 2026-11-27 or "
            "2026-11-27T21:00:00Z, or a duration such as 12h or 7d"
        ) from error
    if start.tzinfo is None:
        start = start.replace(tzinfo=datetime.UTC)
    return time_text(start.timestamp())
