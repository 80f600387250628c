"""TCGA-BRCA by region, and survival data as risk sets: the Cox loss and the C-index by their
definitions."""

from __future__ import annotations

import hashlib
import sys
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest

import fedkin as fk
from fedkin.core.errors import ConfigError, DataError, ModelError
from fedkin.data.survival import comparable_pairs, deaths_with_others, others_at_risk, risk_sets
from fedkin.data.tcga_brca import REGIONS, SPLIT, TABLE, TCGA
from tests.task_vectors import task_case

MODULE = sys.modules["fedkin.data.tcga_brca"]  # whose name in the package is the function's
make = fk.data.tcga_brca


def patients(count: int = 12, seed: int = 0) -> pd.DataFrame:
    """A table in the joined form, with deaths in every region and split."""
    rng = np.random.default_rng(seed)
    parts = [
        {"region": region, "split": split, "age_at_index": 40 + rng.integers(40)}
        | {f"f{column}": rng.integers(2) for column in range(38)}
        | {"E": number % 2, "T": rng.integers(1000)}
        for region in range(6)
        for split in ("train", "test")
        for number in range(count)
    ]
    return pd.DataFrame(parts).sample(frac=1, random_state=0)


@pytest.fixture
def place(places: Path) -> Callable[[pd.DataFrame], Path]:
    """Put one table into $FEDKIN_DATA."""

    def put(table: pd.DataFrame) -> Path:
        folder = places / "TCGA-BRCA"
        folder.mkdir(exist_ok=True)
        table.to_csv(folder / TABLE, index=False)
        return folder

    return put


def survival(count: int = 9, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return (
        rng.normal(size=(count, 3)),
        rng.integers(1, 6, count).astype(float),
        rng.random(count) < 0.6,
    )


def risks(samples: np.ndarray, beta: np.ndarray) -> np.ndarray:
    return np.where(samples[..., -1] > 0, samples[..., :-1] @ beta, -np.inf)


def test_accuracy_over_all_pairs_is_harrells_c_index() -> None:
    x, times, died = survival(30)
    beta = np.array([1.0, -2.0, 0.5])
    samples, y = comparable_pairs(x=x, times=times, died=died, size=5, rng=np.random.default_rng(1))
    right = 0
    pairs = 0
    for i in range(30):
        for j in range(30):
            if died[i] and (times[i] < times[j] or (times[i] == times[j] and not died[j])):
                pairs = pairs + 1
                right = right + int(x[i] @ beta > x[j] @ beta)
    assert len(samples) == pairs and 0 < right < pairs
    assert (risks(samples, beta).argmax(axis=1) == y).sum() == right
    # Equal risks are right in half of them.
    assert (samples[:, :, -1].sum(axis=1) == 2).all() and 0.2 < y.mean() < 0.8


def test_cross_entropy_of_whole_risk_sets_is_the_cox_loss() -> None:
    x, times, died = survival()
    beta = np.array([0.3, -0.7, 1.1])
    times = np.random.default_rng(5).permutation(9).astype(float)  # without ties
    samples, y = risk_sets(
        x=x, times=times, died=died, size=9, draws=1, rng=np.random.default_rng(2), who="client 0"
    )
    scores = risks(samples, beta)
    ours = np.log(np.exp(scores).sum(axis=1)) - scores[np.arange(len(y)), y]
    cox = [
        np.log(np.exp(x[times >= times[i]] @ beta).sum()) - x[i] @ beta
        for i in np.flatnonzero(died)
    ]
    assert ours.sum() == pytest.approx(sum(cox), rel=1e-6)  # the last death of all has a term of 0


@pytest.mark.parametrize(("ties", "times"), [("breslow", [1, 2, 3, 4]), ("efron", [1, 1, 2, 2])])
def test_the_training_loss_is_the_cox_loss_times_deaths_by_samples(
    ties: str, times: list[int]
) -> None:
    """Four deaths, all risks zero. The last of four times has no other patient at risk, and no
    sample. By Efron all four have a sample. The second death of each pair (k = 1 of d = 2) has
    -log(1/2) more."""
    died = np.ones(4, bool)
    samples, y = risk_sets(
        x=np.zeros((4, 1)),
        times=np.array(times, float),
        died=died,
        size=4,
        draws=1,
        rng=np.random.default_rng(0),
        who="a",
        ties=ties,
    )
    present = samples[..., -1]
    cross_entropy = np.log(present.sum(axis=1)) - np.log(present[np.arange(len(y)), y])
    exact = fk.cox_loss(np.zeros(4), times, died, ties)
    assert exact is not None and len(y) == {"breslow": 3, "efron": 4}[ties]
    constant = {"breslow": 0.0, "efron": 2 * np.log(2)}[ties]
    assert cross_entropy.mean() == pytest.approx((exact * 4 + constant) / len(y))
    assert cross_entropy.mean() == pytest.approx({"breslow": 1.059, "efron": 1.141}[ties], abs=1e-3)


def test_fewer_patients_are_drawn_from_those_at_risk() -> None:
    x, times, died = survival(20)
    x[:, 0] = np.arange(20)
    samples, y = risk_sets(
        x=x, times=times, died=died, size=3, draws=4, rng=np.random.default_rng(3), who="client 0"
    )
    at_risk = died[:, None] & (times[None] >= times[:, None])
    np.fill_diagonal(at_risk, False)
    assert len(y) == 4 * at_risk.any(axis=1).sum()
    for sample, label in zip(samples, y, strict=True):
        dead = int(sample[label, 0])
        others = [int(one[0]) for place, one in enumerate(sample) if place != label and one[-1]]
        assert at_risk[dead, others].all() and len(others) == min(2, at_risk[dead].sum())
    for death in np.flatnonzero(died):
        expected = np.flatnonzero(at_risk[death])
        np.testing.assert_array_equal(others_at_risk(times, int(death)), expected)
    expected = np.flatnonzero(at_risk.any(axis=1))
    np.testing.assert_array_equal(deaths_with_others(times, died), expected)
    # Not always the same.
    assert len(np.unique(samples.reshape(len(samples), -1), axis=0)) > at_risk.any(axis=1).sum()


@pytest.mark.parametrize("ties", ["breslow", "efron"])
def test_risk_sets_have_the_cox_loss_and_gradient_of_the_oracle(
    ties: Any, oracle: Callable[[str], Any]
) -> None:
    """Fifteen patients with tied events: four at 4 and two at 7.

    Cross entropy is of risk + log(weight), so Efron's loss comes out with the constant log(1 - k /
    d): log(1/4 2/4 3/4) for the four and log(1/2) for the two. At 2 and 6 there is one event each,
    so no constant.
    """
    case = task_case(oracle, f"cox_{ties}")
    inputs = case["inputs"]
    outputs = case["outputs"]
    x = np.array(inputs["x"])
    times = np.array(inputs["time"])
    died = np.array(inputs["event"]) == 1
    samples, y = risk_sets(
        x=x,
        times=times,
        died=died,
        size=15,
        draws=1,
        rng=np.random.default_rng(0),
        who="client 0",
        ties=ties,
    )
    assert len(y) == 9  # ten events; at the last one no other patient was at risk

    rows = np.arange(len(y))
    with np.errstate(divide="ignore"):
        scores = samples[..., :-1] @ np.array(inputs["beta"]) + np.log(samples[..., -1])
    probability = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    constant = np.log(samples[rows, y, -1]).sum()
    loss = -np.log(probability[rows, y]).sum() + constant
    probability[rows, y] -= 1
    gradient = np.einsum("sm,smd->d", probability, samples[..., :-1])

    assert loss == pytest.approx(outputs["loss"], rel=1e-6)
    np.testing.assert_allclose(gradient, outputs["gradient"], rtol=1e-5)
    expected = {"breslow": 0.0, "efron": np.log(1 / 4 * 2 / 4 * 3 / 4) + np.log(1 / 2)}
    assert constant == pytest.approx(expected[ties], rel=1e-6, abs=1e-9)


def test_every_draw_of_tied_deaths_has_each_of_efrons_weights_once() -> None:
    x = np.zeros((4, 1))
    times = np.array([1.0, 1.0, 1.0, 2.0])
    died = np.array([True, True, True, False])
    samples, y = risk_sets(
        x=x,
        times=times,
        died=died,
        size=4,
        draws=3,
        rng=np.random.default_rng(0),
        who="client 0",
        ties="efron",
    )
    own = samples[np.arange(9), y, -1].reshape(3, 3)  # of a death, by draw
    for weights in (*own, *own.T):
        np.testing.assert_allclose(sorted(weights), [1 / 3, 2 / 3, 1], rtol=1e-6)
    assert (samples[..., -1] == 1).sum() >= 9  # the patient who lived longer always counts in full


def test_pairs_of_deaths_at_the_same_time_are_not_comparable(oracle: Callable[[str], Any]) -> None:
    """They are in each other's risk sets, and in no pair of the C-index."""
    case = task_case(oracle, "c_index")
    inputs = case["inputs"]
    outputs = case["outputs"]
    times = np.array(inputs["time"])
    died = np.array(inputs["event"]) == 1
    risk = np.array(inputs["risk"])
    samples, y = comparable_pairs(
        x=risk[:, None], times=times, died=died, size=2, rng=np.random.default_rng(0)
    )
    concordant, discordant, tied = outputs["concordant, discordant, tied risk"]
    assert len(y) == concordant + discordant + tied
    first = samples[np.arange(len(y)), y, 0]
    second = samples[np.arange(len(y)), 1 - y, 0]
    assert ((first > second).sum(), (first < second).sum()) == (concordant, discordant)


def test_memory_does_not_grow_with_the_square_of_the_patients() -> None:
    """A table of all pairs of 4,000 patients would take 16 MB."""
    died = np.zeros(4000, bool)
    died[[7, 4]] = True
    times = np.arange(4000.0) // 3990
    x = np.zeros((4000, 1))
    rng = np.random.default_rng(0)
    tracemalloc.start()
    pairs, _ = comparable_pairs(x=x, times=times, died=died, size=2, rng=rng)
    sets, _ = risk_sets(x=x, times=times, died=died, size=2, draws=1, rng=rng, who="client 0")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(pairs) == 2 * 3998 and len(sets) == 2
    assert peak < 10e6


def test_unknown_ties_are_refused() -> None:
    with pytest.raises(ConfigError, match="did you mean 'efron'"):
        make(ties="efrn")


@pytest.mark.parametrize("died", [[False, False], [False, True]])
def test_no_patient_to_compare_with(died: list[bool]) -> None:
    x = np.zeros((2, 3))
    times = np.array([1.0, 2.0])
    with pytest.raises(
        DataError,
        match=r"client 7: none of its 2 patients died while another was at risk.*leave this",
    ):
        risk_sets(
            x=x,
            times=times,
            died=np.array(died),
            size=2,
            draws=1,
            rng=np.random.default_rng(0),
            who="client 7",
        )


def test_model_is_linear_in_each_patients_features_and_blind_to_absent_ones(
    place: Callable[..., Path],
) -> None:
    place(patients())
    data = make(at_risk=3)
    model = fk.models.cox(data)
    assert (
        model.spec.parameters == 40
        and fk.models.cox(data, hidden=(5,)).spec.parameters == 40 * 5 + 6
    )
    vector = np.random.default_rng(0).normal(size=40).astype(np.float32)
    scores = np.asarray(
        model.apply(model.unflatten(jnp.asarray(vector)), jnp.asarray(data.x), None)
    )
    present = data.x[..., -1] > 0
    np.testing.assert_allclose(
        scores[present], (data.x[..., :-1] @ vector[:39] + vector[39])[present], atol=1e-4
    )
    assert (scores[~present] < -1e8).all() and not present.all()


def test_a_run_learns_which_patients_die_first(place: Callable[..., Path]) -> None:
    table = patients(20)
    table["T"] = 1000 - 10 * table["age_at_index"] + 5 * table["f3"]
    place(table)
    data = make()
    run = fk.simulate(
        fk.FedAvg(),
        data,
        fk.models.cox(data),
        rounds=5,
        cohort=6,
        local=fk.SGD(lr=0.1, epochs=2),
        callbacks=fk.Progress(False),
    )
    index = [record["concordance_index"] for record in run.records]
    assert index[0] < 0.8 < 0.9 < index[-1]


def test_flambys_split_and_deaths(real: Path) -> None:
    data = make(draws=1)
    assert data.client_names == REGIONS and data.x.shape[1:] == (8, 40)
    # Deaths, except the last ones, which no other patient outlived.
    assert data.train.sizes.tolist() == [
        45,
        35,
        14,
        16,
        7 - 1,
        2 - 1,
    ]
    with_fewer = make(draws=1, at_risk=2)
    assert with_fewer.test.sizes.tolist() == data.test.sizes.tolist() and with_fewer.classes == 2
    assert make(draws=3).train.sizes.tolist() == [3 * size for size in data.train.sizes]
    # No two deaths of a region have the same time.
    assert np.array_equal(make(draws=1, ties="efron").x, data.x)


def test_age_is_scaled_on_training_patients_or_in_years(place: Callable[..., Path]) -> None:
    table = patients()
    place(table)
    age = table["age_at_index"][table["split"] == "train"]
    raw = make(scaling="raw").x
    pooled = make().x
    present = raw[..., -1] > 0
    np.testing.assert_allclose(
        pooled[..., 0][present],
        (raw[..., 0][present] - age.mean()) / age.std(),
        rtol=1e-4,
        atol=1e-5,
    )
    assert np.array_equal(pooled[..., 1:], raw[..., 1:]) and not np.array_equal(
        make(seed=1).x, pooled
    )


def test_flambys_two_files_and_one_table_are_the_same(
    place: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    table = patients()
    folder = place(table)
    together = make()
    pids = [f"P{number}" for number in range(len(table))]
    front = {"pid": pids, **{name: table[name].to_numpy() for name in table.columns[2:]}}
    pd.DataFrame(front).to_csv(folder / TABLE, index=False)
    (folder / SPLIT).parent.mkdir()
    parts = [
        f"{split}_{region}" for split, region in zip(table["split"], table["region"], strict=True)
    ]
    pd.DataFrame({"pid": pids, "fold": table["split"], "fold2": parts}).sample(frac=1).to_csv(
        folder / SPLIT, index=False
    )
    sums: dict[str, str | None] = {
        name: hashlib.md5((folder / name).read_bytes()).hexdigest() for name in (TABLE, SPLIT)
    }
    monkeypatch.setattr(MODULE, "TCGA", replace(TCGA, files=sums))
    apart = make()
    assert np.array_equal(apart.x, together.x) and np.array_equal(
        apart.test.rows, together.test.rows
    )


def test_the_publishers_files() -> None:
    assert (
        TCGA.url
        and TCGA.url.startswith("https://raw.githubusercontent.com/owkin/FLamby/")
        and all(TCGA.files.values())
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda table: table.drop(columns="f5"), "expected the columns region, split, 39 features"),
        (
            lambda table: table.replace({"region": {5: 6}}),
            r"row \d+: expected a region from 0 to 5",
        ),
        (lambda table: table.assign(f3="many"), "expected numbers in all columns except split"),
        (
            lambda table: table.assign(E=0),
            "tcga_brca, client Northeast, train: none of its 12 patients died",
        ),
    ],
)
def test_damaged_tables(
    place: Callable[..., Path], change: Callable[[pd.DataFrame], pd.DataFrame], message: str
) -> None:
    place(change(patients()))
    with pytest.raises(DataError, match=message):
        make()


def test_wrong_options_and_other_data() -> None:
    for options, message in (
        ({"scaling": "rew"}, "did you mean 'raw'"),
        ({"at_risk": 1}, "at_risk must be an integer of at least 2, got 1"),
        ({"draws": 0}, "draws must be an integer of at least 1, got 0"),
    ):
        with pytest.raises(ConfigError, match=message):
            make(**options)  # type: ignore[arg-type]
    with pytest.raises(ModelError, match="cox needs risk sets"):
        fk.models.cox(fk.data.digits(clients=5))
