"""Misspelt names in Python."""

from __future__ import annotations

import inspect
import pickle
import subprocess
import sys
from functools import cache
from typing import Any

import pytest

import fedkin as fk
import fedkin.methods
from fedkin.core.errors import missing_module

MISSPELT = {
    "fk.FedGrup": "FedGroup",
    "fk.simulat": "simulate",
    "fk.SwapAl": "SwapAll",
    "fk.data.digit": "digits",
    "fk.models.mclrr": "mclr",
}


@cache
def printed_errors() -> dict[str, str]:
    """The last line of what Python prints for each misspelt name. One process for all of them:
    most of its time is the import of fedkin."""
    script = (
        "import sys\n"
        "import fedkin as fk\n"
        f"for name in {list(MISSPELT)}:\n"
        "    try:\n"
        "        eval(name)\n"
        "    except AttributeError:\n"
        "        sys.excepthook(*sys.exc_info())\n"
        "    print(end=chr(0), file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    *errors, rest = done.stderr.split("\0")
    assert rest == "" and done.returncode == 0, done.stderr
    lasts = [error.splitlines()[-1] for error in errors]
    return dict(zip(MISSPELT, lasts, strict=True))


@pytest.mark.parametrize(("misspelt", "meant"), MISSPELT.items())
def test_python_suggests_a_misspelt_name_of_a_module(misspelt: str, meant: str) -> None:
    """Where it prints the error: an exception that is raised here has the name and the module that
    it needs."""
    assert printed_errors()[misspelt].endswith(
        f"has no attribute {misspelt.rpartition('.')[2]!r}. Did you mean: {meant!r}?"
    )


@pytest.mark.parametrize(
    ("call", "option", "meant"),
    [
        ("FedGroup", "cluster", "clusters"),
        ("simulate", "round", "rounds"),
        ("compare", "seed", "seeds"),
        ("advise", "max_cluster", "max_clusters"),
        ("repeat", "seed", "seeds"),
        ("planted", "client", "clients"),
        ("Population", "drop_out", "dropout"),
        ("SwapAll", "probabilty", "probability"),
        ("Clustered", "cluster", "clusters"),
        ("data.digits", "client", "clients"),
        ("data.load", "lable", "label"),
        ("models.mlp", "hiden", "hidden"),
        ("SGD", "epoch", "epochs"),
        ("SGD", "rl", "lr"),
    ],
)
def test_a_misspelt_option(call: str, option: str, meant: str) -> None:
    place: Any = fk
    for part in call.split("."):
        place = getattr(place, part)
    with pytest.raises((TypeError, fk.ConfigError), match=f"{option}'; did you mean '{meant}'"):
        place(**{option: 1})


def test_a_wrapped_class_looks_unchanged() -> None:
    """Its signature is shown, it is pickled by its name, and a subclass may have more options."""

    class More(fk.FedAvg):
        def __init__(self, extra: int) -> None:
            super().__init__()
            object.__setattr__(self, "extra", extra)

    assert "rounds" in inspect.signature(fk.simulate).parameters and fk.simulate.__doc__
    for public in (fk.simulate, fk.data.digits, fk.models.mclr, fk.FedAvg):
        assert pickle.loads(pickle.dumps(public)) is public
    assert More(extra=3).extra == 3  # type: ignore[attr-defined]


def test_a_class_imported_from_its_own_place_suggests_too() -> None:
    with pytest.raises(TypeError, match=r"IFCA\(\): unknown argument 'cluster'.*clusters"):
        fedkin.methods.IFCA(cluster=3)  # type: ignore[call-arg]


@pytest.mark.parametrize(
    ("missing", "words"),
    [
        ("nets", ["there is no module 'nets'", "set PYTHONPATH"]),
        ("mine", ["there is no module 'mine'"]),
        ("torch.nn", ["'mine.nets' imports 'torch.nn'", "pip install 'fedkin[torch]'"]),
        ("helper", ["'mine.nets' imports 'helper'", "install it, or set PYTHONPATH"]),
    ],
)
def test_a_missing_module_is_the_users_or_one_that_it_imports(
    missing: str, words: list[str]
) -> None:
    module = "nets" if missing == "nets" else "mine.nets"
    message = missing_module(module, ModuleNotFoundError(name=missing))
    for word in words:
        assert word in message
    assert ("there is no module" in message) == (missing in ("nets", "mine"))
