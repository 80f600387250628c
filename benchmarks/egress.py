"""The ledger of what left each site: are all bytes explained, and are all changes found?

    python -m benchmarks.egress

1. A run of four sites (IFCA, then FedAvg), whose server and nodes are the real ones on an engine
   in memory: how many of the bytes that the server counted do the sites' ledgers explain?
2. Changes planted in these ledgers: lines altered, removed, added and moved, and tails cut off.
   Each kind also in a ledger that was written again afterwards, with right digests, so that only
   the server's receipts can show it. How many are found? A line that was added at the end of a
   ledger that was written again is found as a line whose message the server has not received.
3. Time of a line: written, synced to the disk, and hashed.

``--folder FED`` measures a deployment that has run, in place of the first part.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from fedkin.config.server import load_server
from fedkin.security.line_chain import START, line_digest, line_text
from fedkin.server.deploy import egress_report
from fedkin.server.deploy.run_server import serve
from fedkin.server.egress_check import check_against, check_lines
from fedkin.server.egress_ledger import SiteLedger
from fedkin.server.egress_receipts import Receipt, read_receipts, receipts_file
from fedkin.server.message import RpcMessage
from fedkin.server.node import Node
from tests.server.egress_sites import outbox_of, recorded
from tests.server.memory_transport import MemoryTransport
from tests.server.small_federations import clustered_data, model_of, node_of

SITES = 4
CHANGES = 200
RESULTS = Path(__file__).with_name("egress_results.json")
_SERVER = """
[federation]
name = "trial"
capacity = 4
wait_for = 4
[samples]
shape = [6]
classes = 6
[model]
name = "mclr"
[method]
name = "ifca"
clusters = 2
[run]
rounds = 10
cohort = 4
against = ["fedavg"]
"""
Lines = list[bytes]


def served(folder: Path) -> Path:
    """A run of four sites in a folder."""
    (folder / "server.toml").write_text(_SERVER)
    transport = MemoryTransport()
    data = clustered_data(SITES)
    for number in range(SITES):
        name = f"site-{number}"
        node: Node = node_of(name, [number], data, model_of(SITES))
        make = partial(lambda made: made, node)
        transport.join(number, recorded(make, outbox_of(folder / name, name)))
    config = load_server(folder / "server.toml")
    serve(config, transport, transport.clock.time, transport.clock.sleep)
    return folder


def explained(folder: Path) -> dict[str, int]:
    """Bytes that the server of a run counted, and the bytes that its sites' ledgers explain."""
    totals = Counter[str]()
    for site in sorted(folder.glob("site-*")):
        check, run_bytes = egress_report.verify(site, folder)
        assert check.is_sound, check.faults
        totals["messages"] += check.received or 0
        totals["explained"] += check.explained_bytes
        totals["counted"] = 0 if run_bytes is None else run_bytes.counted
        totals["undelivered"] += len(check.undelivered)
    return dict(totals)


# --- planted changes


def altered(lines: Lines, random: np.random.Generator) -> Lines:
    """One digit of one line is another."""
    place = int(random.integers(len(lines)))
    text = lines[place]
    digits = [i for i, sign in enumerate(text) if 48 <= sign <= 57]
    at = int(random.choice(digits))
    other = 48 + (text[at] - 48 + int(random.integers(1, 10))) % 10
    changed = text[:at] + bytes([other]) + text[at + 1 :]
    return [*lines[:place], changed, *lines[place + 1 :]]


def removed(lines: Lines, random: np.random.Generator) -> Lines:
    """One line is gone."""
    place = int(random.integers(len(lines)))
    return [*lines[:place], *lines[place + 1 :]]


def added(lines: Lines, random: np.random.Generator) -> Lines:
    """One line stands a second time somewhere."""
    line = lines[int(random.integers(len(lines)))]
    place = int(random.integers(len(lines) + 1))
    return [*lines[:place], line, *lines[place:]]


def moved(lines: Lines, random: np.random.Generator) -> Lines:
    """Two lines have changed places."""
    first, second = sorted(random.choice(len(lines), 2, replace=False).tolist())
    changed = [*lines]
    changed[first] = lines[second]
    changed[second] = lines[first]
    return changed


def cut(lines: Lines, random: np.random.Generator) -> Lines:
    """The last lines are gone."""
    return lines[: int(random.integers(1, len(lines)))]


KINDS: dict[str, Callable[[Lines, np.random.Generator], Lines]] = {
    "altered": altered,
    "removed": removed,
    "added": added,
    "moved": moved,
    "cut": cut,
}


def written_again(lines: Lines) -> Lines:
    """The lines with right numbers and digests, as by a site that writes its ledger again."""
    written: Lines = []
    for number, line in enumerate(lines):
        prev = line_digest(written[-1]) if written else START
        try:
            entries = {**json.loads(line), "seq": number, "prev": prev}
        except ValueError:  # the altered digit has made the line unreadable
            return lines
        written.append(line_text(entries).encode())
    return written


def is_found(lines: Lines, receipts: Sequence[Receipt]) -> tuple[bool, bool]:
    """Whether a change is found by the chain alone, and with the server's receipts."""
    by_chain = not check_lines(lines)[0].is_sound
    check = check_against(lines, receipts, "run")
    return by_chain, not check.is_sound or bool(check.undelivered)


def planted(folder: Path, seed: int = 0) -> dict[str, dict[str, int]]:
    """Numbers of planted changes by kind, and how many of them are found."""
    receipts = read_receipts(receipts_file(egress_report.run_folder_of(folder)))
    ledgers = [SiteLedger(site).lines() for site in sorted(folder.glob("site-*"))]
    random = np.random.default_rng(seed)
    results: dict[str, dict[str, int]] = {}
    for number in range(CHANGES):
        kind = list(KINDS)[number % len(KINDS)]
        again = bool((number // len(KINDS)) % 2)
        lines = ledgers[number % len(ledgers)]
        changed = lines
        while changed == lines:  # an altered digest or number may be right again
            changed = KINDS[kind](lines, random)
            if again:
                changed = written_again(changed)
        by_chain, with_receipts = is_found(changed, receipts)
        name = f"{kind}, written again" if again else kind
        row = results.setdefault(name, {"planted": 0, "by the chain": 0, "with receipts": 0})
        row["planted"] += 1
        row["by the chain"] += by_chain
        row["with receipts"] += with_receipts
    return results


def seconds_of_a_line(folder: Path, size: int = 2_600, turns: int = 200) -> float:
    """The median time in seconds in which a reply with a model of ``size`` bytes gets its line."""
    outbox = outbox_of(folder, "timed")
    request = RpcMessage({"operation": "train", "run": "r", "round": 1})
    reply = RpcMessage({}, {"update": np.ones((1, size // 4), np.float32)})
    seconds = []
    for _ in range(turns):
        start = time.perf_counter()
        outbox.seal(request, reply)
        seconds.append(time.perf_counter() - start)
    return float(np.median(seconds))


def main() -> None:
    """Measure everything, print it, and write the results."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.egress", description=__doc__)
    parser.add_argument("--folder", type=Path, help="a deployment that has run")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        folder = options.folder or served(Path(place))
        bytes_of_run = explained(folder)
        changes = planted(folder)
        seconds = seconds_of_a_line(Path(place) / "timed")
    print(f"bytes: {bytes_of_run}")
    for name, row in changes.items():
        print(f"{name}: {row}")
    total = Counter[str]()
    for row in changes.values():
        total.update(row)
    print(f"all: {dict(total)}; missed: {total['planted'] - total['with receipts']}")
    print(f"a line takes {1000 * seconds:.2f} ms (median)")
    if options.folder is None:
        results = {"bytes": bytes_of_run, "changes": changes, "seconds of a line": seconds}
        RESULTS.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
