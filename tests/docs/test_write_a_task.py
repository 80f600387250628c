"""The page "write your own task" is right: its tasks run in every world, and its statements on
tasks hold."""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, get_args, get_type_hints

import numpy as np
import pytest
from sybil import Document

import fedkin as fk
from fedkin.core import task_registry
from fedkin.core.client import Client
from fedkin.core.errors import TaskError
from fedkin.core.task import Down, Task
from fedkin.core.task_registry import RESERVED
from fedkin.data.federated import FederatedData, Ragged
from tests.docs import task_table
from tests.docs.code_blocks import blocks, language_of, read, run_page
from tests.server.memory_transport import MemoryTransport
from tests.server.small_federations import clustered_data, join_nodes, model_of, remote, simulated

TEXT = task_table.PAGE.read_text()
CLIENTS = np.arange(6)
GROUPS = {"single clients": [[client] for client in CLIENTS], "fleets": [[0, 1, 2], [3, 4, 5]]}


@pytest.fixture(scope="module")
def session_and_output(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], str]:
    """The session of the page, all of whose blocks have run, and their output."""
    output = io.StringIO()
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(output):
        patch.chdir(tmp_path_factory.mktemp("page"))
        session = run_page(task_table.PAGE)
    return session, output.getvalue()


@pytest.fixture(scope="module")
def page(session_and_output: tuple[dict[str, Any], str]) -> dict[str, Any]:
    """The session of the page."""
    return session_and_output[0]


def python_blocks(document: Document) -> list[str]:
    return [block.parsed for block in blocks(document) if language_of(block) == "python"]


def test_a_running_tested_and_deployed_task_has_forty_lines() -> None:
    first, *others = python_blocks(read(task_table.PAGE))
    tested = next(block for block in others if "compiled=compiled" in block)
    deployed = next(block for block in others if "jax_client" in block)
    lines = [
        line for block in (first, tested, deployed) for line in block.splitlines() if line.strip()
    ]
    assert 25 < len(lines) <= 40


def test_the_table_equals_the_declarations() -> None:
    assert task_table.stored() == task_table.table(), (
        "write it again: python -m tests.docs.task_table"
    )
    assert len(task_table.built_in()) > 10


def test_the_error_is_the_one_that_is_shown(
    session_and_output: tuple[dict[str, Any], str],
) -> None:
    _, output = session_and_output
    shown = [
        block.parsed for block in blocks(read(task_table.PAGE)) if language_of(block) == "text"
    ]
    assert len(shown) == 1 and shown[0] in output


def test_its_listed_names_exist() -> None:
    """Ways to travel, the model engine, and names that are taken."""
    ways = set(get_args(get_type_hints(Down)["kind"]))
    assert (
        set(re.findall(r"^\| `(\w+)\(", TEXT, re.MULTILINE)) >= (ways - {"setting"})
        and len(ways) == 7
    )
    engine = {"train", "gradient", "losses", "score", "predict", "scores", "raw_scores"}
    assert engine <= set(re.findall(r"^\| `(\w+)\(", TEXT, re.MULTILINE)) and all(
        hasattr(Client, n) for n in engine
    )
    taken = next(
        line for line in TEXT.splitlines() if line.startswith("* Call an array of its reply")
    )
    assert set(re.findall(r"`(\w+)`", taken)) == RESERVED
    fields = TEXT[TEXT.index("* Call a field") :].partition(", which every request has")[0]
    assert set(re.findall(r"`(\w+)`", fields)) == task_registry._REQUEST


# --- results of the tasks


def known() -> FederatedData:
    """Three clients, whose samples span 1, 2 and 3 of four dimensions."""
    axes = np.eye(4, dtype=np.float32)
    x = np.concatenate([axes[[0, 0]], axes[[0, 1, 1]], axes[[0, 1, 2]] + axes[[1, 2, 0]]])
    samples = [np.arange(0, 2), np.arange(2, 5), np.arange(5, 8)]
    return FederatedData(
        name="known",
        x=x,
        y=np.array([0, 1, 0, 0, 1, 2, 2, 2]),
        classes=3,
        train=Ragged.of(samples),
        test=Ragged.of(samples),
    )


def world_of(data: FederatedData, **options: Any) -> fk.SimulatedWorld:
    return fk.SimulatedWorld(data, fk.models.mclr(data), **options)


def test_ranks_and_sums_by_hand(page: dict[str, Any]) -> None:
    world = world_of(known())
    assert world.run(page["Rank"](), np.arange(3)).rank.tolist() == [1, 2, 3]
    assert world.run(page["Rank"](), np.array([2, 0])).rank.tolist() == [3, 1]
    assert world.run(page["LabelTotals"](), np.arange(3)).counts.tolist() == [3, 2, 3]
    assert (
        world.ledger.up == {"rank": 5 * 4, "label_totals": 3 * 3 * 4}
        and world.ledger.down["rank"] == 0
    )


def test_memory_is_of_the_client_and_of_the_run(page: dict[str, Any]) -> None:
    world = world_of(known())
    task = page["RankChanged"]()
    assert not world.run(task, np.arange(3)).changed.any()
    kept = world.memory()
    assert kept["clients/last_rank"].dtype == np.int64
    world.data = replace(world.data, train=world.data.train.select(np.array([0, 0, 2])))
    assert world.run(task, np.arange(3)).changed.tolist() == [False, True, False]
    assert not world.run(task, np.arange(3)).changed.any()
    world.recall(kept)
    assert world.run(task, np.arange(3)).changed.tolist() == [False, True, False]
    with pytest.raises(TaskError, match="above the limit of 4 bytes"):
        world_of(known(), memory_limit=4).run(task, np.arange(3))


def test_random_numbers_need_a_stream(page: dict[str, Any]) -> None:
    world = world_of(clustered_data())
    task = page["SampledRank"](samples=3)
    stream = fk.Stream(1)
    with pytest.raises(TaskError, match="run it with a stream"):
        world.run(task, CLIENTS)
    drawn = world.run(task, CLIENTS, stream).rank
    assert (drawn <= 3).all() and (world.run(task, CLIENTS[::-1], stream).rank[::-1] == drawn).all()


@pytest.mark.parametrize(
    "scenario", [None, fk.Population(dropout=0.4)], ids=["all reply", "drop-out"]
)
def test_two_forms_have_one_meaning(page: dict[str, Any], scenario: fk.Population | None) -> None:
    data = clustered_data()
    stream = fk.Stream(3, round=1)
    models = np.stack([model_of().initial(fk.Stream(seed).words()) for seed in range(3)])
    clients = np.array([4, 1, 1, 0, 5, 4, 2, 3])
    index = np.array([0, 2, 1, 0, 2, 2, 1, 0])
    task = page["FastAgreement"](models[0], models, index)
    one, two = (
        world_of(data, population=scenario, compiled=compiled).run(task, clients, stream)
        for compiled in (True, False)
    )
    np.testing.assert_allclose(one.agreement, two.agreement, rtol=1e-6)
    assert (one.arrived == two.arrived).all() and one.arrived.all() == (scenario is None)
    # A model agrees with itself.
    assert (one.agreement[index == 0] == 1)[one.arrived[index == 0]].all()


# --- in a federation


def examples(page: dict[str, Any]) -> Sequence[tuple[Task, fk.Stream | None]]:
    """Every task of the page that is no mistake."""
    models = np.stack([model_of().initial(fk.Stream(seed).words()) for seed in range(2)])
    index = CLIENTS % 2
    agreements = [page[name](models[0], models, index) for name in ("Agreement", "FastAgreement")]
    plain = [page[name]() for name in ("Rank", "LabelTotals", "RankChanged", "RankChanged")]
    return [(task, None) for task in (*plain, *agreements)] + [
        (page["SampledRank"](samples=3), fk.Stream(5))
    ]


@pytest.mark.parametrize("groups", GROUPS)
def test_deployed_tasks_reply_as_simulated_ones(page: dict[str, Any], groups: str) -> None:
    """No code of the server knows them."""
    transport = MemoryTransport()
    near = simulated(clustered_data(), model_of(), range(6))
    join_nodes(transport, GROUPS[groups], clustered_data(), model_of())
    far = remote(transport, clustered_data(), model_of())
    for world in (near, far):
        world.begin(fk.Stream(0, round=1))
        world.ledger = fk.Ledger() if world is near else world.ledger
    for task, stream in examples(page):
        here, there = (world.run(task, CLIENTS, stream) for world in (near, far))
        assert there.arrived.all() and there.arrays.keys() == here.arrays.keys()
        for name, values in here.arrays.items():
            np.testing.assert_allclose(
                there.arrays[name], values, rtol=1e-6, err_msg=f"{task.name}: {name}"
            )
    assert near.ledger.up == far.ledger.up and near.ledger.down == far.ledger.down
    assert far.ledger.measured_up["rank"] > far.ledger.up["rank"]


def test_a_site_that_does_not_know_a_task_does_not_reply(
    page: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    transport = MemoryTransport()
    join_nodes(transport, GROUPS["fleets"], clustered_data(), model_of())
    far = remote(transport, clustered_data(), model_of())
    far.begin(fk.Stream(0, round=1))
    monkeypatch.delitem(task_registry._kinds, "rank")
    assert not far.run(page["Rank"](), CLIENTS).arrived.any()
