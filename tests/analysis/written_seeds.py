"""Small configurations, and runs from several seeds whose accuracies are written by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fedkin.analysis.repeated_runs import RepeatedRuns
from fedkin.config import run as configuration
from fedkin.config.description import Description
from fedkin.config.plan import Plan
from fedkin.config.run import RunConfig
from fedkin.run.loop import run
from fedkin.run.run import Run
from tests.run.toy_method import Toy, fake_world


def with_options(config: dict[str, dict[str, Any]]) -> RunConfig:
    """Two rounds of a few clients with digits, and sections on top."""
    base = {"data": {"name": "digits", "clients": 8}, "local": {"epochs": 1}}
    sections = {name: {**base.get(name, {}), **entries} for name, entries in config.items()}
    sections["run"] = {"rounds": 2, "cohort": 3, "against": ["fedavg"], **sections.get("run", {})}
    return configuration.from_dict({**base, **sections})


def by_hand(
    curves: Mapping[str, ArrayLike], partial: Sequence[int] = (), first: int = 0
) -> RepeatedRuns:
    """One run per row of ``curves`` [S, R], from seed ``first`` on;
    NaN is a round without a score."""
    rows = {name: np.atleast_2d(np.asarray(curve, float)) for name, curve in curves.items()}
    main, *others = rows
    runs = []
    for number in range(len(rows[main])):
        seed = first + number
        against = {
            name: _run(name=name, curve=rows[name][number], seed=seed, partial=partial, against={})
            for name in others
        }
        runs.append(
            _run(name=main, curve=rows[main][number], seed=seed, partial=partial, against=against)
        )
    return RepeatedRuns(tuple(runs))


def _run(
    name: str, curve: np.ndarray, seed: int, partial: Sequence[int], against: dict[str, Run]
) -> Run:
    track = run(fake_world(), Toy(), Plan(len(curve) - 1, 3, seed), name=name)
    records = [
        {
            **record,
            "accuracy": None if np.isnan(score) else float(score),
            "partial": record["round"] in partial,
        }
        for record, score in zip(track.records, curve, strict=True)
    ]
    config: dict[str, Any] = {
        "data": {"name": "fake"},
        "model": {"name": "point"},
        "method": {"name": name},
    }
    config["run"] = {"cohort": 3, "seed": seed, "rounds": len(curve) - 1}
    return Run(
        config=Description(config),
        records=records,
        state=track.state,
        client_columns={},
        seconds=0.5,
        against=against,
    )
