"""The measured section of docs/gpu.md, from the stored results."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import flute
from benchmarks.gpu import server
from benchmarks.gpu.parts import COLD_START, CPU, SCORING, TABLE_III
from benchmarks.gpu.rounds import COMPILED, LOOP, LOW
from benchmarks.gpu.size import FULL
from benchmarks.gpu.store import Results, numbers, reason
from benchmarks.turns import quartiles
from benchmarks.work import BATCH

SECTION = re.compile(r"(<!-- measured -->\n).*?(<!-- /measured -->)", re.DOTALL)
AIM_OF_LOOP = 20  # times as fast as the PyTorch loop, for 784-128-10
UNKNOWN = "not measured"


def write(page: Path, results: Results) -> None:
    """Replace the measured section of a page."""
    text, count = SECTION.subn(
        lambda found: found[1] + section(results) + found[2], page.read_text()
    )
    if count != 1:
        raise ValueError(f"{page} has {count} sections <!-- measured --> ... <!-- /measured -->")
    page.write_text(text)


def section(results: Results) -> str:
    """The text of the section."""
    tables = (rounds_table, ratios_table, flute_table, server_table, maths_table, paper_table)
    return "\n".join([machine(results), *(table(results) for table in tables)])


def machine(results: Results) -> str:
    """The device, and what its check found."""
    found = results["machine"]
    if not found:
        return (
            "**No run on a GPU has been measured yet.** The tables say so in each cell. The same "
            "command in its smallest form (`--small`) is tested on a CPU.\n"
        )
    check = results["check"]
    apart = max(value for key, value in check.items() if key.startswith("difference"))
    others = int(check["other processes"])
    return (
        f"One {found['device']} ({found['memory']}), {found['cores']} cores; {found['versions']}. "
        f"Updates differ from the CPU's by {apart:.1g} of the largest number. The tests of "
        f"accelerators: {check['tests']}. Other processes on the card: {others}.\n"
    )


def rounds_table(results: Results) -> str:
    """(a) Seconds of a round."""
    size = FULL
    engines = [*map(str, size.lanes), LOW, LOOP, COMPILED]
    head = ["network", *(f"{lanes} in parallel" for lanes in size.lanes)]
    head += [f"{size.lanes[-1]} in {LOW}", "CPU", LOOP, COMPILED]
    rows = []
    for name in size.epochs:
        found = numbers(results, "a", name)
        cells = {engine: _round(found, engine, results, name) for engine in engines}
        on_cpu = (numbers(results, "a", CPU) or {}).get(name)
        cpu = f"{np.median(on_cpu):.3f}" if on_cpu else reason(results, "a", CPU)
        ours = [cells[str(lanes)] for lanes in size.lanes]
        rows.append([name, *ours, cells[LOW], cpu, cells[LOOP], cells[COMPILED]])
    words = (
        f"Median seconds of a round of {size.cohort} of {size.clients} MNIST-shaped clients (60 "
        f"samples in the mean, batches of {BATCH}, 20 local epochs; the CNN has 2), by the number "
        f"of clients that train in parallel. The CPU's column is fedkin on the same machine. "
        f"PyTorch trains {size.of_loop} clients on the same device; its seconds are multiplied."
    )
    return _table(words, head, rows)


def _round(found: dict[str, Any] | None, engine: str, results: Results, name: str) -> str:
    """A cell: the median seconds of a round of the whole cohort."""
    if found is None:
        return reason(results, "a", name)
    seconds = found.get(engine)
    if seconds is None:
        return UNKNOWN
    return seconds if isinstance(seconds, str) else f"{np.median(_whole(seconds, engine)):.3f}"


def _whole(seconds: list[float], engine: str) -> np.ndarray:
    """The seconds of the whole cohort: PyTorch trains a part of it."""
    part = FULL.cohort / FULL.of_loop if engine in (LOOP, COMPILED) else 1
    return part * np.array(seconds)


def ratios_table(results: Results) -> str:
    """(a) PyTorch's seconds divided by fedkin's, with the fastest number of lanes."""
    rows = []
    for name in FULL.epochs:
        found = numbers(results, "a", name) or {}
        lanes = [str(n) for n in FULL.lanes if isinstance(found.get(str(n)), list)]
        aim = f"{LOOP}: at least {AIM_OF_LOOP}" if name == "784-128-10" else "none"
        if not lanes:
            rows.append([name, *[reason(results, "a", name)] * 3, aim])
            continue
        best = min(lanes, key=lambda lanes: np.median(found[lanes]))
        rows.append([name, best, _ratio(found, LOOP, best), _ratio(found, COMPILED, best), aim])
    words = (
        "The other engine's seconds divided by fedkin's, with the fastest number of clients in "
        "parallel: the median of the turns, and their quartiles."
    )
    return _table(words, ["network", "in parallel", LOOP, COMPILED, "aim"], rows)


def _ratio(found: dict[str, Any], engine: str, best: str) -> str:
    """A cell of the ratios."""
    if not isinstance(found.get(engine), list):
        return UNKNOWN
    low, middle, high = quartiles(_whole(found[engine], engine) / np.array(found[best]))
    return f"**{middle:.1f}** ({low:.1f}-{high:.1f})"


def flute_table(results: Results) -> str:
    """(b) Rounds with the settings of FLUTE's table."""
    rows = []
    for name, setting in flute.SETTINGS.items():
        found = numbers(results, "b", name)
        seconds = f"{found['seconds']:.3f}" if found else reason(results, "b", name)
        rows.append([name, seconds, f"below {setting.aim}", f"{setting.printed}"])
    words = (
        f"Rounds with the settings of FLUTE's table: cohorts of {flute.COHORT}, batches of "
        f"{flute.BATCH}, one local epoch. A client has about 198 grey images of 28 x 28, or 100 "
        "images of 32 x 32 x 3; the images are random. The figures are medians of a run without "
        "scoring, in which fedkin chose how many clients train in parallel."
    )
    head = ["network and shapes", "seconds a round", "aim", "FLUTE prints, on its machine"]
    return _table(words, head, rows)


def server_table(results: Results) -> str:
    """(c) Scoring and cold starts."""
    rows = []
    for name in FULL.epochs:
        found = numbers(results, "c", SCORING + name)
        seconds = _median(found, "seconds") or reason(results, "c", SCORING + name)
        rows.append([f"scoring {FULL.clients:,} clients, {name}", seconds, ""])
    for name in server.METHODS:
        found = numbers(results, "c", COLD_START + name)
        seconds = _median(found, "seconds") or reason(results, "c", COLD_START + name)
        rows.append([f"cold start of {name}", seconds, _median(found, "server") or UNKNOWN])
    words = (
        f"Scoring, and cold starts of {server.CLUSTERS * FULL.alpha} clients with a million "
        "parameters (784-1258-10). The server's part is NumPy: the embedding and K-means."
    )
    return _table(words, ["work", "seconds", "of which the server"], rows)


def maths_table(results: Results) -> str:
    """(c) The server's maths in NumPy and on the device."""
    columns = ["NumPy", "device", "device, without the copy"]
    rows = []
    for name in server.MATHS:
        found = numbers(results, "c", name)
        if found is None:
            rows.append([name, *[reason(results, "c", name)] * 3, UNKNOWN])
            continue
        # The two are measured one after the other, so only large ratios count.
        ratio = float(np.median(found["NumPy"]) / np.median(found["device"]))
        cells = [_median(found, column) or UNKNOWN for column in columns]
        rows.append([name, *cells, f"{ratio:.1f}"])
    words = (
        f"The server's maths on {server.CLUSTERS * FULL.alpha} updates of a million parameters, in "
        "seconds. fedkin computes it in NumPy. The device would pay where the last column, NumPy's "
        "seconds divided by the device's with the copy, is well above 1."
    )
    return _table(words, ["work", *columns, "gain"], rows)


def paper_table(results: Results) -> str:
    """(d) The run of Table III."""
    found = numbers(results, "d", TABLE_III)
    cells = [reason(results, "d", TABLE_III), UNKNOWN, "98.7"]
    if found:
        cells = [
            f"{found['seconds']:.0f}",
            f"{100 * found['best']:.1f}",
            f"{found['published']:.1f}",
        ]
    words = "A run of FlexCFL's Table III at full length: FEMNIST's CNN, 300 rounds, one seed."
    return _table(words, ["seconds", "best accuracy (%)", "published (%)"], [cells])


def _median(found: dict[str, Any] | None, key: str) -> str | None:
    """The median seconds as text; None if nothing was measured."""
    return None if found is None else f"{np.median(found[key]):.3f}"


def _table(words: str, head: list[str], rows: list[list[str]]) -> str:
    """A paragraph and a table."""
    lines = [f"| {' | '.join(cells)} |" for cells in [head, ["---"] * len(head), *rows]]
    return "\n".join([words, "", *lines, ""])
