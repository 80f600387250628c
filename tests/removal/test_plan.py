"""What a replay trains again, and what it costs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import fedkin as fk
from fedkin.core.requirements import requirements_of
from fedkin.options import SECTIONS
from fedkin.removal.cost_text import plan_text
from fedkin.removal.forget import prepare
from fedkin.removal.plan import ReplayPlan, evaluation_interval
from fedkin.removal.replay import same_numbers
from fedkin.removal.taint import NEVER
from tests.removal.removal_world import LEAVER, ROUNDS, simulated

GIVEN = fk.Given(groups={str(client): f"group {client % 3}" for client in range(12)})


def made_plan(first: list[int], starts: list[int], start: int = 0) -> ReplayPlan:
    """A plan of ten rounds."""
    return ReplayPlan(
        clients=(1,),
        rounds=10,
        start=start,
        first=np.array(first),
        starts=np.array(starts),
        why_all="",
        client_rounds=25,
        of=100,
    )


def test_cost_counts_the_members_of_the_cluster_in_the_cohorts(tmp_path: Path) -> None:
    run = simulated(GIVEN, tmp_path / "run", keep=1)
    recorded, plan = prepare(run, [LEAVER])
    own = run.assignment[LEAVER]
    cohorts = [recorded.history.cohort(round) for round in range(1, ROUNDS + 1)]
    members = [((run.assignment[cohort] == own) & (cohort != LEAVER)).sum() for cohort in cohorts]
    assert plan.client_rounds == sum(members) and plan.of == 8 * ROUNDS
    assert plan.share == plan.client_rounds / plan.of < 1 / 2
    assert plan.trained.tolist() == [k == own for k in range(3)]


def test_every_cluster_on_request(tmp_path: Path) -> None:
    run = simulated(GIVEN, tmp_path / "run", keep=1)
    recorded, plan = prepare(run, [LEAVER], every_cluster=True)
    asked = sum((recorded.history.cohort(t) != LEAVER).sum() for t in range(1, ROUNDS + 1))
    assert plan.start == 0 and plan.trained.all() and plan.client_rounds == asked
    done = fk.forget(run, [LEAVER], every_cluster=True)
    assert done.record["measured"]["client_rounds"] == asked


def test_clusters_begin_at_the_checkpoint_before_the_client_came(tmp_path: Path) -> None:
    """Client 11 arrives in round 4; its cluster is trained again from the models of round 3."""
    late = fk.Population(arrivals={4: 1})
    run = simulated(GIVEN, tmp_path / "run", keep=3, scenario=late, cohort=11)
    _, plan = prepare(run, [11])
    own = run.assignment[11]
    assert plan.start == 3
    assert plan.first[own] == 4 and (np.delete(plan.first, own) == NEVER).all()
    assert plan.starts.tolist() == [3 if k == own else ROUNDS for k in range(3)]


def test_only_rounds_with_all_models_are_evaluated() -> None:
    partial = made_plan([1, NEVER], [0, 10])
    assert evaluation_interval(partial, evaluate_every=1, kept=[0, 2, 4, 6, 8]) == 2
    assert evaluation_interval(partial, evaluate_every=3, kept=[0, 2, 4, 6, 8]) == 6
    assert evaluation_interval(partial, evaluate_every=0, kept=[0, 2]) == 0
    # Without regular checkpoints: only before the first round, and after the last one.
    assert evaluation_interval(partial, evaluate_every=1, kept=[]) == 10
    assert evaluation_interval(partial, evaluate_every=1, kept=[4, 6]) == 10
    whole = made_plan([1, 1], [0, 0])
    assert evaluation_interval(whole, evaluate_every=1, kept=[]) == 1


def test_clusters_are_paired_with_the_recorded_ones() -> None:
    recorded = np.array([0, 0, 1, 1, 2, -1])
    assert same_numbers(recorded, np.array([2, 2, 0, 0, 1, 1]), 3).tolist() == [2, 0, 1]
    # One client has moved from cluster 1 to cluster 0: each keeps its number.
    assert same_numbers(recorded, np.array([0, 0, 1, 0, 2, 2]), 3).tolist() == [0, 1, 2]
    # Clusters without clients keep their numbers where that is possible.
    assert same_numbers(np.array([0]), np.array([0]), 4).tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("method", "models", "because"),
    [
        (fk.FedAvg(), "one", ""),
        (fk.FedGroup(), "unknown", "eta_g"),
        (fk.FedGroup(eta_g=0.0), "by_cluster", ""),
        (fk.FedGroup(eta_g=0.0, newcomers="latest"), "unknown", "newcomers"),
        (fk.FlexCFL(), "by_cluster", ""),
        (fk.FlexCFL(newcomers="loss"), "by_choice", "newcomers"),
        (fk.FlexCFL(migration="loss"), "by_choice", "migration"),
        (fk.IFCA(), "by_choice", ""),
        (fk.IFCA(averaging="gradients"), "unknown", "averaging"),
        (fk.IFCA(shared_base=True), "unknown", "shared_base"),
        (fk.IFCA(eta_g=0.1), "unknown", "eta_g"),
        (fk.PACFL(), "by_cluster", ""),
        (fk.SCAFFOLD(), "unknown", ""),
    ],
)
def test_declarations(method: object, models: str, because: str) -> None:
    separation = requirements_of(method).separation
    assert (separation.models, separation.because) == (models, because)


def test_the_plan_in_words() -> None:
    plan = made_plan([4, NEVER, 1], [3, 10, 0])
    assert plan_text(plan, ["ward b"]) == [
        "to remove: ward b",
        "touched clusters: 0 from round 4, 2 from round 1 (of 3)",
        "rounds to repeat: 10 of 10, from the beginning",
        "clusters to train again: 0, 2",
        "cost: 25 of 100 trainings by clients in rounds (25% of the run)",
        "more, if other clients are in other clusters without the removed ones",
    ]
    late = made_plan([4, NEVER], [3, 10], start=3)
    assert "rounds to repeat: 7 of 10, from the checkpoint of round 3" in plan_text(late, ["b"])


def test_the_page_names_every_option_that_repeats_everything() -> None:
    page = (Path(__file__).parents[2] / "docs/forget.md").read_text()
    row = next(line for line in page.splitlines() if line.endswith("| everything |"))
    named = row.replace("optimiser", "optimizer")
    mixing = [option for option in SECTIONS.values() if option.repeatable and not option.by_client]
    assert [option.words for option in mixing if option.words not in named] == []
