"""Checks of a site's ledger: its chain, and the replies that a server has received.

Every byte that a server counted must be explained by a line of the ledger: the same number, digest
and size.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from fedkin.core.errors import ConfigError
from fedkin.core.object_repr import listed
from fedkin.security.line_chain import ChainedLine, LineChain, parse_line, read_chain
from fedkin.server.egress_outbox import COUNTED
from fedkin.server.egress_receipts import Receipt

_SHOWN = 10  # most faults of a kind that are listed one by one


@dataclass(frozen=True)
class LedgerCheck:
    """The result of a check.

    Attributes:
        site: name of the site; empty for a ledger without lines.
        lines: number of lines.
        head: digest of the last line.
        bytes_by_kind: bytes of the lines of each kind, such as ``reply``.
        faults: one sentence for each difference; empty for a sound ledger.
        notes: one sentence for each fact that is no fault, such as a line whose message the server
            has not received.
        received: number of messages that the server has received from the site; None if the ledger
            was not compared with a run.
        received_bytes: bytes of these messages, as the transport counted them.
        explained_bytes: bytes of these messages that lines of the ledger explain.
        undelivered: numbers of the lines whose messages the server has not received.
    """

    site: str
    lines: int
    head: str
    bytes_by_kind: dict[str, int]
    faults: tuple[str, ...]
    notes: tuple[str, ...] = ()
    received: int | None = None
    received_bytes: int = 0
    explained_bytes: int = 0
    undelivered: tuple[int, ...] = ()

    @property
    def is_sound(self) -> bool:
        """Whether the check found no fault."""
        return not self.faults


def check_lines(lines: Sequence[bytes], torn: int = 0) -> tuple[LedgerCheck, LineChain]:
    """Check the chain of a ledger's lines.

    Args:
        lines: the lines as written, without their ends.
        torn: bytes of a last line that is not complete.

    Returns:
        The result, and the chain up to its first break.
    """
    chain = read_chain(lines)
    faults = []
    if chain.broken is not None:
        faults.append(f"line {chain.broken.position} {chain.broken.reason}")
    faults += _damaged_entries(chain.lines)
    notes = []
    if torn:
        notes.append(
            f"the last line is not complete ({torn} bytes): the site was killed while it wrote the "
            "line, so the message was never sent"
        )
    kinds = Counter[str]()
    for line in chain.lines:
        kinds[str(line.entries.get("kind"))] += _size(line)
    check = LedgerCheck(
        site=_site_of(lines),
        lines=len(lines),
        head=chain.head,
        bytes_by_kind=dict(kinds),
        faults=tuple(faults),
        notes=tuple(notes),
    )
    return check, chain


def check_against(
    lines: Sequence[bytes], receipts: Iterable[Receipt], run: str, torn: int = 0
) -> LedgerCheck:
    """Check a ledger, and compare it with the replies that a server has received.

    Args:
        lines: the lines as written, without their ends.
        receipts: the server's receipts of all sites.
        run: name of the run's folder, for messages.
        torn: bytes of a last line that is not complete.

    Raises:
        ConfigError: the ledger belongs to another run or another site.
    """
    check, chain = check_lines(lines, torn)
    receipts = list(receipts)
    of_site = [receipt for receipt in receipts if receipt.site == check.site]
    _refuse_other(check=check, chain=chain, of_site=of_site, receipts=receipts, run=run)
    comparison = _Comparison(chain, of_site)
    return replace(
        check,
        faults=(*check.faults, *comparison.faults()),
        notes=(*check.notes, *comparison.notes()),
        received=len(of_site),
        received_bytes=sum(receipt.bytes for receipt in of_site),
        explained_bytes=comparison.explained_bytes,
        undelivered=tuple(comparison.undelivered),
    )


class _Comparison:
    """Compares the lines of a ledger with the receipts of its site."""

    def __init__(self, chain: LineChain, receipts: Sequence[Receipt]) -> None:
        self._lines = {line.entries["seq"]: line for line in chain.lines}
        self.explained_bytes = 0
        self._unknown: list[str] = []
        seen = Counter[int]()
        for receipt in receipts:
            reason = self._difference(receipt)
            if reason:
                self._unknown.append(reason)
            else:
                self.explained_bytes += receipt.bytes
                seen[receipt.seq] += 1
        self._repeated = sorted(seq for seq, count in seen.items() if count > 1)
        self.undelivered = [seq for seq in self._of_run(receipts) if seq not in seen]
        last = max(receipt.seq for receipt in receipts)
        told = set(self.undelivered)
        self._uncovered = sorted(seq for seq in self._lines if seq > last and seq not in told)

    def faults(self) -> list[str]:
        """One sentence for each reply that no line explains."""
        return _shortened(self._unknown, "further replies that no line explains")

    def notes(self) -> list[str]:
        """Sentences about replies that were not received, or received twice."""
        notes = [
            f"line {seq} was written, but the server has not received its message "
            f"({self._lines[seq].entries.get('operation')}, {_size(self._lines[seq]):,} bytes)"
            for seq in self.undelivered
        ]
        notes = _shortened(notes, "further lines whose messages the server has not received")
        if self._repeated:
            names = listed([str(seq) for seq in self._repeated[:_SHOWN]])
            notes.append(f"the server has received the message of line {names} more than once")
        if self._uncovered:
            names = listed([str(seq) for seq in self._uncovered[:_SHOWN]])
            notes.append(
                f"lines after the last receipt are not covered by the server's receipts: {names} "
                f"({len(self._uncovered):,} in all)"
            )
        return notes

    def _of_run(self, receipts: Sequence[Receipt]) -> list[int]:
        """Numbers of the lines with messages that the server should have received. Lines of other
        runs are not among them. A handshake names no run, so those between others count."""
        runs = {receipt.run for receipt in receipts} - {""}
        # A message that names no line has a number below 0.
        first = min((receipt.seq for receipt in receipts if receipt.seq >= 0), default=0)
        named = [seq for seq, line in self._lines.items() if line.entries.get("run") in runs]
        last = max(named, default=max(self._lines, default=0))
        found = []
        for seq, line in self._lines.items():
            run = line.entries.get("run")
            is_of_run = run in runs or (not run and first <= seq <= last)
            if is_of_run and line.entries.get("kind") in COUNTED:
                found.append(seq)
        return found

    def _difference(self, receipt: Receipt) -> str:
        """The reason why no line explains a reply; empty if one does."""
        words = f"{receipt.operation} of round {receipt.round}, {receipt.bytes:,} bytes"
        if receipt.seq < 0:
            return f"the server has received a message that names no line ({words})"
        line = self._lines.get(receipt.seq)
        if line is None:
            return (
                f"the server has received the message of line {receipt.seq}, which is missing or "
                f"comes after the first fault ({words})"
            )
        if line.digest != receipt.head:
            return f"line {receipt.seq} is not the line that was sent to the server ({words})"
        if line.entries.get("sha256") != receipt.sha256 or _size(line) != receipt.bytes:
            return f"the message of line {receipt.seq} arrived with other bytes ({words})"
        return ""


def _refuse_other(
    check: LedgerCheck,
    chain: LineChain,
    of_site: Sequence[Receipt],
    receipts: Sequence[Receipt],
    run: str,
) -> None:
    """Raise ConfigError if a ledger belongs to another site or run than the receipts."""
    if not of_site:
        names = sorted({receipt.site for receipt in receipts})
        raise ConfigError(
            f"{run} has received nothing from {check.site!r}, but from "
            f"{listed(names) or 'no site'}; name the run of this site, or its server's folder"
        )
    of_ledger = {str(line.entries.get("run")) for line in chain.lines} - {""}
    of_run = {receipt.run for receipt in of_site} - {""}
    if of_ledger and of_run and not of_ledger & of_run:
        raise ConfigError(
            f"the ledger is of another run: it has messages of {listed(sorted(of_ledger))}, but "
            f"{run} has received messages of {listed(sorted(of_run))}; name the folder of the run"
        )


def _site_of(lines: Iterable[bytes]) -> str:
    """The name of the site in the last line that names one; empty without such a line."""
    name = ""
    for line in lines:
        parsed = parse_line(line)
        if parsed is not None:
            name = str(parsed.entries.get("site", "")) or name
    return name


def _damaged_entries(lines: Iterable[ChainedLine]) -> list[str]:
    """One sentence for each line of a whole chain whose entries cannot be fedkin's."""
    wrong = [
        f"line {line.entries['seq']} is damaged: it has no number of bytes"
        for line in lines
        if type(line.entries.get("bytes")) is not int
    ]
    return _shortened(wrong, "further damaged lines")


def _size(line: ChainedLine) -> int:
    """The bytes of a line's message; 0 for a line that does not say them."""
    value: Any = line.entries.get("bytes")
    return value if type(value) is int else 0


def _shortened(sentences: list[str], words: str) -> list[str]:
    """The first sentences of a list, and a sentence with the number of the others."""
    if len(sentences) <= _SHOWN:
        return sentences
    return [*sentences[:_SHOWN], f"{len(sentences) - _SHOWN:,} {words}"]
