"""Who imports a name of version 0.1 is told where it is now."""

from __future__ import annotations

import importlib
import importlib.util
import re
from operator import attrgetter

import pytest

import fedkin as fk
from fedkin.core.renamed import MODULES, PUBLIC_NAMES, VERBS
from fedkin.core.schema import Schema
from fedkin.run.instrumented_world import InstrumentedWorld


@pytest.mark.parametrize(("former", "name"), PUBLIC_NAMES.items())
def test_a_former_public_name_names_its_successor(former: str, name: str) -> None:
    with pytest.raises(AttributeError, match=rf"fedkin\.{former} .* fedkin\.{name} now"):
        getattr(fk, former)
    with pytest.raises(ImportError, match=rf"fedkin\.{former} .* fedkin\.{name} now"):
        exec(f"from fedkin import {former}")
    assert name in fk.__all__ and former not in fk.__all__


def test_every_new_place_exists() -> None:
    places = {f"fedkin.{place}" for place in MODULES.values()} - {"fedkin.papers"}
    assert not {place for place in places if importlib.util.find_spec(place) is None}


@pytest.mark.parametrize(
    ("former", "place"),
    [
        ("world", "core.world"),
        ("experiment.simulate", "run.simulate"),
        ("experiment.deploy.serve", "server.deploy.run_server"),
        ("experiment.report.ribbon", "reporting.html.alluvial"),
        ("simulator.engine", "simulation.engine"),
        ("federation.letters", "server.rpc_client"),
        ("pytorch", "simulation.torch"),
    ],
)
def test_a_former_module_names_its_new_place(former: str, place: str) -> None:
    with pytest.raises(ModuleNotFoundError, match=rf"fedkin\.{former} is of version 0\.1; .* fedkin\.{place} now"):
        importlib.import_module(f"fedkin.{former}")


def test_the_other_ways_to_import_one() -> None:
    with pytest.raises(ModuleNotFoundError, match=r"is in fedkin\.run\.simulate now"):
        exec("from fedkin.experiment import simulate")
    with pytest.raises(ModuleNotFoundError, match=r"is in fedkin\.reporting\.html\.report now"):
        exec("from fedkin.experiment.report import report")
    with pytest.raises(ModuleNotFoundError, match=r"is in fedkin\.core\.world now"):
        exec("from fedkin.world import SGD")
    with pytest.raises(ModuleNotFoundError, match="is in papers now"):
        exec("import fedkin.experiment.reproduce.tables")


def test_what_never_was_is_not_found_as_ever() -> None:
    for name in ("fedkin.nowhere", "fedkin.experiment.nowhere", "nowhere"):
        with pytest.raises(ModuleNotFoundError, match=f"No module named '{name}'"):
            importlib.import_module(name)


def test_a_former_method_of_a_world_says_what_is_written_now() -> None:
    data = fk.data.digits(clients=2, seed=0)
    world = fk.SimulatedWorld(data, fk.models.mclr(data))
    for one in (world, InstrumentedWorld(world)):
        with pytest.raises(
            AttributeError, match=r"world\.losses is now world\.run\(Losses\(models\), clients\)\.losses"
        ):
            attrgetter("losses")(one)
        with pytest.raises(AttributeError, match="World' object has no attribute 'lossy'"):
            attrgetter("lossy")(one)


@pytest.mark.parametrize("verb", VERBS)
def test_what_is_written_now_exists(verb: str) -> None:
    """The name that is called, in the module that is named, and the array of its reply."""
    call, _, place = VERBS[verb].rpartition(", from ")
    name = re.sub(r"^world\.run\(", "", call).split("(")[0]
    home = importlib.import_module(place)
    assert hasattr(home, name)
    array = re.search(r"\)\.(\w+)$", call)
    if array and isinstance(home_schema := getattr(home, name).up, Schema) and array[1] != "arrived":
        assert array[1] in home_schema.arrays
