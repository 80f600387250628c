"""FlexCFL under three hypotheses: each case is one in which the plain method differs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fedkin as fk
from fedkin.core.method import UNASSIGNED
from fedkin.methods import FedAvg, FlexCFL
from fedkin.scenarios.swaps import SwapAll, SwapPart
from fedkin.simulation.engine import SimulatedWorld
from fedkin.tasks.evaluate import evaluate
from papers import catalogue, results_csv
from papers.collective_section import counted, numbers_of, section
from papers.flexcfl.hypothesis_recipes import (
    BY_HYPOTHESIS,
    CELLS,
    ETA,
    LAST_RECEIVED,
    MAIN,
    NAME,
    TRAINED_GROUPS,
    WARM_CLIENTS,
    AmongTrainedGroups,
    FedAvgOnReceived,
    FlexCFLOnReceived,
    FlexCFLReceivedState,
    WarmSwapAll,
    WarmSwapPart,
    warm_clients,
)
from papers.flexcfl.page import change, hypotheses
from tests.methods.flexcfl_clients import ONE, ROUND, TRUE_CLUSTERS, given, swap, world

# --- inter-group aggregation covers only the groups that trained


def test_a_group_that_did_not_train_keeps_its_model_and_is_not_read() -> None:
    """Groups 0 and 1 train half way to (3, 1, 1) and (1, 5, 1), then w <- (w + eta v/|v|) / (1 +
    eta/|v|) with the other one's v. Group 2 has clients, and none of them in the cohort."""
    first = np.array([2.5, 1, 1])
    second = np.array([1, 3.5, 1])
    untrained = ONE + [0, 0, 1]
    eta = 2.0

    def mixed(own: np.ndarray, other: np.ndarray) -> np.ndarray:
        norm = np.linalg.norm(other)
        return (own + eta * other / norm) / (1 + eta / norm)

    expected = [mixed(first, second), mixed(second, first), untrained]
    options: dict[str, Any] = {"eta_g": eta, "migration": "none"}
    cohort = np.array([0, 1])
    after = AmongTrainedGroups(**options).round(world(), given(TRUE_CLUSTERS), cohort, ROUND)
    np.testing.assert_allclose(after.models, expected, rtol=1e-6)
    np.testing.assert_array_equal(after.assignment, TRUE_CLUSTERS)

    plain = FlexCFL(**options).round(world(), given(TRUE_CLUSTERS), cohort, ROUND)
    assert np.abs(plain.models - expected).max(axis=1).min() > 0.05  # all three differ


# --- swaps touch warm clients only

CLIENTS = 12
COHORT = 2
PRETRAINED = 4
ROUNDS = 3


def two_classes_each() -> Any:
    return fk.data.digits(clients=CLIENTS, partition="shards")


@pytest.mark.parametrize("round", [2, 4, 8])
def test_warm_clients_are_those_with_a_group_when_the_data_shift(round: int) -> None:
    """The state after round - 1 has the same clients; round 8 comes after all turns."""
    data = fk.data.digits(clients=CLIENTS)
    run = fk.simulate(
        FlexCFL(clusters=2, alpha=PRETRAINED // 2, steps=2),
        data,
        fk.models.mclr(data),
        rounds=round - 1,
        cohort=fk.Cohort(COHORT, selection="round_robin"),
        seed=5,
    )
    warm = warm_clients(
        np.arange(CLIENTS), fk.Stream(5, round, "scenario"), cohort=COHORT, pretrained=PRETRAINED
    )
    np.testing.assert_array_equal(warm, np.flatnonzero(run.assignment != UNASSIGNED))
    assert len(warm) < CLIENTS or round == 8


def shifted(shift: Any, data: Any, round: int) -> set[int]:
    _, moved = shift.step(
        data, data, round, np.arange(data.clients), fk.Stream(0, round, "scenario")
    )
    return set(np.flatnonzero(moved).tolist())


@pytest.mark.parametrize(("plain", "warm_only"), [(SwapAll, WarmSwapAll), (SwapPart, WarmSwapPart)])
def test_a_cold_client_never_swaps(plain: Any, warm_only: Any) -> None:
    data = two_classes_each()
    moved = set[int]()
    moved_by_plain = set[int]()
    for round in range(1, ROUNDS + 1):
        stream = fk.Stream(0, round, "scenario")
        warm = warm_clients(np.arange(CLIENTS), stream, cohort=COHORT, pretrained=PRETRAINED)
        cold = set(range(CLIENTS)) - set(warm.tolist())
        shift = warm_only(1.0, cohort=COHORT, pretrained=PRETRAINED)
        of_round = shifted(shift, data, round)
        assert cold and not of_round & cold
        moved |= of_round
        moved_by_plain |= shifted(plain(1.0), data, round) & cold
    assert moved and moved_by_plain


# --- clients are tested on the model that they received last


def received(state: Any, models: np.ndarray) -> FlexCFLReceivedState:
    return FlexCFLReceivedState(**vars(state), received=np.asarray(models, np.float32))


def test_a_client_keeps_the_model_of_the_last_round_in_which_it_was_selected() -> None:
    """Client 0 is selected in round 1 and client 3, of the same group, in round 2."""
    method = FlexCFLOnReceived(migration="none")
    start = given(TRUE_CLUSTERS)
    state = received(start, np.zeros((6, 3)))
    first = method.round(world(), state, np.array([0]), ROUND)
    second = method.round(world(), first, np.array([3]), ROUND.at(2))
    assert isinstance(second, FlexCFLReceivedState)
    served = second.models_for(np.arange(6))
    models = served.models[served.model_index]
    np.testing.assert_allclose(models[0], start.models[0])
    np.testing.assert_allclose(models[3], first.models[0])
    np.testing.assert_array_equal(models[[1, 2, 4, 5]], 0)  # never selected
    assert not np.allclose(first.models[0], start.models[0])
    assert not np.allclose(second.models[0], first.models[0])


def test_a_client_that_migrated_receives_its_new_groups_model_when_it_is_selected() -> None:
    """Clients 0 and 1 have exchanged their data and change groups; only client 1 is selected."""
    w = world()
    state = received(given(TRUE_CLUSTERS), np.full((6, 3), 9.0))
    swap(w, 0, 1)
    after = FlexCFLOnReceived().round(w, state, np.array([1]), ROUND)
    assert isinstance(after, FlexCFLReceivedState)
    np.testing.assert_array_equal(after.assignment[:2], [1, 0])
    np.testing.assert_allclose(after.received[1], state.models[0])
    np.testing.assert_array_equal(after.received[0], 9.0)


def test_unselected_clients_keep_the_accuracy_of_the_old_model() -> None:
    """In round 2 clients 2 and 3 are tested on the model after round 1, the others on w_0."""
    data = fk.data.digits(clients=6)
    model = fk.models.mclr(data)
    turns = fk.Cohort(2, selection="round_robin")

    def run(method: Any, rounds: int) -> Any:
        return fk.simulate(method, data, model, rounds=rounds, cohort=turns, seed=1)

    simulated = SimulatedWorld(data, model, fk.SGD())
    start = FedAvg().init(simulated, fk.Stream(1, 0, "method/init")).models[0]
    models = np.stack([start, run(FedAvg(), 1).models[0]])
    index = np.array([0, 0, 1, 1, 0, 0])
    scores = evaluate(simulated, models, np.arange(6), index, split="test")
    on_received = run(FedAvgOnReceived(), 2)
    expected = scores.correct.sum() / scores.examples.sum()
    accuracy = on_received.history["accuracy"]
    assert accuracy[2] == pytest.approx(expected)
    # The first cohort received w_0.
    assert accuracy[1] == accuracy[0]
    of_plain = run(FedAvg(), 2)
    assert abs(of_plain.history["accuracy"][2] - expected) > 0.01
    np.testing.assert_array_equal(of_plain.models, on_received.models)


def test_flexcfl_trains_as_before_and_starts_with_w_0() -> None:
    data = fk.data.digits(clients=6)
    model = fk.models.mclr(data)
    runs = [
        fk.simulate(kind(clusters=2, alpha=1, steps=2), data, model, rounds=2, cohort=3)
        for kind in (FlexCFL, FlexCFLOnReceived)
    ]
    np.testing.assert_array_equal(runs[0].models, runs[1].models)
    np.testing.assert_array_equal(runs[0].assignment, runs[1].assignment)
    plain, on_received = (run.history["accuracy"].iloc[-1] for run in runs)
    assert plain != on_received


# --- the recipes and their table


def test_a_hypothesis_changes_one_thing() -> None:
    for hypothesis, cells in BY_HYPOTHESIS.items():
        for cell in cells:
            main = MAIN[cell.setting.row, cell.variant_of]
            clusters = main.setting.clusters
            differing = {
                "shift": cell.setting.shift != main.setting.shift,
                "method": cell.method(clusters) != main.method(clusters),
            }
            changed = "shift" if hypothesis == WARM_CLIENTS else "method"
            assert [name for name in differing if differing[name]] == [changed]
            assert (cell.published, cell.setting.draws, cell.setting.seeds, cell.selection) == (
                main.published,
                main.setting.draws,
                main.setting.seeds,
                main.selection,
            )
            options = vars(main.method(clusters)).items()
            assert options <= vars(cell.method(clusters)).items()
    assert list(BY_HYPOTHESIS) == [TRAINED_GROUPS, WARM_CLIENTS, LAST_RECEIVED]


def test_the_shift_knows_the_size_of_the_cold_start() -> None:
    warm = {
        (cell.setting.row.split(",")[0].split(":")[0], cell.setting.shift.pretrained)
        for cell in BY_HYPOTHESIS[WARM_CLIENTS]
        if isinstance(cell.setting.shift, (WarmSwapAll, WarmSwapPart))
    }
    assert warm == {("MNIST-MCLR", 20 * 3), ("FEMNIST-MCLR", 20 * 5)}
    part = [s for c in CELLS if isinstance(s := c.setting.shift, WarmSwapPart)]
    assert part and all(shift.as_coded and shift.probability == 0.05 for shift in part)


def runs(table: str, row: str, column: str, best: list[float]) -> list[dict[str, Any]]:
    return [
        {"table": table, "row": row, "column": column, "seed": seed, "best": value / 100}
        for seed, value in enumerate(best)
    ]


ROW = "FEMNIST-MCLR, shared images: swap part"
COLUMN = ETA
UNDER = f"{COLUMN}, {TRAINED_GROUPS}"
MAIN_RUNS = runs("IV", ROW, COLUMN, [80.0, 81.0, 82.0, 81.0, 81.0])
TESTED_RUNS = runs(NAME, ROW, UNDER, [84.0, 85.0, 86.0, 85.0])


def test_numbers_under_a_hypothesis_reproduce_nothing() -> None:
    numbers = catalogue.tables()["flexcfl-hypotheses"][1].numbers([*MAIN_RUNS, *TESTED_RUNS])
    assert len(numbers) == len(CELLS) and counted(numbers) == []
    all_numbers = numbers_of({"flexcfl": [*MAIN_RUNS, *TESTED_RUNS]})
    assert counted(all_numbers) == counted(numbers_of({"flexcfl": MAIN_RUNS}))
    text = results_csv.text({"flexcfl": TESTED_RUNS})
    (line,) = [line for line in text.splitlines() if f'"{ROW}","{UNDER}"' in line]
    assert line.startswith("flexcfl,flexcfl-hypotheses") and f"a variant of {COLUMN}" in line


def test_the_table_compares_means_of_the_same_seeds() -> None:
    """Main: 80, 81, 82 and 81 of the shared seeds, without the fifth."""
    text = hypotheses([*MAIN_RUNS[:4], *runs("IV", ROW, COLUMN, [0] * 9)[8:], *TESTED_RUNS])
    assert f"{ROW} | {COLUMN} | 90.2 | 81.0 | 85.0 | 4 | nearer |" in text
    assert text.count("\n| ") == 2  # the line below the head, and this one
    assert text.endswith(f"Not run: {len(CELLS) - 1} numbers of this table.")


@pytest.mark.parametrize(
    ("printed", "under", "verdict"),
    [
        # Differences 3.5, 4 and 4.5: by 4, deviation 0.5.
        (90.0, [84.0, 85.0, 86.0], "nearer"),
        (80.0, [84.0, 85.0, 86.0], "farther"),
        # Differences -2, 0.5 and 3: by 0.5, deviation 2.5.
        (90.0, [78.5, 81.5, 84.5], "same"),
        # Beyond the printed number and as far from it: 3 below, 3 above.
        (84.0, [87.0, 87.0, 87.0], "same"),
        (90.0, [95.0, 95.0], "too few"),
    ],
)
def test_nearer_by_more_than_the_spread(printed: float, under: list[float], verdict: str) -> None:
    pairs = list(zip([80.5, 81.0, 81.5], under, strict=False))
    assert change(printed, pairs) == verdict


def test_the_numbers_outside_name_the_hypothesis_that_was_tested() -> None:
    text = section({"flexcfl": [*MAIN_RUNS, *TESTED_RUNS]})
    (line,) = [
        line for line in text.splitlines() if line.startswith(f"| FlexCFL | {ROW} | {COLUMN} |")
    ]
    assert f"| 5 | {TRAINED_GROUPS}: 85.0; " in line
