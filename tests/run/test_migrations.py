"""Migrations, written down round by round: they add up to the assignments, live, from disk and
after a resume."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import fedkin as fk
from fedkin.run.folder.migrations import find_migrations, migrants, migrations_table, replay
from fedkin.run.run import Run
from tests.option_lists import simulate_arguments


def test_changes_list_the_clients_that_moved() -> None:
    moved = find_migrations(3, np.array([0, 2, 3]), np.array([0, 2, -1]))
    assert moved == {"round": 3, "clients": [0, 2, 3], "clusters": [0, 2, -1]}


def test_replay_gives_every_round() -> None:
    moves = [
        {"round": 0, "clients": [1], "clusters": [0]},
        {"round": 2, "clients": [0, 1], "clusters": [1, 1]},
    ]
    assert np.array_equal(list(replay(moves, 2, 3)), [[-1, 0], [-1, 0], [1, 1], [1, 1]])


def test_replay_of_another_federation_is_refused() -> None:
    with pytest.raises(IndexError):
        list(replay([{"round": 0, "clients": [5], "clusters": [0]}], 2, 1))


def test_a_run_knows_them_live_from_disk_and_after_a_resume(tmp_path: Path) -> None:
    data = fk.planted("digits", "rotation", clusters=2, clients=12, seed=0)

    def go(out: Path | None, rounds: int, resume: bool = False) -> Run:
        settings: dict = {
            "cohort": 6,
            "shift": fk.SwapAll(probability=0.3),
            "checkpoint_every": 2,
            "resume": resume,
        }
        return fk.simulate(
            fk.IFCA(clusters=2),
            data,
            fk.models.mclr(data),
            rounds=rounds,
            out=out,
            **simulate_arguments(settings),
        )

    whole = go(tmp_path / "whole", 6)
    go(tmp_path / "parts", 4)
    parts = go(tmp_path / "parts", 6, resume=True)
    assert whole.migrations[0]["round"] == 0 and len(whole.migrations) > 1
    assert whole.migrations == parts.migrations == Run.load(tmp_path / "parts").migrations
    assert (tmp_path / "whole/migrations.jsonl").read_bytes() == (
        tmp_path / "parts/migrations.jsonl"
    ).read_bytes()
    rounds = list(replay(whole.migrations, 12, 6))
    assert len(rounds) == 7 and np.array_equal(rounds[-1], whole.assignment)
    saved = whole.save(tmp_path / "saved")
    assert Run.load(saved).migrations == whole.migrations


def test_many_clients_that_migrate_together_are_named_by_the_first_and_the_last() -> None:
    """What a round writes does not follow N where all clients get a cluster, or a federation is
    dealt in blocks."""
    after = np.zeros(5000, np.int64)
    after[2000:3000] = 1
    after[3500:] = -1
    line = find_migrations(0, np.arange(3500), after[:3500])
    assert line == {
        "round": 0,
        "clients": [[0, 1999], [2000, 2999], [3000, 3499]],
        "clusters": [0, 1, 0],
    }
    clients, clusters = migrants(line)
    assert np.array_equal(clients, np.arange(3500)) and np.array_equal(clusters, after[:3500])
    *_, last = replay([line], 5000, 3)
    assert np.array_equal(last, after)
    scattered = find_migrations(0, np.arange(5000), np.arange(5000) % 3)  # nothing is saved
    assert len(scattered["clients"]) == 5000 == len(scattered["clusters"])


@pytest.mark.parametrize(
    ("clients", "clusters"),
    [
        ([0, 1], [0]),
        ([[0, 1]], [0, 1]),
        ([[3, 1]], [0]),
        ([[0, 10**15]], [0]),
        ([[0, 1, 2]], [0]),
        ([[[0]]], [0]),
    ],
)
def test_invalid_migrations_are_refused(clients: list, clusters: list) -> None:
    with pytest.raises(ValueError, match="invalid migrations"):
        migrants({"round": 0, "clients": clients, "clusters": clusters})


def test_as_a_table_every_change_is_a_row() -> None:
    spans = {"round": 3, "clients": [[0, 2]], "clusters": [1]}
    table = migrations_table(
        [spans, {"round": 1, "clients": [2, 0], "clusters": [1, 0]}], 4, {0: "a", 1: "b", 2: "c"}
    )
    assert table.columns.tolist() == ["round", "client", "name", "from_cluster", "to_cluster"]
    assert table.to_numpy().tolist() == [
        [1, 2, "c", -1, 1],
        [1, 0, "a", -1, 0],
        [3, 0, "a", 0, 1],
        [3, 1, "b", -1, 1],
        [3, 2, "c", 1, 1],
    ]
    assert migrations_table([], 4).columns.tolist() == [
        "round",
        "client",
        "from_cluster",
        "to_cluster",
    ]


def test_the_table_of_a_run_ends_with_its_assignment() -> None:
    planted = fk.planted("digits", "label_permutation", clusters=2, clients=10, seed=0)
    method = fk.FlexCFL(clusters=2, migration="label_aware")
    shift = fk.SwapAll(probability=0.5)
    run = fk.simulate(method, planted, fk.models.mclr(planted), rounds=4, cohort=10, shift=shift)
    table = run.migrations_frame()
    last = table.groupby("client")["to_cluster"].last()
    assert last.to_dict() == {client: k for client, k in enumerate(run.assignment) if k >= 0}
    assert (table["from_cluster"] >= 0).sum() == run.summary()["migrations"] > 0
