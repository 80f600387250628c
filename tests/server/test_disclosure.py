"""Disclosure floors: a site refuses replies below them, by name, whatever the server asks."""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedkin.config.plan import Plan
from fedkin.config.server_settings import DisclosureSettings
from fedkin.core.errors import ConfigError
from fedkin.core.randomness import Stream
from fedkin.core.training import LocalTraining
from fedkin.methods.fedavg import FedAvg
from fedkin.run.loop import run
from fedkin.server.disclosure import (
    SINGLE,
    TASKS,
    DisclosureError,
    Floors,
    models_in,
    spent_bytes,
    subjects_behind,
)
from fedkin.tasks import Rows, Sums, Task, integers
from fedkin.tasks.classes import Classes
from fedkin.tasks.columns import ColumnSums
from fedkin.tasks.evaluate import Evaluate
from fedkin.tasks.pacfl import Subspace
from fedkin.tasks.train import Train
from fedkin.tasks.train import train as train_models
from tests.server.egress_sites import floors_of, outbox_of, recorded
from tests.server.memory_transport import MemoryTransport
from tests.server.small_federations import P, fake_node, fake_remote

MODELS = np.zeros((2, 5), np.float32)
EVERY = np.arange(3)
SAMPLES = np.array([12, 40, 8])


def train(**options: Any) -> Train:
    return Train(MODELS, LocalTraining(), **options)


def refusal(floors: Floors, task: Task, clients: Any = EVERY) -> tuple[str, str]:
    """The floor by which a request is refused, and the reason; empty if it is answered."""
    try:
        floors.check_task(task, np.asarray(clients))
    except DisclosureError as error:
        return error.floor, str(error)
    return "", ""


# --- subjects


def test_subjects_are_those_of_the_smallest_number() -> None:
    index = np.array([0, 0, 1])
    # Updates of single clients: the smallest client. Means by model: the smallest model.
    assert subjects_behind(train(model_index=index), EVERY, SAMPLES) == 8
    means = train(model_index=index, reduce=True)
    assert subjects_behind(means, EVERY, SAMPLES) == 8
    assert (
        subjects_behind(train(model_index=np.array([1, 0, 1]), reduce=True), EVERY, SAMPLES) == 20
    )
    # Clients that choose a model may be its only ones.
    assert subjects_behind(train(reduce=True), EVERY, SAMPLES) == 8
    # Sums stand for all who are asked.
    assert subjects_behind(ColumnSums(np.zeros(2)), EVERY, SAMPLES) == 60
    assert subjects_behind(ColumnSums(np.zeros(2)), EVERY[:2], SAMPLES) == 52


def test_subjects_may_be_clients() -> None:
    index = np.array([1, 0, 1])
    assert subjects_behind(train(model_index=index), EVERY, SAMPLES, "clients") == 1
    assert subjects_behind(train(model_index=index, reduce=True), EVERY, SAMPLES, "clients") == 1
    assert subjects_behind(ColumnSums(np.zeros(2)), EVERY, SAMPLES, "clients") == 3


def test_the_floor_of_subjects() -> None:
    floors = floors_of(SAMPLES, subjects=10)
    single = train(model_index=np.zeros(1, np.int64))
    assert refusal(floors, single, [0]) == ("", "")
    assert refusal(floors, single, [2]) == (
        "subjects",
        "disclosure.subjects: a number in the reply to train would stand for 8 samples, but this "
        "site's floor is 10",
    )
    assert refusal(floors, train(model_index=np.zeros(3, np.int64), reduce=True))[0] == ""
    by_client = floors_of(SAMPLES, subjects=4, count="clients")
    assert "would stand for 3 clients" in refusal(by_client, ColumnSums(np.zeros(2)))[1]


# --- tasks, scores, classes, models, bytes


def test_only_allowed_tasks_are_answered() -> None:
    floors = floors_of(SAMPLES, subjects=1, tasks=("train",))
    assert refusal(floors, train())[0] == ""
    assert refusal(floors, ColumnSums(np.zeros(2))) == (
        "tasks",
        "disclosure.tasks: this site does not answer the task column_sums",
    )
    floors.check_names()
    with pytest.raises(ConfigError, match=r"disclosure.tasks: unknown task 'trian'.*'train'"):
        floors_of(SAMPLES, tasks=("trian",)).check_names()
    floors_of(SAMPLES).check_names()


def test_scores_of_few_test_samples_are_refused() -> None:
    floors = floors_of(SAMPLES, tests=[10, 9, 0], subjects=1)
    index = np.zeros(1, np.int64)
    assert refusal(floors, Evaluate(MODELS, index), [0])[0] == ""
    assert refusal(floors, Evaluate(MODELS, index), [1]) == (
        "test",
        "disclosure.test: a score in the reply to evaluate would be of 9 test samples, but this "
        "site's floor is 10",
    )
    # Without test samples there is no score, and training samples have another floor.
    assert refusal(floors, Evaluate(MODELS, index), [2])[0] == ""
    assert refusal(floors, Evaluate(MODELS, index, split="train"), [1])[0] == ""
    # Training with scores of the same reply: hidden by the site's samples, or else refused.
    with_scores = train(model_index=index, test=True)
    assert refusal(floors, with_scores, [1])[0] == "test"
    assert refusal(replace(floors, hides_scores=True), with_scores, [1])[0] == ""


@pytest.mark.parametrize("split", ["test", "validation"])
def test_a_client_without_samples_hides_no_client_with_few(split: str) -> None:
    floors = floors_of(SAMPLES, tests=[0, 9, 20], subjects=1)
    both = Evaluate(MODELS, np.zeros(2, np.int64), split=split)
    assert refusal(floors, both, [0, 1])[1] == (
        f"disclosure.test: a score in the reply to evaluate would be of 9 {split} samples, but "
        "this site's floor is 10"
    )
    assert refusal(floors, both, [0, 2]) == ("", "")


@dataclass(frozen=True)
class SummedClasses(Task):
    """Number of samples of each class over all clients."""

    up = Sums(classes=integers("C"))
    split: str = "test"


def test_sums_have_the_floors_of_sums() -> None:
    floors = floors_of([4, 4, 4], tests=[4, 4, 4], subjects=1)
    # Twelve test samples; six training samples of each of two classes, none of the third.
    assert refusal(floors, SummedClasses())[0] == ""
    assert refusal(floors, SummedClasses(), [0, 1])[0] == "test"
    few = floors_of([4, 4], tests=[50, 50], subjects=1)
    assert refusal(few, SummedClasses(), [0, 1])[1] == (
        "disclosure.per_class: a number about a class in the reply to summed_classes would stand "
        "for 4 samples, but this site's floor is 5"
    )


def test_profiles_of_small_classes_are_refused() -> None:
    floors = floors_of([10, 9], subjects=1)
    assert refusal(floors, Classes(), [0])[0] == ""
    assert refusal(floors, Classes(), [0, 1])[0] == "per_class"
    assert refusal(floors_of([10, 9], subjects=1, per_class=4), Classes(), [0, 1])[0] == ""


@dataclass(frozen=True)
class Histogram(Task):
    """A histogram of each client, and single numbers."""

    up = Rows(cells=integers("2 2"), examples=integers(), left_out=integers("3", carried=False))


def test_histograms_with_small_cells_are_refused() -> None:
    floors = floors_of(SAMPLES)
    sound = {"cells": np.array([[[0, 5], [-1, 7]]]), "examples": np.array([3])}
    floors.check_reply(Histogram(), sound)
    small = {**sound, "cells": np.array([[[0, 5], [4, 7]]])}
    with pytest.raises(
        DisclosureError,
        match="a cell of cells in the reply to histogram would stand for 4 samples",
    ):
        floors.check_reply(Histogram(), small)
    floors.check_reply(Histogram(), {})


def test_models_are_counted() -> None:
    one = {"update": np.zeros((1, 5), np.float32), "loss": np.zeros(1)}
    two = {**one, "gradient": np.zeros((1, 5), np.float32)}
    assert models_in(train(), one) == 1
    assert models_in(train(gradient=True), two) == 2
    # The p of subspaces is a number of directions.
    assert models_in(Subspace(p=3), {"basis": np.zeros((1, 5, 3), np.float32)}) == 0
    floors = floors_of(SAMPLES, models=1)
    floors.check_reply(train(), one)
    with pytest.raises(
        DisclosureError, match=r"disclosure.models: the reply to train would hold 2"
    ):
        floors.check_reply(train(gradient=True), two)


def test_bytes_of_a_round_have_an_exact_limit() -> None:
    assert spent_bytes(900, 100, 1000) == ""
    assert "900 bytes have left this site in this round" in spent_bytes(900, 101, 1000)


# --- the handshake


@pytest.mark.parametrize(
    ("settings", "says", "words"),
    [
        ({"subjects": 61}, {}, "subjects: this site has 60 samples, but its floor is 61"),
        (
            {"subjects": 4, "count": "clients"},
            {},
            "subjects: this site has 3 clients, but its floor is 4",
        ),
        (
            {"tasks": ["train"]},
            {"tasks": ["losses", "train"]},
            "tasks: the server's method sends the task losses, which this site does not allow; "
            "add it to disclosure.tasks in client.toml, or choose another method",
        ),
        (
            {"subjects": 2, "count": "clients"},
            {"single": True},
            "subjects: the server's method reads the update of each client",
        ),
        (
            {"bytes_per_round": 399},
            {},
            "bytes_per_round: one update of the model has 400 bytes, but at most 399 may leave",
        ),
    ],
)
def test_floors_that_a_method_cannot_meet(
    settings: dict[str, Any], says: dict[str, Any], words: str
) -> None:
    stated = {"tasks": ["train"], "single": False, "parameters": 100, **says}
    with pytest.raises(DisclosureError) as caught:
        floors_of(SAMPLES, **settings).check_start(**stated)
    assert words in str(caught.value)


def test_floors_that_a_method_can_meet() -> None:
    tasks = ["train"]
    floors_of(SAMPLES, bytes_per_round=400).check_start(tasks, single=True, parameters=100)
    floors_of(SAMPLES, subjects=1, count="clients").check_start(tasks, True, 100)
    floors_of(SAMPLES, subjects=3, count="clients").check_start(tasks, False, 100)


# --- a federation


def site(folder: Path, name: str, **settings: Any) -> Any:
    """A handler of a site with floors. It has one client with ten samples."""
    floors = Floors(
        settings=DisclosureSettings(**settings),
        samples=np.array([10]),
        sizes=lambda split: np.array([20]),
        class_counts=lambda: np.array([[10, 0, 0]]),
    )
    node = replace(fake_node(name), floors=floors)
    return recorded(lambda: node, outbox_of(folder / name, name, floors={"set": True}))


def lines_of(folder: Path, name: str) -> list[dict[str, Any]]:
    text = (folder / name / "egress.jsonl").read_text()
    return [json.loads(line) for line in text.splitlines()]


def test_a_refusal_reaches_the_servers_log_and_the_sites_ledger(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    transport = MemoryTransport()
    transport.join(1, site(tmp_path, "ada"))
    transport.join(2, site(tmp_path, "bob", tasks=["evaluate"]))
    world = fake_remote(transport, capacity=2, wait_for=2)
    with caplog.at_level(logging.WARNING, "fedkin"):
        state = run(world, FedAvg(), Plan(1, 2))
    assert "no reply from bob (train): it reports: disclosure.tasks: this site does not" in (
        caplog.text
    )
    assert world.membership.registry.failures.keys() <= {"bob"}
    assert state.records[-1]["missing"] == 1
    refused = [line for line in lines_of(tmp_path, "bob") if line["kind"] == "refusal"]
    assert [(line["operation"], line["refused_by"]) for line in refused] == [("train", "tasks")]
    assert {line["floors"]["set"] for line in lines_of(tmp_path, "bob")} == {True}
    assert not [line for line in lines_of(tmp_path, "ada") if line["refused_by"]]


def test_a_site_whose_floors_do_not_allow_the_method_is_refused_at_the_handshake(
    tmp_path: Path,
) -> None:
    transport = MemoryTransport()
    transport.join(1, site(tmp_path, "ada"))
    transport.join(2, site(tmp_path, "bob", tasks=["evaluate"]))
    world = fake_remote(transport, capacity=2, wait_for=1)
    world.membership.states = {TASKS: ["train"], SINGLE: False}
    run(world, FedAvg(), Plan(1, 2))
    assert "the server's method sends the task train" in world.membership.registry.refusals["bob"]
    (line,) = lines_of(tmp_path, "bob")
    assert (line["kind"], line["refused_by"], line["arrays"]) == ("refusal", "tasks", [])


def test_a_reply_with_too_many_models_is_not_sent(tmp_path: Path) -> None:
    transport = MemoryTransport()
    transport.join(1, site(tmp_path, "ada", models=1))
    world = fake_remote(transport, capacity=1, wait_for=1)
    stream = Stream(0, 1)
    world.begin(stream)
    models = np.zeros((1, P), np.float32)
    index = np.zeros(1, np.int64)
    one = train_models(world, models, np.arange(1), index, stream=stream)
    two = train_models(world, models, np.arange(1), index, gradient=True, stream=stream)
    assert one.arrived.tolist() == [True] and two.arrived.tolist() == [False]
    assert lines_of(tmp_path, "ada")[-1]["refused_by"] == "models"
