"""The numbers that the papers on hierarchical clustering and ATHENA-FL print, beside ours."""

from __future__ import annotations

from typing import Any

import numpy as np

from fedkin.core.world import BYTES_PER_NUMBER
from fedkin.measures.convergence import convergence_epoch, economy, mean_convergence_epoch, transmitted_mib
from papers.athena.recipes import (
    APART,
    APART_PUBLISHED,
    CLUSTERINGS,
    DETECTOR_FILE,
    ECONOMY_PUBLISHED,
    EPS_PUBLISHED,
    HALF,
    MOBILENET_FILE,
    PRETRAINING,
    SHARED,
    SHARED_PUBLISHED,
    TABLE_1,
    TITLES,
)
from papers.reproduction_marks import Compared, Measured, held, number

Run = dict[str, Any]
DETECTORS = 10


def one(measured: Measured, table: str, row: str, column: str) -> Run | None:
    """The run of a cell, of the lowest seed; None where it was not run."""
    runs = [m for m in measured if (m["table"], m["row"], m["column"]) == (table, row, column)]
    return min(runs, key=lambda m: m["seed"], default=None)


def eps(measured: Measured) -> list[Compared]:
    """Ranges of eps that find the true clusters: ours and the paper's have an eps in common."""
    found = []
    for (split, _), setting in CLUSTERINGS.items():
        for epochs in PRETRAINING if setting.clusters > 1 else ():
            low, high = EPS_PUBLISHED[epochs][split == "5 classes"]
            run = one(measured, "eps", setting.row, str(epochs))
            ends = None if run is None else run["range"]
            meets = None if ends is None else bool(ends) and _end(ends[0], 0.0) <= high and low <= _end(ends[1], np.inf)
            ours = "" if ends is None else range_of(ends)
            mark, seeds = held(meets), int(run is not None)
            range_ = f"{low:g} - {high:g}"
            found.append(Compared(setting.row, str(epochs), range_, ours, None, mark, "eps", seeds, setting.aside))
    return found


def range_of(ends: list[float | None]) -> str:
    """In words; None is no end, and no ends are no range."""
    low, high = ends or (None, None)
    if not ends or low is None:
        return f"up to {high:.3g}" if high is not None else "any" if ends else "none"
    return f"from {low:.3g}" if high is None else f"{low:.3g} - {high:.3g}"


def _end(value: float | None, open_end: float) -> float:
    return open_end if value is None else value


def apart(measured: Measured) -> list[Compared]:
    """Figure 1: accuracy by cluster where the paper prints it, else the gain over one model for all."""
    found = []
    for split, setting in APART.items():
        clustered, single = (one(measured, "Fig. 1", setting.row, name) for name in HALF)
        known = {"aside": setting.aside, "seeds": int(clustered is not None)}
        by_cluster, gain = APART_PUBLISHED[split]
        own = [] if clustered is None else [100 * a for a in clustered["clusters"] if a is not None]
        for i, printed in enumerate([] if by_cluster == "-" else by_cluster.split(", ")):
            ours = own[i] if i < len(own) else None
            found.append(number(setting.row, f"cluster {i + 1}", float(printed), ours, **known))
        if by_cluster == "-":
            ours = None if not (clustered and single) else 100 * (clustered["curve"][-1] - single["curve"][-1])
            found.append(_gain(setting.row, gain, ours, known))
    return found


def shared(measured: Measured) -> list[Compared]:
    """Figures 2 to 4: accuracy of the combined detectors; with 5 classes, what they gain over one model."""
    found = []
    for key, setting in SHARED.items():
        detectors, single = (one(measured, "Fig. 2-4", setting.row, name) for name in ("ATHENA-FL", "FedAvg"))
        known = {"aside": setting.aside, "seeds": int(detectors is not None)}
        printed = SHARED_PUBLISHED[key][0]
        ours = None if detectors is None else 100 * float(np.mean(detectors["clients"]))
        if "above" in printed:
            gain = None if ours is None or single is None else ours - 100 * float(np.mean(single["clients"]))
            found.append(_gain(setting.row, printed, gain, known))
        else:
            published = None if printed == "-" else float(printed.split()[0])
            found.append(number(setting.row, "ATHENA-FL", published, ours, **known))
    return found


def _gain(row: str, printed: str, ours: float | None, known: dict[str, Any]) -> Compared:
    """A gain in points: a number, or 'more than' one, or 'above'."""
    words = printed.split()
    numbers = [float(word) for word in words if word.replace(".", "").isdigit()]
    least = numbers[0] if numbers else 0.0
    if numbers and "more" not in words:
        return number(row, "gain", least, ours, **known)
    mark = held(None if ours is None else ours > least)
    return Compared(row, "gain", printed, "" if ours is None else f"{ours:.4g}", None, mark, **known)


def table_1(measured: Measured) -> list[Compared]:
    """The share of FedAvg's bytes that is saved, percent: from the paper's own epochs, and from ours."""
    found = []
    for data, printed in ECONOMY_PUBLISHED.items():
        for split, percent in zip(("IID", "5 classes", "2 classes"), printed, strict=True):
            row, setting = f"{split}, {TITLES[data]}", SHARED[data, split]
            known = {"unit": "% of the bytes", "margin": 0.01}
            found.append(number(row, "from the paper's epochs", percent, _as_printed(data, split), **known))
            runs = [one(measured, "Fig. 2-4", setting.row, name) for name in ("ATHENA-FL", "FedAvg")]
            sent = [None if run is None else converged(run)[1] for run in runs]
            ours = 100 * economy(sent[0], sent[1]) if sent[0] is not None and sent[1] else None
            known = {"unit": "% of the bytes", "aside": setting.aside, "seeds": int(all(runs))}
            found.append(number(row, "from our runs", percent, ours, **known))
    return found


def _as_printed(data: str, split: str) -> float:
    ours, theirs = TABLE_1[data, split]
    return 100 * economy(transmitted_mib(ours, DETECTORS, DETECTOR_FILE), transmitted_mib(theirs, 1, MOBILENET_FILE))


def converged(run: Run) -> tuple[float | None, float | None]:
    """E[e], and the paper's TDT until then in MiB; None where nothing converges."""
    detects = "detectors" in run
    accuracy = np.array(run["detectors"], np.float64)[1:].T if detects else np.array(run["curve"], np.float64)[1:]
    epoch = mean_convergence_epoch(accuracy) if detects else convergence_epoch(accuracy)
    each = run["parameters"] * BYTES_PER_NUMBER
    return (None, None) if epoch is None else (epoch, transmitted_mib(epoch, len(accuracy) if detects else 1, each))
