"""Impossible plans of peers are refused before anything runs; disappointing ones are logged."""

from __future__ import annotations

import json
import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedkin as fk
from fedkin.config.plan import Plan
from fedkin.core.errors import ConfigError
from fedkin.core.records import Record
from fedkin.core.requirements import requirements_of
from fedkin.data.federated import FederatedData
from fedkin.methods.fedavg import FedAvg
from fedkin.methods.gossip import Gossip, Local
from fedkin.methods.oracle import Oracle
from fedkin.methods.panm import PANM, PANMLoss
from fedkin.methods.pens import PENS
from fedkin.models import mclr
from fedkin.run.loop import run
from fedkin.run.method_checks import check_plan, plan_warnings
from tests.option_lists import simulate_arguments
from tests.run.toy_method import fake_world

N = 8


def go(method: Any, data: FederatedData, **options: Any) -> fk.Run:
    return fk.simulate(
        method,
        data,
        mclr(data),
        **simulate_arguments({"rounds": 2, "cohort": data.clients, **options}),
    )


# --- the oracle without a truth


@pytest.mark.parametrize(
    ("method", "against", "place"),
    [
        (Oracle(), [], "method"),
        (Oracle(), [Gossip()], "method"),
        (Gossip(), [Oracle()], "run.against: oracle"),
        (FedAvg(), [Local(), Oracle()], "run.against: oracle"),
    ],
    ids=["alone", "first", "second", "last"],
)
def test_the_oracle_is_refused_before_anything_runs(
    tiny: FederatedData, tmp_path: Path, method: Any, against: list[Any], place: str
) -> None:
    """And before anything is written, whichever method it is."""
    seen: list[Record] = []
    with pytest.raises(ConfigError, match=rf"^{place}: .*data\.name=planted"):
        go(
            method,
            replace(tiny, true_clusters=None),
            against=against,
            on_round=seen.append,
            out=tmp_path / "run",
        )
    assert not seen and not list(tmp_path.iterdir())


def test_where_the_truth_is_known_the_oracle_runs(tiny: FederatedData) -> None:
    done = go(Gossip(), tiny, against=[Oracle()], rounds=1)
    assert [record["round"] for record in done.against["oracle"].records] == [0, 1]


def test_other_peers_need_no_truth(tiny: FederatedData) -> None:
    assert requirements_of(Oracle()).data.true_clusters
    others = (PANM, PANMLoss, PENS, Gossip, Local, FedAvg)
    assert not any(requirements_of(kind()).data.true_clusters for kind in others)
    assert (
        go(PANM(candidates=2), replace(tiny, true_clusters=None), rounds=1).summary()["ari"] is None
    )


# --- more neighbours than others


@pytest.mark.parametrize("kind", [PANM, PANMLoss, Gossip, Oracle])
@pytest.mark.parametrize("count", [N, N + 5])
def test_neighbours_are_fewer_than_clients(kind: Any, count: int) -> None:
    """A peer is not its own neighbour: N - 1 at most."""
    plan = Plan(rounds=3, cohort=N)
    words = (
        rf"{kind.__name__} needs at least {count + 1} clients \(neighbours = {count}\), "
        rf"and there are {N}: .*"
    )
    with pytest.raises(ConfigError, match=rf"^method: {words}method\.neighbours={N - 1}$"):
        check_plan(plan, kind(neighbours=count), N)
    with pytest.raises(ConfigError, match=rf"^run\.against: it: {words}neighbours={N - 1}$"):
        check_plan(plan, kind(neighbours=count), N, "run.against: it")
    check_plan(plan, kind(neighbours=N - 1), N)


def test_a_method_without_such_a_number_is_not_asked_for_it() -> None:
    for method in (Local(), PENS(), FedAvg()):
        check_plan(Plan(rounds=3, cohort=1), method, 1)


def test_too_many_neighbours_are_refused_before_anything_runs(
    tiny: FederatedData, tmp_path: Path
) -> None:
    seen: list[Record] = []
    with pytest.raises(ConfigError, match=r"^run\.against: panm: .* neighbours=11$"):
        go(
            Gossip(),
            tiny,
            against=[PANM(neighbours=12)],
            on_round=seen.append,
            out=tmp_path / "run",
        )
    with pytest.raises(ConfigError, match=rf"^method: .* method\.neighbours={N - 1}$"):
        run(fake_world(N), Gossip(neighbours=N), Plan(rounds=3, cohort=N), on_round=seen.append)
    assert not seen and not list(tmp_path.iterdir())


# --- plans too short for peers

SLEEPERS = "run.cohort"
STAGE_TWO = "no peer reaches stage two"


def told(method: Any, rounds: int, cohort: int) -> list[bool]:
    """Whether sleepers, and whether stage two, are spoken of; nothing else is."""
    remarks = plan_warnings(Plan(rounds=rounds, cohort=cohort), method, N)
    found = [any(text in remark for remark in remarks) for text in (SLEEPERS, STAGE_TWO)]
    assert len(remarks) == sum(found)
    return found


PEERS = [PANM(), PANMLoss(), PENS(), Gossip(), Oracle(), Local()]


@pytest.mark.parametrize("method", PEERS, ids=lambda m: type(m).__name__)
@pytest.mark.parametrize(("cohort", "sleeping"), [(1, True), (N - 1, True), (N, False)])
def test_peers_that_sleep_are_spoken_of(method: Any, cohort: int, sleeping: bool) -> None:
    assert told(method, 10_000, cohort) == [sleeping, False]


@pytest.mark.parametrize("kind", [PANM, PANMLoss, PENS])
@pytest.mark.parametrize(
    ("rounds", "cohort", "stage_one", "unreached"),
    [
        (10, N, 9, False),  # the tenth round of a peer is of stage two
        (10, N, 10, True),
        (10, N, 100, True),
        (10, 4, 4, False),  # a peer does five rounds of ten
        (10, 4, 5, True),
        (10, 3, 3, False),  # 3.75 in the mean
        (10, 3, 4, True),
        (1, 1, 1, True),
    ],
)
def test_a_stage_two_that_no_peer_reaches(
    kind: Any, rounds: int, cohort: int, stage_one: int, unreached: bool
) -> None:
    assert told(kind(stage_one=stage_one), rounds, cohort) == [cohort < N, unreached]


@pytest.mark.parametrize("method", [Gossip(), Oracle(), Local()], ids=lambda m: type(m).__name__)
def test_a_method_without_stages_does_not_miss_one(method: Any) -> None:
    assert told(method, 1, N) == [False, False]


@pytest.mark.parametrize("cohort", [1, 3, N])
def test_a_server_has_no_such_plan_warnings(cohort: int) -> None:
    assert plan_warnings(Plan(rounds=2, cohort=cohort), FedAvg(), N) == []


def warnings(caplog: pytest.LogCaptureFixture, method: Any, rounds: int, cohort: int) -> list[str]:
    """What a run logs."""
    caplog.clear()
    with caplog.at_level(logging.WARNING, "fedkin"):
        run(
            fake_world(N, true_clusters=np.arange(N) % 2),
            method,
            Plan(rounds=rounds, cohort=cohort),
            name="peers",
        )
    assert all((r.name, r.levelno) == ("fedkin", logging.WARNING) for r in caplog.records)
    return [record.getMessage() for record in caplog.records]


def test_a_run_warns_of_them(caplog: pytest.LogCaptureFixture) -> None:
    for method in (Gossip(), PENS(sampled=2, stage_one=1)):
        (only,) = warnings(caplog, method, 3, 4)
        assert SLEEPERS in only and "peers" in only
    (only,) = warnings(caplog, PANM(stage_one=3), 3, N)
    assert STAGE_TWO in only and SLEEPERS not in only
    first, second = warnings(caplog, PANM(stage_one=3), 3, 4)
    assert SLEEPERS in first and STAGE_TWO in second


def test_a_run_without_hurdles_warns_of_nothing(caplog: pytest.LogCaptureFixture) -> None:
    assert warnings(caplog, PANM(stage_one=2), 3, N) == []
    assert warnings(caplog, FedAvg(), 3, 4) == []


# --- migrations


def test_peers_do_not_migrate(tiny: FederatedData, tmp_path: Path) -> None:
    """Their communities have no lasting names, so their migrations are not counted. The other
    method's migrations are."""
    done = go(
        PANM(neighbours=2, candidates=4, stage_one=1, period=1),
        tiny,
        against=[FedAvg()],
        out=tmp_path / "run",
    )
    assert len({tuple(r["cluster_sizes"]) for r in done.records}) > 1  # communities did change
    assert all(r["migrations"] is None and r["migrations_correct"] is None for r in done.records)
    assert done.summary()["migrations"] is None and done.summary()["migration_precision"] is None
    written = [
        json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()
    ]
    assert len(written) == 3 and all(
        r["migrations"] is None and r["migrations_correct"] is None for r in written
    )
    assert json.loads((tmp_path / "run" / "summary.json").read_text())["migrations"] is None
    other = done.against["fedavg"]
    assert all(r["migrations"] == 0 == r["migrations_correct"] for r in other.records)
    assert other.summary()["migrations"] == 0


@pytest.mark.parametrize("method", PEERS, ids=lambda m: type(m).__name__)
def test_no_peers_do(method: Any) -> None:
    track = run(fake_world(N, true_clusters=np.arange(N) % 2), method, Plan(rounds=3, cohort=4))
    assert [(r["migrations"], r["migrations_correct"]) for r in track.records] == [(None, None)] * 4
