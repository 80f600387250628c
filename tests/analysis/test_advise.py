"""Advice: the number of clusters on data with known clusters, the measurements behind it, and its
refusals."""

from __future__ import annotations

import json
import re
import tomllib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import fedkin as fk
from fedkin.analysis.advise import Advice, advise, estimate_cluster_count, split_half_stability
from fedkin.analysis.advise.heterogeneity import heterogeneity
from fedkin.analysis.advise.pilot_runs import PilotPlan, run_pilots
from fedkin.analysis.advise.split_half_stability import ClusterCount, iid_split, usable_clients
from fedkin.clustering.cluster_count import Gap
from fedkin.config import run
from fedkin.core.errors import ConfigError, DataError, ModelError
from fedkin.core.randomness import Stream
from fedkin.data.federated import FederatedData, Ragged
from fedkin.models import mclr
from fedkin.reporting.advice_figure import save

LOCAL = fk.SGD(epochs=10, batch_size=10, lr=0.3)
QUICK = PilotPlan(rounds=2, cohort=8, seeds=3)


def federation(clusters: int, clients: int = 24, samples: int = 40, seed: int = 0) -> FederatedData:
    """Classes are blobs in the plane of ten features; cluster k calls class c by the name c + k."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 4, clients * samples)
    x = (3 * np.eye(10)[y] + rng.normal(scale=0.5, size=(len(y), 10))).astype(np.float32)
    true_clusters = np.arange(clients) % clusters
    named = (y + np.repeat(true_clusters, samples)) % 4
    rows = np.arange(len(y)).reshape(clients, samples)
    train = Ragged.of([row[:-8] for row in rows])
    test = Ragged.of([row[-8:] for row in rows])
    return FederatedData(
        name="blobs", x=x, y=named, classes=4, train=train, test=test, true_clusters=true_clusters
    )


# --- the number of clusters


@pytest.mark.parametrize("clusters", [1, 2, 4])
def test_the_true_number_of_clusters(clusters: int) -> None:
    data = federation(clusters)
    count = estimate_cluster_count(data, mclr(data), LOCAL, iid_splits=2)
    assert count.clusters == clusters and count.max_clusters == 6
    if clusters > 1:
        assert count.stability[clusters - 1] == 1 and count.chance < 0.75
    else:
        assert count.stability[1:].max() < 0.75
    assert set(count.estimates) == {
        "split-half stability",
        "gap statistic",
        "silhouette",
        "eigengap",
        "dendrogram",
    }
    assert count.points.shape == (24, 5) and len(count.spectrum) == 7


def test_names_of_clients_change_nothing() -> None:
    """Pilots have two clients for each client of the data, so they cannot have its names."""
    data = federation(2, clients=12)
    named = replace(data, client_names=tuple(f"ward {client}" for client in range(12)))
    counts = [
        estimate_cluster_count(one, mclr(one), LOCAL, iid_splits=1, splits=1)
        for one in (data, named)
    ]
    np.testing.assert_array_equal(counts[0].stability, counts[1].stability)
    assert counts[1].clusters == 2


def test_the_same_seed_gives_the_same_answer() -> None:
    data = federation(2, clients=12)
    first, again = (
        estimate_cluster_count(data, mclr(data), LOCAL, iid_splits=1, splits=1, seed=3)
        for _ in range(2)
    )
    np.testing.assert_array_equal(first.stability, again.stability)
    np.testing.assert_array_equal(first.points, again.points)
    assert first.chance == again.chance


def test_pilots_go_on_until_something_is_learnt() -> None:
    """A learning rate that is thirty times lower needs longer, and the answer is the same."""
    data = federation(2)
    said = []
    count = estimate_cluster_count(
        data,
        mclr(data),
        fk.SGD(batch_size=10, lr=0.01),
        iid_splits=1,
        splits=1,
        progress=said.append,
    )
    trials = [line for line in said if line.startswith("a pilot")]
    assert count.clusters == 2 and len(trials) > 1
    assert trials == [f"a pilot of {10 * 2**i} epochs" for i in range(len(trials))]


def test_the_truth_is_not_looked_at() -> None:
    data = federation(2, clients=12)
    other = FederatedData(
        name=data.name,
        x=data.x,
        y=data.y,
        classes=4,
        train=data.train,
        test=data.test,
        true_clusters=None,
    )
    first, second = (
        estimate_cluster_count(one, mclr(one), LOCAL, iid_splits=1, splits=1)
        for one in (data, other)
    )
    np.testing.assert_array_equal(first.stability, second.stability)


def test_small_clients_are_left_out_and_large_federations_sampled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    data = federation(1, clients=20)
    lists = [data.train[i] if i % 2 else data.train[i][:7] for i in range(20)]
    some = data.with_rows(Ragged.of(lists), data.test)
    assert usable_clients(some, Stream(0)).tolist() == list(range(1, 20, 2))
    monkeypatch.setattr(split_half_stability, "MAX_CLIENTS", 9)
    drawn = usable_clients(some, Stream(0))
    assert len(drawn) == 9 and set(drawn) < set(range(1, 20, 2)) and (np.diff(drawn) > 0).all()


def test_an_iid_split_keeps_sizes_and_samples() -> None:
    part = Ragged.of([np.arange(5), np.arange(5, 7), np.arange(7, 20)])
    other = iid_split(part, np.random.default_rng(0))
    np.testing.assert_array_equal(other.sizes, part.sizes)
    assert sorted(other.rows) == list(range(20)) and other.rows.tolist() != part.rows.tolist()


def test_refusals() -> None:
    data = federation(1)
    with pytest.raises(
        DataError,
        match="at least 8 clients with 8 or more training samples, got 7 such clients of 7",
    ):
        estimate_cluster_count(federation(1, clients=7), mclr(data))
    with pytest.raises(DataError, match="all training samples have the same class"):
        estimate_cluster_count(
            data.with_rows(data.train, data.test, y=np.zeros_like(data.y)), mclr(data)
        )
    with pytest.raises(ConfigError, match="max_clusters"):
        estimate_cluster_count(data, mclr(data), max_clusters=1)
    large = fk.data.digits(clients=10, size=32)
    with pytest.raises(ModelError, match="got a detector"):
        advise(large, fk.models.detector(large))
    with pytest.raises(ConfigError, match="belong to a method"):
        advise(data, mclr(data), fk.LocalTraining(mu=0.1))
    with pytest.raises(ConfigError, match="seeds"):
        PilotPlan(seeds=2)


# --- heterogeneity


def test_clients_of_own_classes_differ_and_those_of_an_iid_split_do_not() -> None:
    data = fk.data.digits(partition="shards", clients=12, classes_per_client=2)
    table = heterogeneity(data, mclr(data), iid_splits=3)
    assert table.index.tolist() == ["PNI", "label divergence", "gradient dissimilarity"]
    assert np.all(table["value"] > table["high"]) and np.all(table["ratio"] > 1.5)
    assert np.all(table["low"] <= table["iid"]) and np.all(table["iid"] <= table["high"])
    even = heterogeneity(fk.data.digits(partition="iid", clients=12), mclr(data), iid_splits=3)
    assert np.all(even["ratio"] < 1.5)


def test_the_measures_are_those_of_the_data() -> None:
    data = federation(2, clients=8)
    table = heterogeneity(data, mclr(data), iid_splits=1, seed=4)
    assert table.loc["PNI", "value"] == fk.non_iid_index(data, mclr(data), models=10, seed=4).pni
    counts = data.label_counts()
    own = counts / counts.sum(axis=1, keepdims=True)
    whole = counts.sum(axis=0) / counts.sum()
    middle = (own + whole) / 2
    expected = (
        (own * np.log2(own / middle)).sum(axis=1) + (whole * np.log2(whole / middle)).sum(axis=1)
    ) / 2
    assert table.loc["label divergence", "value"] == pytest.approx(expected.mean())


def test_private_labels_are_not_counted() -> None:
    data = federation(2, clients=8)
    assert (
        "label divergence"
        not in heterogeneity(data, mclr(data), iid_splits=1, private_labels=True).index
    )


# --- does it help


def test_the_gain_is_paired_by_seeds() -> None:
    data = federation(2, clients=12)
    table = run_pilots(data=data, model=mclr(data), local=LOCAL, clusters=2, plan=QUICK)
    assert table.index.tolist() == ["fedavg", "flexcfl", "ifca"]
    cohort = fk.Cohort(8, selection="round_robin")
    finals: list[list[float]] = []
    for method in (fk.FedAvg(), fk.FlexCFL(clusters=2)):
        runs = [
            fk.simulate(method, data, mclr(data), rounds=2, cohort=cohort, local=LOCAL, seed=seed)
            for seed in (0, 1, 2)
        ]
        finals.append([100 * run.summary()["final_accuracy"] for run in runs])
    plain, clustered = finals
    gains = np.array(clustered) - np.array(plain)
    half = 4.302653 * gains.std(ddof=1) / 3**0.5  # Student's t, 2 degrees of freedom
    row = table.loc["flexcfl"]
    assert row["gain"] == pytest.approx(gains.mean())
    assert (row["low"], row["high"]) == (
        pytest.approx(gains.mean() - half),
        pytest.approx(gains.mean() + half),
    )
    P = mclr(data).spec.parameters
    assert table.loc["fedavg", "bytes"] == 8 * P  # a model down and one up, 4 bytes a number
    assert table.loc["ifca", "bytes"] == 12 * P and table.loc["fedavg", "bytes_once"] == 0


def test_pilots_compare_methods_on_the_same_clients() -> None:
    """After one round FlexCFL has no cluster for some of 60 clients, and FedAvg has."""
    data = federation(2, clients=60, samples=12)
    plan = PilotPlan(rounds=1, cohort=8, seeds=3)
    table = run_pilots(data=data, model=mclr(data), local=LOCAL, clusters=2, plan=plan)
    cohort = fk.Cohort(8, selection="round_robin")
    finals = [
        fk.simulate(
            fk.FlexCFL(clusters=2),
            data,
            mclr(data),
            rounds=1,
            cohort=cohort,
            local=LOCAL,
            seed=seed,
        ).summary()
        for seed in (0, 1, 2)
    ]
    of_all = np.mean([100 * summary["accuracy_all_clients"] for summary in finals])
    assert table.loc["flexcfl", "accuracy"] == pytest.approx(of_all)
    # The worst clients are only known among the others.
    assert np.isnan(table.loc["flexcfl", "bottom_decile"])

    # Of validation samples, the score over all clients is unknown.
    validated = data.with_validation(0.3)
    table = run_pilots(data=validated, model=mclr(data), local=LOCAL, clusters=2, plan=plan)
    assert np.isnan(table.loc["flexcfl", "gain"]) and not np.isnan(table.loc["fedavg", "gain"])


def test_without_test_samples_there_is_nothing_to_gain() -> None:
    data = federation(2, clients=8)
    bare = data.with_rows(
        data.train, Ragged.of([row[:0] for row in (data.test[i] for i in range(8))])
    )
    with pytest.raises(DataError, match="no client has test samples"):
        run_pilots(data=bare, model=mclr(data), local=LOCAL, clusters=2, plan=QUICK)


# --- the whole


def cluster_count(stability: list[float], clusters: int, chance: float = 0.5) -> ClusterCount:
    """A count with only the values that the verdict needs."""
    most = len(stability)
    nothing = np.zeros(most)
    gap = Gap(nothing, nothing)
    spectrum = np.zeros(most + 1)
    points = np.zeros((12, most - 1))
    shares = np.array(stability)
    return ClusterCount(
        clusters=clusters,
        clients=np.arange(12),
        stability=shares,
        chance=chance,
        gap=gap,
        silhouette=nothing,
        spectrum=spectrum,
        heights=nothing,
        points=points,
    )


Gains = dict[str, tuple[float, float, float, float]]
NAN = float("nan")


def an_advice(clusters: int, gains: Gains | None) -> Advice:
    """An advice of 3 numbers of clusters whose pilots are (gain, low, high, bytes)."""
    table = None
    if gains is not None:
        rows = {"fedavg": (0.0, 0.0, 0.0, 8.0), **gains}
        table = pd.DataFrame.from_dict(
            rows, orient="index", columns=["gain", "low", "high", "bytes"]
        )
    count = cluster_count([1.0, 0.9, 0.8] if clusters > 1 else [1.0, 0.4, 0.3], clusters)
    return Advice(
        data="toy",
        model="mclr",
        clients=12,
        local={"lr": 0.1},
        run={"rounds": 5, "cohort": 4},
        heterogeneity=pd.DataFrame(),
        cluster_count=count,
        pilots=table,
    )


@pytest.mark.parametrize(
    ("clusters", "gains", "verdict", "method", "words"),
    [
        (
            1,
            None,
            "do not cluster",
            "fedavg",
            "no number of clusters is stable: split-half stability is at most 40%",
        ),
        (
            1,
            None,
            "do not cluster",
            "fedavg",
            "no client has test samples, so the gain of two clusters is unknown",
        ),
        (
            1,
            {"ifca": (0.2, -0.5, 0.9, 12.0)},
            "do not cluster",
            "fedavg",
            "two clusters: ifca +0.2 points [-0.5",
        ),
        (
            1,
            {"flexcfl": (2.5, -1.0, 6.0, 8.0), "ifca": (2.0, 0.5, 3.5, 12.0)},
            "do not cluster",
            "fedavg",
            "ifca +2.0 points [+0.5, +3.5] over fedavg, significant although no clusters were "
            "found",
        ),
        (
            2,
            {"ifca": (1.0, -0.5, 2.5, 12.0)},
            "do not cluster",
            "fedavg",
            "+1.0 points [-0.5, +2.5]",
        ),
        (
            2,
            {"ifca": (-3.0, -4.0, -2.0, 12.0)},
            "do not cluster",
            "fedavg",
            "no clustered method has a significant gain",
        ),
        (
            2,
            {"flexcfl": (9.5, 9.0, 10.0, 8.0), "ifca": (10.0, 9.0, 11.0, 12.0)},
            "cluster",
            "flexcfl",
            "+9.5 points",
        ),
        (
            2,
            {"flexcfl": (5.0, 4.0, 6.0, 8.0), "ifca": (10.0, 9.0, 11.0, 12.0)},
            "cluster",
            "ifca",
            "+10.0 points",
        ),
        (
            2,
            None,
            "cannot tell",
            "flexcfl",
            "2 clusters of clients, split-half stability 90%; no client has",
        ),
        (2, None, "cannot tell", "flexcfl", "so the gain of clustering is unknown"),
        (2, {"ifca": (NAN, NAN, NAN, NAN)}, "cannot tell", "flexcfl", "no pilot could be scored"),
        (3, {"ifca": (10.0, 9.0, 11.0, 12.0)}, "cluster", "ifca", "at least 3 clusters of clients"),
    ],
)
def test_the_verdict(
    clusters: int, gains: Gains | None, verdict: str, method: str, words: str
) -> None:
    advice = an_advice(clusters, gains)
    assert (advice.verdict, advice.method) == (verdict, method) and words in advice.why
    sections = tomllib.loads(advice.toml())
    clustered = verdict != "do not cluster"
    assert sections["method"] == (
        {"name": method, "clusters": clusters} if clustered else {"name": method}
    )
    assert sections["run"].get("against", []) == (["fedavg"] if clustered else [])


@pytest.mark.parametrize(
    ("stability", "chance", "words"),
    [
        (
            [0.4, 0.3],
            0.5,
            "no number of clusters is stable: split-half stability is at most 40%, but 75% is "
            "required (50%",
        ),
        ([0.746, 0.3], 0.5, "is stable: split-half stability is at most 74%, but 75% is required"),
        (
            [0.9, 0.8],
            0.95,
            "stable than by chance: split-half stability is at most 90%, and IID splits .* reach "
            "95%",
        ),
    ],
)
def test_the_headline_of_one_cluster_names_the_condition_that_is_missed(
    stability: list[float], chance: float, words: str
) -> None:
    advice = replace(an_advice(1, None), cluster_count=cluster_count([1.0, *stability], 1, chance))
    assert (
        re.search(words.replace("(50%", r"\(50%"), advice.why)
        and advice.verdict == "do not cluster"
    )


def test_chance_that_gains_nothing_is_not_called_a_gain() -> None:
    why = an_advice(1, {"ifca": (0.2, -0.5, 0.9, 12.0)}).why
    assert "significant" not in why


def test_without_a_known_gain_the_prior_names_the_method() -> None:
    row = {"value": 0.3, "iid": 0.15, "low": 0.1, "high": 0.2, "ratio": 2.0}
    bare = an_advice(2, None)
    advice = replace(bare, heterogeneity=pd.DataFrame([row], index=["label divergence"]))
    assert (bare.prior, bare.method) == (None, "flexcfl") and bare.summary()["prior"] is None
    assert advice.prior is not None and advice.method == advice.prior.best_clustered
    assert advice.verdict == "cannot tell" and advice.summary()["prior"]["kind"] == "labels"
    gains = an_advice(2, {"flexcfl": (3.0, 1.0, 5.0, 9.0)})
    assert replace(gains, heterogeneity=advice.heterogeneity).method == "flexcfl"  # pilots decide


def test_the_whole_advice_and_its_suggested_run(tmp_path: Path) -> None:
    data = federation(2, clients=12)
    said = []
    advice = advise(
        data, mclr(data), LOCAL, pilots=QUICK, rounds=3, cohort=50, progress=said.append
    )
    assert advice.clusters == 2 and advice.verdict == "cluster" and len(said) > 8
    told = json.loads(json.dumps(advice.summary(), allow_nan=False))
    assert (
        told["verdict"] == "cluster"
        and told["estimates"]["split-half stability"] == 2
        and len(told["pilots"]) == 3
    )
    assert [row["clusters"] for row in told["criteria"]] == [1, 2, 3]
    checked = run.from_dict({"data": {"name": "digits"}, **tomllib.loads(advice.toml())})
    assert checked.run.cohort == 12 and checked.run.rounds == 3 and checked.local.lr == 0.3
    paths = save(advice, tmp_path / "a.png")
    assert [path.name for path in paths] == ["a.png", "a.svg"] and all(
        path.stat().st_size > 1000 for path in paths
    )


def test_of_one_cluster_two_are_tried() -> None:
    data = federation(1, clients=12)
    advice = advise(data, mclr(data), LOCAL, pilots=QUICK)
    assert (
        advice.verdict == "do not cluster" and advice.clusters == 1 and advice.pilot_clusters == 2
    )
    assert advice.pilots is not None
    pd.testing.assert_frame_equal(
        advice.pilots, run_pilots(data=data, model=mclr(data), local=LOCAL, clusters=2, plan=QUICK)
    )
    assert "with two clusters: " in advice.why
    told = json.loads(json.dumps(advice.summary(), allow_nan=False))
    assert told["pilot_clusters"] == 2 and told["configuration"]["method"] == {"name": "fedavg"}


@pytest.mark.parametrize(("clusters", "verdict"), [(1, "do not cluster"), (2, "cannot tell")])
def test_without_test_samples_clusters_are_found_and_no_gain_is_claimed(
    clusters: int, verdict: str
) -> None:
    data = federation(clusters, clients=12)
    bare = data.with_rows(data.train, Ragged.of([data.test[i][:0] for i in range(12)]))
    advice = advise(bare, mclr(bare), LOCAL, pilots=QUICK)
    assert (advice.verdict, advice.clusters, advice.pilots) == (verdict, clusters, None)
    assert "no client has test samples" in advice.why and advice.summary()["pilot_clusters"] is None


# --- units


def test_halves_and_iid_splits_keep_units_whole() -> None:
    """Visits of a patient are alike. In both halves, they would make a client like itself by its
    patients alone."""
    data = federation(1, clients=8)
    # Each client has patients with 1 to 12 visits; equal numbers of two clients are two patients.
    patients = np.repeat([0, 1, 2, 3, 4, 5, 6], [1, 2, 12, 3, 4, 8, 2])
    unit = np.zeros(len(data.y), np.int64)
    for client in range(8):
        unit[data.train[client]] = patients
        unit[data.test[client]] = 7
    data = replace(data, unit=unit)
    assert data.train.sizes.tolist() == [32] * 8
    found = split_half_stability.units_of_clients(data)
    assert found is not None
    assert len(np.unique(found[data.train.rows])) == 56
    rng = np.random.default_rng(0)
    halves = split_half_stability._halves(data.train, rng, found)
    for client in range(8):
        first = halves[client]
        second = halves[client + 8]
        assert sorted([*first, *second]) == data.train[client].tolist()
        assert not set(unit[first]) & set(unit[second])
        assert abs(len(first) - len(second)) <= 12
    dealt = iid_split(data.train, rng, found)
    assert dealt.sizes.tolist() == [32] * 8
    owners = {int(pair): set() for pair in np.unique(found[data.train.rows])}
    for client in range(8):
        for row in dealt[client]:
            owners[int(found[row])].add(client)
    # Only a unit at the end of a client is cut, at most one for each of the 7 borders.
    assert sum(len(own) - 1 for own in owners.values()) <= 7
    # A single unit, which only an IID split may give to a client, is cut.
    alone = Ragged.of([np.arange(4)])
    single = split_half_stability._halves(alone, rng, np.zeros(4, np.int64))
    assert single.sizes.tolist() == [2, 2]


def test_clients_with_a_single_unit_have_no_halves() -> None:
    data = federation(1, clients=10)
    unit = np.arange(len(data.y)) // 2
    for client in (0, 3, 5):
        unit[data.train[client]] = 7_000 + client
        unit[data.test[client]] = 8_000 + client
    with pytest.raises(
        DataError, match="training samples of two or more units, got 7 such clients"
    ):
        usable_clients(replace(data, unit=unit), Stream(0, 0, "advise"))
    # Units that do not matter: each sample is its own.
    single = replace(data, unit=np.arange(len(data.y)))
    count = estimate_cluster_count(single, mclr(single), LOCAL, iid_splits=1, splits=1)
    assert len(count.clients) == 10
