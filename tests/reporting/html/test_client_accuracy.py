"""The clients' own accuracies at the end."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from fedkin.reporting.html.run_charts import client_accuracy
from fedkin.run.run import Run
from tests.client_tables import with_clients
from tests.reporting.written_runs import a_run


def run(accuracies: list[float]) -> Run:
    table = pd.DataFrame({"client": np.arange(len(accuracies)), "accuracy": accuracies})
    return with_clients(a_run(np.zeros((2, 4), np.int64)), table)


def test_they_are_ordered_and_summed_up() -> None:
    own = client_accuracy([run([0.9, 0.5, np.nan]), run([1.0, 0.2])])
    assert own is not None
    assert own["accuracy"] == [0.2, 0.5, 0.9, 1.0] and own["shares"] == [0.125, 0.375, 0.625, 0.875]
    assert (
        own["clients"] == 4
        and own["bottom"] == pytest.approx(0.2)
        and own["quartiles"] == [0.425, 0.7, 0.925]
    )
    assert own["spread"] == pytest.approx(np.std([0.2, 0.5, 0.9, 1.0]), abs=1e-4)


def test_many_are_thinned_with_both_ends() -> None:
    own = client_accuracy([run(np.linspace(0, 1, 5000).tolist())])
    assert own is not None and len(own["accuracy"]) == 400
    assert own["accuracy"][0] == 0 and own["accuracy"][-1] == 1 and own["clients"] == 5000
    assert own["bottom"] == pytest.approx(np.linspace(0, 1, 5000)[:500].mean())


def test_of_an_unfinished_run_there_are_none() -> None:
    assert client_accuracy([a_run(np.zeros((2, 4), np.int64))]) is None
