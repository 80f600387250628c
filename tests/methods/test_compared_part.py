"""The part of an update by which clients are compared."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedkin.core.errors import MethodError
from fedkin.core.model_spec import ModelSpec
from fedkin.core.randomness import Stream
from fedkin.methods import METHODS as EVERY_METHOD
from fedkin.methods.cflgp import CFLGP
from fedkin.methods.compared_part import is_compared, only_part
from fedkin.methods.fedgroup import FedGroup
from fedkin.methods.fedlease import FedLEASE
from fedkin.methods.fedsim import FedSim
from fedkin.methods.fesem import FeSEM
from fedkin.methods.flexcfl import FlexCFL
from fedkin.methods.flhc import FLHC
from fedkin.methods.fltac import FLTAC
from fedkin.methods.panm import PANM
from fedkin.methods.sattler import SattlerCFL
from tests.methods.adapter_world import HEAD, A, B, adapter_world

SPEC = adapter_world(np.zeros((1, 6))).spec
# A is large and says 0, 1 against 2, 3; B says 0, 2 against 1, 3; the last layer 0, 3 against 1, 2.
UPDATES = [
    [90, 0, 1, 0, 2, 0],
    [90, 0, 0, 1, 0, 2],
    [0, 90, 1, 0, 0, 2],
    [0, 90, 0, 1, 2, 0],
]
BY_PART = {"all": [0, 0, 1, 1], "B": [0, 1, 0, 1], "head": [0, 1, 1, 0]}
METHODS = {
    "fedgroup": lambda part: FedGroup(clusters=2, alpha=2, part=part),
    "flexcfl": lambda part: FlexCFL(clusters=2, alpha=2, part=part),
    "madc": lambda part: FlexCFL(clusters=2, alpha=2, measure="madc", part=part),
}


def test_the_parts() -> None:
    rows = np.ones((1, 6), np.float32)
    for part, slices in (("adapter", (A, B)), ("B", (B,)), ("head", (HEAD,))):
        expected = np.zeros(6)
        for columns in slices:
            expected[columns] = 1
        np.testing.assert_array_equal(only_part(rows, SPEC, part)[0], expected)  # type: ignore[arg-type]
        np.testing.assert_array_equal(is_compared(SPEC, part), expected == 1)  # type: ignore[arg-type]
    assert only_part(rows, SPEC, "all") is rows


@pytest.mark.parametrize("part", BY_PART)
@pytest.mark.parametrize("name", METHODS)
def test_clusters_are_those_of_the_part(name: str, part: str) -> None:
    method = METHODS[name](part)
    state = method.init(adapter_world(UPDATES), Stream(1, 0, "method/init"))
    labels = state.assignment
    assert [int(label == labels[0]) for label in labels] == [
        int(label == BY_PART[part][0]) for label in BY_PART[part]
    ]


@pytest.mark.parametrize("part", BY_PART)
@pytest.mark.parametrize("name", METHODS)
def test_later_clients_are_placed_by_the_part(name: str, part: str) -> None:
    world = adapter_world(UPDATES)
    method = METHODS[name](part)
    state = method.init(world, Stream(1, 0, "method/init"))
    groups = state.assignment.copy()
    state = method.place(world, state, np.arange(4), Stream(1, 1, "method"))
    np.testing.assert_array_equal(state.assignment, groups)


@pytest.mark.parametrize("part", BY_PART)
def test_dendrograms_and_splits_by_the_part(part: Any) -> None:
    world = adapter_world(UPDATES)
    flhc = FLHC(clusters=2, cluster_round=1, metric="cosine", linkage="average", part=part)
    state = flhc.init(world, Stream(1, 0, "method/init"))
    state = flhc.round(world, state, np.zeros(0, np.int64), Stream(1, 1, "method"))
    assert state.assignment.tolist() == BY_PART[part]
    sattler = SattlerCFL(eps1=1e3, eps2=0.1, first_split=0, part=part)
    split = sattler.init(world, Stream(1, 0, "method/init"))
    split = sattler.round(world, split, np.arange(4), Stream(1, 1, "method"))
    assert split.assignment.tolist() == BY_PART[part]


@pytest.mark.parametrize("part", BY_PART)
def test_clusters_of_a_round_by_the_part(part: Any) -> None:
    clients = np.arange(4)
    stream = Stream(1, 1, "method")
    for method in (FLTAC(clusters=2, part=part), CFLGP(clusters=2, part=part)):
        world = adapter_world(UPDATES)
        state = method.init(world, Stream(1, 0, "method/init"))
        if isinstance(method, FLTAC):
            state = method.place(world, state, clients, stream)  # type: ignore[arg-type]
        state = method.round(world, state, clients, stream)  # type: ignore[arg-type]
        assert normalised(state.assignment) == BY_PART[part]
        newcomer = np.array([3])
        if isinstance(method, CFLGP):
            again = method.place(world, state, newcomer, stream)  # type: ignore[arg-type]
            np.testing.assert_array_equal(again.assignment, state.assignment)
    fedsim = FedSim(clusters=2, part=part)
    state = fedsim.init(adapter_world(UPDATES), Stream(1, 0, "method/init"))
    state = fedsim.round(adapter_world(UPDATES), state, clients, stream)
    assert normalised(state.groups) == BY_PART[part]


@pytest.mark.parametrize("part", BY_PART)
def test_peers_select_neighbours_by_the_part(part: Any) -> None:
    """Each peer asks all others and keeps the most similar one."""
    for alpha in (0.0, 0.5, 1.0):
        world = adapter_world(UPDATES)
        panm = PANM(neighbours=1, candidates=3, stage_one=1, alpha=alpha, part=part)
        state = panm.init(world, Stream(1, 0, "method/init"))
        state = panm.round(world, state, np.arange(4), Stream(1, 1, "method"))
        assert normalised(state.assignment) == BY_PART[part]


def test_solutions_are_measured_by_the_part() -> None:
    for part, columns in (("adapter", [0, 1, 2, 3]), ("B", [2, 3])):
        method = FeSEM(clusters=2, part=part)  # type: ignore[arg-type]
        # Clusters start from different models. From models of zeros, solutions are updates.
        different = adapter_world(UPDATES, start=lambda stream: stream.rng().normal(size=6))
        state = method.init(different, Stream(1, 0, "method/init"))
        state = dataclasses.replace(state, models=np.zeros_like(state.models))
        state = method.round(adapter_world(UPDATES), state, np.arange(4), Stream(1, 1, "method"))
        rows = np.asarray(state.solutions)
        np.testing.assert_allclose(rows, np.array(UPDATES)[:, columns])


def normalised(labels: np.ndarray) -> list[int]:
    """Labels of two clusters, of which the first client's has the number 0."""
    return [int(label != labels[0]) for label in labels]


def test_directions_of_later_clients_are_those_of_the_part() -> None:
    """Client 3 has the B of client 1, and the A of the other cluster."""
    updates = [
        [90, 0, 1, 0, 2, 0],
        [0, 90, 0, 1, 2, 0],
        [90, 0, 1, 0, 2, 0],
        [90, 0, 0, 1, 2, 0],
    ]
    flhc = FLHC(
        clusters=2,
        cluster_round=1,
        metric="cosine",
        linkage="average",
        newcomers="direction",
        part="B",
    )
    fedlease = FedLEASE(warm_up=1, floor=0.0, most=2, newcomers="direction")
    for method in (flhc, fedlease):
        world = adapter_world(updates)
        state = method.init(world, Stream(1, 0, "method/init"))
        if method is flhc:
            state = flhc.round(world, state, np.zeros(0, np.int64), Stream(1, 1, "method"))  # type: ignore[arg-type]
        assert state.assignment.tolist() == [0, 1, 0, 1]
        state = method.place(world, state, np.array([3]), Stream(1, 1, "method"))  # type: ignore[arg-type]
        assert state.assignment[3] == 1


def test_a_model_without_the_part() -> None:
    rows = np.ones((1, 3), np.float32)
    with pytest.raises(MethodError, match=r"low-rank adapters \(fk\.lora\)"):
        only_part(rows, ModelSpec(parameters=3), "B")
    with pytest.raises(MethodError, match="a known last layer"):
        only_part(rows, ModelSpec(parameters=3), "head")
    with pytest.raises(MethodError, match="part"):
        FlexCFL(part="A")  # type: ignore[arg-type]


def test_the_page_on_adapters_lists_the_methods_that_have_the_option() -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "adapters.md").read_text()
    sentence = page.split("## Which part tells clients apart")[1].split("have the option")[0]
    listed = re.findall(r"`(\w+)`", sentence)
    having = {
        method.__name__
        for method in EVERY_METHOD.values()
        if dataclasses.is_dataclass(method)
        and any(field.name == "part" for field in dataclasses.fields(method))
    }
    assert len(listed) == len(set(listed)) and set(listed) == having
