"""A checkpoint comes back as it was, or not at all."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedkin.core.codec import content_digest, decode, encode
from fedkin.core.errors import CheckpointError, MethodError
from fedkin.core.method import UNASSIGNED, State
from fedkin.run.folder import checkpoint
from fedkin.run.folder.checkpoint import BestRound, Checkpoint
from tests.methods.test_conformance import assert_same
from tests.run.toy_method import ToyState


def toy_state(seed: int = 0) -> ToyState:
    rng = np.random.default_rng(seed)
    models = rng.normal(size=(2, 3)).astype(np.float32)
    return ToyState(models, np.array([0, 1, UNASSIGNED, 1]), np.arange(4), np.array(2**40 + seed))


def test_message_sizes_are_kept_where_there_were_messages(tmp_path: Path) -> None:
    """A checkpoint of a simulation has no such entry, and one without it can be read."""
    simulated = Checkpoint(round=0, state=toy_state(), down={"train": 4}, up={}, seconds=0.0)
    deployed = Checkpoint(
        round=1,
        state=toy_state(),
        down={"train": 4},
        up={},
        seconds=0.0,
        memory={},
        measured_down={"hello": 7, "train": 20},
        measured_up={"train": 9},
    )
    for one in (simulated, deployed):
        path = checkpoint.save(tmp_path, one, "run")
        found, _ = checkpoint.newest(tmp_path)
        assert (found.down, found.measured_down, found.measured_up) == (
            one.down,
            one.measured_down,
            one.measured_up,
        )
        assert ("measured" in decode(path.read_bytes()).header) == bool(one.measured_down)


def kept(round: int, seed: int = 0) -> Checkpoint:
    memory = {
        "noted_labels": np.arange(8, dtype=np.int32).reshape(4, 2) + seed,
        "watch": np.array([0.5, -1]),
    }
    return Checkpoint(
        round=round,
        state=toy_state(seed),
        down={"train": 10, "scoring.evaluate": 3},
        up={"train": 4},
        seconds=1.5,
        memory=memory,
    )


def test_it_comes_back_bit_for_bit(tmp_path: Path) -> None:
    saved = kept(7)
    checkpoint.save(tmp_path, saved, "run")
    found = checkpoint.load(tmp_path, "run", clients=4, parameters=3)
    assert found is not None and isinstance(found.state, ToyState)
    assert_same(saved.state, found.state)
    assert (found.round, found.down, found.up, found.seconds) == (7, saved.down, saved.up, 1.5)
    assert found.memory.keys() == saved.memory.keys()
    for name, array in saved.memory.items():
        assert (array.dtype, array.tobytes()) == (
            found.memory[name].dtype,
            found.memory[name].tobytes(),
        )
        assert array.shape == found.memory[name].shape


def test_arrays_of_options_are_kept_by_section(tmp_path: Path) -> None:
    """Also in the best round's state, and those without a number."""
    extras = {"late": {"counts": np.array([3, 1])}, "personal": {"start": np.zeros(0, np.float32)}}
    state = replace(toy_state(), extras=extras)
    path = checkpoint.save(
        tmp_path, replace(kept(3), state=state, best=BestRound(2, 0.5, state, {})), "run"
    )
    assert {"options/late/counts", "options/personal/start"} <= decode(
        path.read_bytes()
    ).arrays.keys()
    found, _ = checkpoint.newest(tmp_path)
    assert found.best is not None
    for read in (found.state, found.best.state):
        assert_same(read, state)
        assert_same(state, read)


def test_memory_may_be_called_like_a_part_of_the_state(tmp_path: Path) -> None:
    mine = {"models": np.zeros(2), "assignment": np.arange(9), "memory/models": np.ones(1)}
    checkpoint.save(
        tmp_path,
        Checkpoint(round=3, state=toy_state(), down={}, up={}, seconds=0.0, memory=mine),
        "run",
    )
    found = checkpoint.load(tmp_path, "run", clients=4, parameters=3)
    assert found is not None
    np.testing.assert_array_equal(found.state.models, toy_state().models)
    assert {name: array.tolist() for name, array in found.memory.items()} == {
        n: a.tolist() for n, a in mine.items()
    }


def test_the_best_round_and_the_reason_of_an_early_end_come_back(tmp_path: Path) -> None:
    best = BestRound(4, 0.75, toy_state(1), {"clients/head": np.arange(4.0), "models": np.ones(2)})
    stopped = {"round": 7, "of": 50, "reason": "patience"}
    saved = replace(kept(7), best=best, stopped=stopped, records={"metrics.jsonl": "abc"})
    checkpoint.save(tmp_path, saved, "run")
    found, run = checkpoint.newest(tmp_path)
    assert run == "run" and found.stopped == stopped and found.records == saved.records
    assert found.best is not None and (found.best.round, found.best.score) == (4, 0.75)
    assert isinstance(found.best.state, ToyState)
    assert_same(found.best.state, best.state)
    assert_same(found.state, saved.state)
    for mine, theirs in ((found.memory, saved.memory), (found.best.memory, best.memory)):
        assert {name: array.tolist() for name, array in mine.items()} == {
            n: a.tolist() for n, a in theirs.items()
        }


def test_nothing_to_remember_is_nothing_kept(tmp_path: Path) -> None:
    checkpoint.save(
        tmp_path, Checkpoint(round=3, state=toy_state(), down={}, up={}, seconds=0.0), "run"
    )
    found = checkpoint.load(tmp_path, "run", clients=4, parameters=3)
    assert found is not None and found.memory == {}


def test_memory_in_column_order_is_kept_too(tmp_path: Path) -> None:
    kept = {"counts": np.asfortranarray(np.arange(12).reshape(3, 4))[:, ::2]}
    checkpoint.save(
        tmp_path,
        Checkpoint(round=0, state=toy_state(), down={}, up={}, seconds=0.0, memory=kept),
        "run",
    )
    found = checkpoint.load(tmp_path, "run", clients=4, parameters=3)
    assert found is not None
    np.testing.assert_array_equal(found.memory["counts"], kept["counts"])


def test_views_and_column_order_are_kept_too(tmp_path: Path) -> None:
    models = np.asfortranarray(np.arange(12, dtype=np.float32).reshape(3, 4))[:, ::2]
    checkpoint.save(
        tmp_path,
        Checkpoint(
            round=0, state=State(models, np.arange(6)[::2] // 2), down={}, up={}, seconds=0.0
        ),
        "run",
    )
    found = checkpoint.load(tmp_path, "run", 3, 2)
    assert found is not None
    np.testing.assert_array_equal(found.state.models, models)
    np.testing.assert_array_equal(found.state.assignment, [0, 1, 2])


def test_the_newest_two_are_kept(tmp_path: Path) -> None:
    for round in (0, 9, 10, 100):
        checkpoint.save(tmp_path, kept(round), "run")
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        "round-000010.safetensors",
        "round-000100.safetensors",
    ]


def test_newer_is_a_matter_of_numbers(tmp_path: Path) -> None:
    (tmp_path / "round-mine.safetensors").write_text("not ours")
    for round in (999_998, 999_999, 1_000_000):
        checkpoint.save(tmp_path, kept(round), "run")
    assert (tmp_path / "round-1000000.safetensors").exists()
    found = checkpoint.load(tmp_path, "run", 4, 3)
    assert found is not None and found.round == 1_000_000
    assert (tmp_path / "round-mine.safetensors").exists()


def test_the_last_round_is_known_without_reading_a_checkpoint(tmp_path: Path) -> None:
    assert checkpoint.last_round(tmp_path) is None
    for round in (9, 10):
        checkpoint.save(tmp_path, kept(round), "run")
    for path in tmp_path.iterdir():
        path.write_text("damaged")
    assert checkpoint.last_round(tmp_path) == 10


def test_no_checkpoint_is_no_error(tmp_path: Path) -> None:
    assert checkpoint.load(tmp_path / "nowhere", "run", 4, 3) is None


def test_another_run_is_refused(tmp_path: Path) -> None:
    checkpoint.save(tmp_path, kept(1), "run")
    with pytest.raises(CheckpointError, match="belongs to another run"):
        checkpoint.load(tmp_path, "another", 4, 3)


@pytest.mark.parametrize(("clients", "parameters"), [(5, 3), (4, 2)])
def test_other_shapes_are_refused(tmp_path: Path, clients: int, parameters: int) -> None:
    checkpoint.save(tmp_path, kept(1), "run")
    with pytest.raises(
        CheckpointError, match=f"expected models of {parameters} parameters and {clients} clients"
    ):
        checkpoint.load(tmp_path, "run", clients, parameters)


def test_another_layout_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as before:
        before.setattr(checkpoint, "LAYOUT", "1")  # of records and states that are no more
        checkpoint.save(tmp_path, kept(1), "run")
    with pytest.raises(CheckpointError, match=r"no checkpoint in .* can be read"):
        checkpoint.load(tmp_path, "run", 4, 3)


def rewritten(path: Path, **changes: Any) -> None:
    """Another version's file: whole, with another header."""
    header, arrays = decode(path.read_bytes())
    header = {name: value for name, value in header.items() if name != "digest"} | changes
    path.write_bytes(encode(header | {"digest": content_digest(header, arrays)}, arrays))


def test_a_state_of_a_method_that_is_not_imported_is_named(tmp_path: Path) -> None:
    path = checkpoint.save(tmp_path, kept(3), "run")
    rewritten(path, state="mine.methods.MyState")
    reason = "it holds a state of the unknown type 'mine.methods.MyState'; import its method first"
    assert checkpoint.damaged(tmp_path) == {path.name: reason}
    with pytest.raises(CheckpointError, match=reason):
        checkpoint.load(tmp_path, "run", 4, 3)
    rewritten(path, state="elsewhere.ToyState")  # a class that has moved
    assert checkpoint.damaged(tmp_path) == {} and isinstance(
        checkpoint.newest(tmp_path)[0].state, ToyState
    )


def test_damaged_checkpoints_are_listed_with_their_reasons(tmp_path: Path) -> None:
    paths = [checkpoint.save(tmp_path, kept(round), "run", keep=9) for round in range(5)]
    paths[0].write_bytes(b"torn")
    rewritten(paths[1], layout="9")
    header, arrays = decode(paths[2].read_bytes())
    paths[2].write_bytes(encode(header | {"seconds": 0.0}, arrays))
    paths[3].write_bytes(encode({}, {}))
    assert checkpoint.damaged(tmp_path) == {
        paths[0].name: "the data are truncated: shorter than their header says",
        paths[1].name: "another version of fedkin wrote it (layout 9, expected 6)",
        paths[2].name: "its content differs from its digest",
        paths[3].name: "'layout'",
    }
    assert checkpoint.newest(tmp_path)[0].round == 4


@given(where=st.floats(0, 1, exclude_max=True), bit=st.integers(0, 7))
def test_one_flipped_bit_anywhere_is_noticed(
    tmp_path_factory: pytest.TempPathFactory, where: float, bit: int
) -> None:
    folder = tmp_path_factory.mktemp("flip")
    path = checkpoint.save(folder, kept(5), "run")
    content = bytearray(path.read_bytes())
    content[int(where * len(content))] ^= 1 << bit
    path.write_bytes(content)
    with pytest.raises(CheckpointError):
        checkpoint.load(folder, "run", 4, 3)


@given(share=st.floats(0, 1, exclude_max=True))
def test_a_damaged_newest_one_falls_back_to_the_older(
    tmp_path_factory: pytest.TempPathFactory, share: float
) -> None:
    folder = tmp_path_factory.mktemp("cut")
    checkpoint.save(folder, kept(5, seed=5), "run")
    newest = checkpoint.save(folder, kept(6, seed=6), "run")
    content = newest.read_bytes()
    newest.write_bytes(content[: int(share * len(content))])
    found = checkpoint.load(folder, "run", 4, 3)
    assert found is not None and found.round == 5
    np.testing.assert_array_equal(found.state.models, toy_state(5).models)


def test_falling_back_is_one_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    checkpoint.save(tmp_path, kept(5), "run")
    checkpoint.save(tmp_path, kept(6), "run").write_bytes(b"not a checkpoint")
    checkpoint.load(tmp_path, "run", 4, 3)
    (record,) = caplog.records
    assert (
        "the older round-000005.safetensors is used (round-000006.safetensors: "
        in record.getMessage()
    )


def test_all_damaged_is_an_error(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    for round in (5, 6):
        checkpoint.save(tmp_path, kept(round), "run").write_bytes(b"not a checkpoint")
    with caplog.at_level("WARNING"), pytest.raises(CheckpointError):
        checkpoint.load(tmp_path, "run", 4, 3)
    assert not caplog.records  # the error says it all
    with pytest.raises(
        CheckpointError, match=r"no checkpoint in .* can be read .*round-000006.*round-000005"
    ):
        checkpoint.load(tmp_path, "run", 4, 3)


@pytest.mark.parametrize(
    ("state", "reason"),
    [
        (
            State(np.full((1, 3), np.nan, np.float32), np.zeros(4, np.int64)),
            "models are not finite",
        ),
        (State(np.zeros((1, 3), np.float32), np.array([0, 0, 0, 1])), "clusters outside 0..0"),
        (State(np.zeros((1, 3), np.float32), np.array([0, 0, 0, -2])), "clusters outside 0..0"),
    ],
)
def test_impossible_states_are_refused(tmp_path: Path, state: State, reason: str) -> None:
    checkpoint.save(tmp_path, Checkpoint(round=1, state=state, down={}, up={}, seconds=0.0), "run")
    with pytest.raises(CheckpointError, match=reason):
        checkpoint.load(tmp_path, "run", 4, 3)


def test_a_state_must_be_arrays(tmp_path: Path) -> None:
    @dataclass(frozen=True)
    class Loose(State):
        note: str

    loose = Loose(np.zeros((1, 3), np.float32), np.zeros(4, np.int64), "hello")
    with pytest.raises(MethodError, match=r"Loose\.note must be a NumPy array .* got str"):
        checkpoint.save(
            tmp_path, Checkpoint(round=1, state=loose, down={}, up={}, seconds=0.0), "run"
        )
    assert not list(tmp_path.iterdir())


def test_the_memory_of_many_clients_is_stored_in_few_bytes(tmp_path: Path) -> None:
    many = 300_000
    state = ToyState(np.zeros((2, 3), np.float32), np.full(many, 1), np.arange(4), np.array(5))
    memory = {
        "cluster_metrics_shift_since": np.full(many, -1),
        "clients/counts": np.zeros((many, 10), np.int32),
    }
    path = checkpoint.save(
        tmp_path,
        Checkpoint(round=3, state=state, down={}, up={}, seconds=1.0, memory=memory),
        "run",
    )
    assert path.stat().st_size < 200_000
    back = checkpoint.load(tmp_path, "run", many, 3)
    assert back is not None and np.array_equal(back.state.assignment, state.assignment)
    assert all(np.array_equal(back.memory[name], array) for name, array in memory.items())


def test_all_checkpoints_may_stay(tmp_path: Path) -> None:
    for round in (0, 2, 10):
        checkpoint.save(tmp_path, kept(round), "run", keep=None)
    assert checkpoint.stored_rounds(tmp_path) == [0, 2, 10]
    assert checkpoint.of_round(tmp_path, 2).round == 2
    checkpoint.remove(tmp_path, 2)
    checkpoint.remove(tmp_path, 2)  # it is gone already
    assert checkpoint.stored_rounds(tmp_path) == [0, 10]
    (tmp_path / "round-000010.safetensors").write_bytes(b"damaged")
    with pytest.raises(CheckpointError, match=r"round-000010\.safetensors cannot be read"):
        checkpoint.of_round(tmp_path, 10)
    with pytest.raises(CheckpointError, match=r"round-000003\.safetensors cannot be read"):
        checkpoint.of_round(tmp_path, 3)
