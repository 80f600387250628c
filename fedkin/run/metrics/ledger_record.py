"""Traffic metrics: the bytes of a run so far."""

from __future__ import annotations

from fedkin.core.ledger import Ledger
from fedkin.core.records import Record


def ledger_record(ledger: Ledger) -> Record:
    """The bytes that were sent so far, as entries of a record: the method's total, and the pair
    [download, upload] of every operation (``scoring.*`` is evaluation). For real clients also the
    size of the messages, which includes headers and handshakes."""
    down, up = ledger.total()
    record = {
        "bytes_down": down,
        "bytes_up": up,
        "bytes_by_operation": _by_operation(ledger.down, ledger.up),
    }
    if ledger.measured_down or ledger.measured_up:
        down, up = ledger.measured_total()
        by_operation = _by_operation(ledger.measured_down, ledger.measured_up)
        record |= {"messages_down": down, "messages_up": up, "messages_by_operation": by_operation}
    return record


def _by_operation(down: dict[str, int], up: dict[str, int]) -> dict[str, list[int]]:
    """The bytes of every operation as a pair [download, upload], by the operation's name."""
    return {name: [down.get(name, 0), up.get(name, 0)] for name in sorted(down | up)}
