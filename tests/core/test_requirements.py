"""The needs of methods: each declaration against its paper, refusals that name the cure, and one
place that looks."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import pytest

import fedkin as fk
from fedkin.config.deployment_checks import peers_refusal, server_refusal
from fedkin.config.plan import Plan
from fedkin.core.errors import ConfigError, MethodError
from fedkin.core.requirements import AtLeast, Requirements, count_and_cure, requirements_of
from fedkin.methods import METHODS
from fedkin.run.method_checks import check_model, check_plan, plan_warnings
from fedkin.tasks.shift import Shifted
from tests.methods.test_conformance import CASES
from tests.syntax_trees import nodes_of, tree_of

ROOT = Path(__file__).resolve().parents[2]

# Names of options, and texts that are tested with personal parts.
_TEXTS = (".because", "parts.shared_head", "parts.own")


def needs_of(method: Any) -> dict[str, Any]:
    """The needs that a method declares, without names of options and neutral values."""
    neutral = by_path(Requirements())
    needs = by_path(requirements_of(method))
    changed = {path: value for path, value in needs.items() if value != neutral[path]}
    return {path: value for path, value in changed.items() if not path.endswith(_TEXTS)}


def by_path(needs: Requirements) -> dict[str, Any]:
    """The fields of a declaration: ``peers``, and of a group ``model.last_layer``."""
    values = {}
    for name, value in vars(needs).items():
        if is_dataclass(value):
            values |= {f"{name}.{inner}": own for inner, own in vars(value).items()}
        else:
            values[name] = value
    return values


@pytest.mark.parametrize("name", METHODS)
def test_a_method_needs_the_numbers_of_its_paper(name: str) -> None:
    needs = needs_of(METHODS[name]())
    assert needs == CASES[name].needs
    assert callable(METHODS[name].requirements)


@pytest.mark.parametrize(
    ("method", "needs"),
    [
        (
            fk.FLHC(distance=1.0, cluster_round=4),
            {"clients.number": 1, "rounds.first_clustering": 4},
        ),
        (fk.FLHC(clusters=7, newcomers="direction"), {"clients.number": 7}),
        (fk.SattlerCFL(first_split=0, newcomers="direction"), {"rounds.first_clustering": 1}),
        (
            fk.SattlerCFL(migration="label_aware", threshold=0.1),
            {"reads.standing": (Shifted("label_aware", 0.1),)},
        ),
        (fk.IFCA(shared_base=True), {"model.last_layer": True, "model.because": "shared_base"}),
        (fk.FeSEM(part="head"), {"model.last_layer": True, "model.because": "part"}),
        (fk.FlexCFL(migration="none"), {"reads.standing": ()}),
        (
            fk.Hierarchical(algorithm="kmeans", clusters=6),
            {"clients.number": 6, "clients.because": "clusters"},
        ),
        (
            fk.Athena(algorithm="kmeans", clusters=6),
            {"clients.number": 6, "model.detectors": True, "model.last_layer": True},
        ),
        (fk.Gossip(neighbours=9), {"clients.number": 10, "clients.because": "neighbours"}),
        (fk.PENS(stage_one=7), {"rounds.stage_one": 7, "rounds.full_cohort": True}),
        (fk.Oracle(), {"data.true_clusters": True, "data.newcomer_labels": True}),
    ],
)
def test_options_decide(method: Any, needs: dict[str, Any]) -> None:
    declared = by_path(requirements_of(method))
    assert declared == declared | needs


@dataclass(frozen=True)
class Own(fk.FedAvg):
    """A user's method that declares the given needs."""

    declared: Any = None

    def requirements(self) -> Any:
        return self.declared


def test_a_method_without_a_declaration_needs_nothing() -> None:
    assert requirements_of(object()) == Requirements()


@pytest.mark.parametrize("declared", [None, {"clients": 3}, 3])
def test_something_else_is_no_declaration(declared: Any) -> None:
    with pytest.raises(
        MethodError, match=r"Own\.requirements must be a function that returns a Requirements, got"
    ):
        requirements_of(Own(declared))


SPEC = fk.ModelSpec(20)


@pytest.mark.parametrize(
    ("method", "cohort", "words"),
    [
        (
            fk.FedSim(clusters=5),
            3,
            "cohort of at least 5 clients (clusters = 5), and run.cohort is 3: set run.cohort=5 "
            "or method.clusters=3",
        ),
        (
            fk.FedSim(clusters=9),
            3,
            "at least 9 clients (clusters = 9), and there are 8: add clients or set "
            "method.clusters=8",
        ),
        (
            fk.IFCA(clusters=9),
            8,
            "at least 9 clients (clusters = 9), and there are 8: add clients or set "
            "method.clusters=8",
        ),
        (fk.FLHC(clusters=9), 8, "at least 9 clients (clusters = 9), and there are 8"),
        (
            fk.Gossip(neighbours=8),
            8,
            "at least 9 clients (neighbours = 8), and there are 8: add clients or set "
            "method.neighbours=7",
        ),
        (
            Own(Requirements(clients=AtLeast(12))),
            8,
            "at least 12 clients, and there are 8: add clients",
        ),
        (
            Own(Requirements(cohort=AtLeast(4))),
            2,
            "cohort of at least 4 clients, and run.cohort is 2: set run.cohort=4",
        ),
    ],
)
def test_too_few_clients_are_refused(method: Any, cohort: int, words: str) -> None:
    """The refusal names the method, its need, and the cure."""
    with pytest.raises(ConfigError) as refusal:
        check_plan(Plan(1, cohort), method, 8)
    assert str(refusal.value).startswith(f"method: {type(method).__name__} needs ")
    assert words in str(refusal.value)


def test_as_many_as_needed_are_enough() -> None:
    own = Own(Requirements(clients=AtLeast(8), cohort=AtLeast(8)))
    for method in (fk.FedSim(clusters=8), fk.IFCA(clusters=8), fk.Gossip(neighbours=7), own):
        check_plan(Plan(1, 8), method, 8)


def test_in_a_list_of_methods_the_place_is_the_entry() -> None:
    with pytest.raises(ConfigError, match=r"^run\.against: ifca: IFCA needs .* or set clusters=8$"):
        check_plan(Plan(1, 8), fk.IFCA(clusters=9), 8, "run.against: ifca")


@pytest.mark.parametrize(
    ("method", "need", "have", "option", "words"),
    [
        (
            fk.FLHC(),
            3,
            2,
            "clusters",
            ("3 clients (clusters = 3)", "method.clusters=2"),
        ),  # its default number
        (
            fk.Gossip(neighbours=1),
            2,
            1,
            "neighbours",
            ("2 clients (neighbours = 1)", ""),
        ),  # no neighbour is no gossip
        (fk.FedAvg(), 1, 0, "", ("1 client", "")),
    ],
)
def test_numbers_and_cures(
    method: Any, need: int, have: int, option: str, words: tuple[str, str]
) -> None:
    assert count_and_cure(method, AtLeast(need, because=option), have) == words


def test_a_lower_option_is_enough_for_the_clients_that_there_are() -> None:
    """FedRouter needs a client for every two of its clusters if a client has two kinds of texts: 3
    clusters would still need two clients."""
    method = fk.FedRouter(clusters=4, kinds=2)
    need = requirements_of(method).clients
    assert count_and_cure(method, need, 1) == ("2 clients (clusters = 4)", "method.clusters=2")
    with pytest.raises(ConfigError, match=r"or set method\.clusters=2$"):
        check_plan(Plan(1, 1), method, 1)
    check_plan(Plan(1, 1), fk.FedRouter(clusters=2, kinds=2), 1)


@pytest.mark.parametrize(
    ("method", "words"),
    [
        (
            fk.IFCA(shared_base=True),
            r"IFCA needs the model's last layer for its option shared_base, .* put these two "
            "arrays last in its parameters, or change shared_base",
        ),
        (
            fk.FeSEM(part="head"),
            "FeSEM needs the model's last layer for its option part, .* or change part",
        ),
        (fk.Hierarchical(), "Hierarchical needs the model's last layer, .* or take another method"),
        (fk.Athena(), "Athena trains a detector, but the model is not one; change model.name"),
    ],
)
def test_a_model_that_does_not_fit_is_refused(method: Any, words: str) -> None:
    with pytest.raises(ConfigError, match=f"^method: {words}"):
        check_model(method, SPEC)
    detector = requirements_of(method).model.detectors
    check_model(
        method, replace(SPEC, head=slice(10, 20), head_bias=slice(18, 20), detects=detector)
    )


def test_a_detector_is_refused_by_other_methods() -> None:
    words = (
        "FedAvg trains a model with a score for every class, but the model is a detector; change "
        "model.name"
    )
    with pytest.raises(ConfigError, match=words):
        check_model(fk.FedAvg(), replace(SPEC, detects=True))


@pytest.mark.parametrize(
    ("method", "words"),
    [
        (fk.FLHC(cluster_round=6), ["clusters are formed from round 6 on, but the run has only 5"]),
        (
            fk.Gossip(),
            [
                "only 4 of 8 peers take part in a round, and the others do not reply; "
                "run.cohort=8 includes all"
            ],
        ),
        (
            fk.PENS(stage_one=2),
            [
                "only 4 of 8 peers take part in a round, and the others do not reply; "
                "run.cohort=8 includes all",
            ],
        ),
        (
            fk.PENS(stage_one=3),
            [
                "only 4 of 8 peers take part in a round, and the others do not reply; "
                "run.cohort=8 includes all",
                "stage one has 3 rounds, but a peer does 2, so no peer reaches stage two",
            ],
        ),
        (fk.FedSim(clusters=4), []),
    ],
)
def test_a_disappointing_plan_is_a_warning(method: Any, words: list[str]) -> None:
    check_plan(Plan(5, 4), method, 8)
    assert plan_warnings(Plan(5, 4), method, 8) == words


@pytest.mark.parametrize("name", METHODS)
def test_where_a_method_runs(name: str) -> None:
    """Methods between peers need no server, the others do; the oracle runs in simulations only."""
    method = METHODS[name]()
    peers = bool(CASES[name].needs.get("peers"))
    on_server = server_refusal(method)
    on_peers = peers_refusal(method)
    assert (on_server is None) == (not peers)
    assert (on_peers is None) == (peers and name != "oracle")
    refusals = [text for text in (on_server, on_peers) if text]
    assert all(text.startswith(f"{type(method).__name__} needs ") for text in refusals)
    assert all("run it with fedkin " in text and "or use " in text for text in refusals)


# --- no field without a reader


def readers() -> Iterator[ast.AST]:
    """The code that reads declarations: neither the classes that define them nor the methods."""
    home = ROOT / "fedkin" / "core" / "requirements.py"
    for path in (ROOT / "fedkin").rglob("*.py"):
        text = path.read_text()
        if path.parent.name == "methods" or "requirements" not in text:
            continue
        for part in tree_of(path).body:
            if path != home or not isinstance(part, ast.ClassDef):
                yield part


def values_of(part: ast.AST) -> dict[str, str]:
    """Which value a name is in a function that takes it as an argument: ``need: AtLeast``."""
    arguments = [node for node in ast.walk(part) if isinstance(node, ast.arg) and node.annotation]
    return {one.arg: ast.unparse(one.annotation) for one in arguments if one.annotation}


def owners_read(part: ast.AST) -> set[tuple[str, str]]:
    """Pairs of a value and an attribute that is read: (needs, model), (model, because) of one
    chain."""
    kinds = values_of(part)
    read = set()
    for node in ast.walk(part):
        if not isinstance(node, ast.Attribute) or not isinstance(node.ctx, ast.Load):
            continue
        owner = node.value.func if isinstance(node.value, ast.Call) else node.value
        name = owner.attr if isinstance(owner, ast.Attribute) else ast.unparse(owner)
        read |= {(name, node.attr), (kinds.get(name, name), node.attr)}
    return read


def test_requirements_are_few_and_each_is_read() -> None:
    """A need that nothing reads changes nothing, and would mislead who declares it."""
    assert len(fields(Requirements)) <= 16
    read = set().union(*(owners_read(part) for part in readers()))
    neutral = Requirements()
    unread = []
    for field in fields(Requirements):
        if not {(owner, field.name) for owner in ("needs", "requirements_of")} & read:
            unread.append(field.name)
        group = getattr(neutral, field.name)
        inner = fields(group) if is_dataclass(group) else ()
        for own in inner:
            if not {(field.name, own.name), (type(group).__name__, own.name)} & read:
                unread.append(f"{field.name}.{own.name}")
    assert unread == []


def test_an_unread_need_is_found() -> None:
    part = ast.parse("def look(needs: Requirements) -> None:\n    print(needs.model.last_layer)\n")
    assert owners_read(part) >= {("needs", "model"), ("model", "last_layer")}
    assert ("model", "hidden_layers") not in owners_read(part)


# --- one place that looks


def probes(path: Path) -> list[str]:
    """Calls of getattr and hasattr on a method."""
    calls = [node for node in nodes_of(path) if isinstance(node, ast.Call)]
    named = [
        c
        for c in calls
        if isinstance(c.func, ast.Name) and c.func.id in ("getattr", "hasattr") and c.args
    ]
    return [
        f"{path.relative_to(ROOT)}:{c.lineno}" for c in named if "method" in ast.unparse(c.args[0])
    ]


def test_only_requirements_look_into_a_method() -> None:
    files = [*(ROOT / "fedkin").rglob("*.py")]
    found = [place for path in files for place in probes(path)]
    own = [place for place in found if place.startswith("fedkin/core/requirements.py")]
    assert own, "the test would not find anything"
    assert found == own
