"""The findings of the benchmark that ``fedkin advise`` uses as a prior: average ranks by kind of
heterogeneity."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fedkin.analysis.advise.field_benchmark import CONCEPTS, FINDINGS, LABELS
from fedkin.analysis.ranks import Ranks
from fedkin.core.storage import write_atomic
from fedkin.methods import METHODS
from papers.benchmark.contenders import CONTENDERS
from papers.benchmark.federations import SETTINGS


def write(rankings: Mapping[str, Ranks], path: Path = FINDINGS) -> None:
    """Write the ranks of kinds that are tested, of methods that a configuration names, without
    options of the run.

    Args:
        rankings: by kind.
        path: of the file.
    """
    kinds = {
        kind: _of_kind(rankings[kind])
        for kind in (LABELS, CONCEPTS)
        if kind in rankings and rankings[kind].tested
    }
    write_atomic(path, json.dumps(kinds, indent=1) + "\n")


def _of_kind(ranks: Ranks) -> dict[str, Any]:
    names = {kind: name for name, kind in METHODS.items()}
    plain = [c for c in CONTENDERS if not c.options and not c.tuned and c.name in ranks.average]
    methods = {names[type(c.method(SETTINGS[0]))]: ranks.average[c.name] for c in plain}
    ordered = sorted(methods, key=lambda name: methods[name])
    settings = dict.fromkeys(str(block[0]) for block in ranks.scores.index)
    clustered = [name for name in ordered if "clusters" in vars(METHODS[name]())]
    return {
        "settings": list(settings),
        "clustered": clustered,
        "ranks": {n: round(methods[n], 2) for n in ordered},
    }
