"""What a data set, a model and a run look like when they are printed."""

from __future__ import annotations

import dataclasses

import numpy as np
import torch

import fedkin as fk
from fedkin.data.federated import FederatedData
from fedkin.reporting.progress import table
from fedkin.run.run_repr import names_by_position


def test_data_in_three_lines(tiny: FederatedData) -> None:
    assert repr(tiny).splitlines() == [
        "FederatedData 'tiny': 12 clients; 1 without a test sample",
        "  235 samples (180 train, 55 test), 15 to 20 per client",
        "  2 features (float32); 2 classes; 2 true clusters",
    ]
    named = dataclasses.replace(
        tiny,
        true_clusters=None,
        client_names=tuple(f"site {i}" for i in range(12)),
        label_names=("ill", "well"),
        feature_names=("age", "weight"),
    ).with_validation(0.2)
    assert repr(named).splitlines() == [
        "FederatedData 'tiny': 12 clients (site 0, site 1, site 2, site 3 and 8 more); 1 without "
        "a test sample",
        "  235 samples (144 train, 36 validation, 55 test), 15 to 20 per client",
        "  2 features (age, weight); 2 classes (ill, well)",
    ]
    html = named._repr_html_()
    assert html.startswith("<table>") and "144 train, 36 validation" in html and "ill, well" in html


def test_a_thousand_clients_are_as_short(tiny: FederatedData) -> None:
    data = fk.data.from_arrays(
        np.zeros((5000, 28, 28)), np.arange(5000) % 10, clients=np.arange(5000) // 5
    )
    assert (
        len(repr(data)) < 300 and "28 x 28 features" in repr(data) and "5 per client" in repr(data)
    )


def test_models_in_three_lines(tiny: FederatedData) -> None:
    lines = repr(fk.models.mclr(tiny)).splitlines()
    assert lines[0] == "Model 'mclr-2-2': 6 parameters" and len(lines) == 3
    assert "layers.0.weight (4)" in lines[1] and "last layer: 6 parameters" in lines[2]
    assert "layers.0.weight (4)" in fk.models.mclr(tiny)._repr_html_()
    own = fk.torch_model(lambda: torch.nn.Linear(2, 2), tiny)
    assert (
        repr(own).splitlines()[1] == "  2 arrays: weight (4), bias (2)"
        and "weight (4)" in own._repr_html_()
    )


def test_a_best_below_the_last_is_marked_as_chosen_on_validation_samples(
    tiny: FederatedData,
) -> None:
    data = tiny.with_validation(0.2)
    run = fk.simulate(fk.FedAvg(), data, fk.models.mclr(data), rounds=1, cohort=12)
    assert f"in round {run.summary()['best_round']} (chosen on validation samples), bottom" in repr(
        run
    )


def test_a_run_in_three_lines(tiny: FederatedData) -> None:
    run = fk.simulate(
        fk.IFCA(clusters=2),
        tiny,
        fk.models.mclr(tiny),
        rounds=2,
        cohort=12,
        seed=3,
        against=[fk.FedAvg()],
    )
    summary = run.summary()
    other = run.against["fedavg"].summary()
    assert repr(run).splitlines() == [
        "Run of IFCA on tiny with mclr-2-2: 2 rounds, seed 3",
        f"  accuracy {summary['final_accuracy']:.1%}, best {summary['best_accuracy']:.1%} in round "
        f"{summary['best_round']}, bottom 10% of clients {summary['bottom_decile']:.1%}",
        f"  2 clusters of {', '.join(map(str, summary['cluster_sizes']))} clients; FedAvg on "
        f"the same data: {other['final_accuracy']:.1%}",
    ]
    html = run._repr_html_()
    assert (
        ">IFCA</th>" in html
        and ">FedAvg</th>" in html
        and f">{other['best_accuracy']:.1%}</td>" in html
    )
    unscored = fk.simulate(fk.IFCA(clusters=2), tiny, fk.models.mclr(tiny), rounds=1, cohort=2)
    assert len(repr(unscored).splitlines()) == 3 and "best" not in repr(unscored)


def test_names_of_classes_are_in_the_description_and_decide_nothing(tiny: FederatedData) -> None:
    named = dataclasses.replace(tiny, label_names=("ill", "well"))
    runs = [
        fk.simulate(fk.FedAvg(), one, fk.models.mclr(one), rounds=1, cohort=2)
        for one in (tiny, named)
    ]
    assert (
        runs[1].config.data["label_names"] == ["ill", "well"]
        and "label_names" not in runs[0].config.data
    )
    assert runs[0].fingerprint == runs[1].fingerprint


def test_suspects_have_the_names_of_the_data() -> None:
    """Clients named 1 to 6: positions 0 and 4 are the clients 1 and 5."""
    data = fk.data.from_arrays(np.eye(12), np.arange(12) % 2, clients=np.arange(12) % 6 + 1, test=0)
    run = fk.simulate(fk.FedAvg(), data, fk.models.mclr(data), rounds=1, cohort=6)
    run = dataclasses.replace(run, final={"rule_weights": [0.1, 1.0, 1.0, 1.0, 0.2, None]})
    assert "the rule suspects 2 clients (1, 5)" in repr(run)
    shown = table([run.summary()], names_by_position(run.client_columns))
    assert "the rule suspects 2 clients (1, 5)" in str(shown.caption)


def test_suspects_without_names_have_their_positions(tiny: FederatedData) -> None:
    run = fk.simulate(fk.FedAvg(), tiny, fk.models.mclr(tiny), rounds=1, cohort=6)
    run = dataclasses.replace(run, final={"rule_weights": [0.1, *[1.0] * 11]})
    assert names_by_position(run.client_columns) is None
    assert "the rule suspects 1 client (0)" in repr(run)
