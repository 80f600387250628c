from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from fedkin.core.errors import ConfigError, DataError
from fedkin.core.randomness import Stream
from fedkin.data import fedprox_partitions, partition
from fedkin.data.federated import Ragged

Oracle = Callable[[str], dict[str, Any]]


def histogram(owned: Ragged, labels: np.ndarray, classes: int = 10) -> np.ndarray:
    return np.array([np.bincount(labels[owned[u]], minlength=classes) for u in range(len(owned))])


# -- the published federations
# ---------------------------------------------------------------------------------------


def test_power_law_is_fedprox_mnist(oracle: Oracle) -> None:
    known = oracle("datasets")["mnist_power_law"]
    labels = np.repeat(np.arange(10), known["label_counts"])
    owned = fedprox_partitions.power_law(labels, 1000, 2, np.random.RandomState(known["np_seed"]))
    assert owned.sizes.tolist() == known["sizes"] and owned.sizes.sum() == known["total"]
    counts = histogram(owned, labels)
    assert counts.sum(axis=0).tolist() == known["final_idx"]
    first = [[counts[u, (u + j) % 10] for j in range(2)] for u in range(20)]
    assert first == known["first20_users_n_per_label"]
    assert (counts > 0).sum(axis=1).max() == 2
    train, test = partition.split_train_test(owned, Stream(0))
    assert (train.sizes.sum(), test.sizes.sum()) == (known["train_total"], known["test_total"])


def test_power_law_totals_of_ten_seeds(oracle: Oracle) -> None:
    known = oracle("datasets")["mnist_power_law"]
    labels = np.repeat(np.arange(10), known["label_counts"])
    totals = [
        int(fedprox_partitions.power_law(labels, 1000, 2, np.random.RandomState(s)).sizes.sum())
        for s in range(10)
    ]
    assert totals == known["totals_for_seeds_0_to_9"]


def test_femnist_sizes(oracle: Oracle) -> None:
    """The vectors were made with the 3 classes of the authors' script (the papers have 5)."""
    known = oracle("datasets")["femnist_my_sample"]
    counts = fedprox_partitions.femnist_counts(200, 3, np.random.RandomState(known["np_seed"]))
    assert (
        counts[:10].tolist() == known["n_per_class_first10"]
        and counts.max() == known["max_per_class"]
    )
    labels = np.repeat(np.arange(10), 4000)
    for shared in (False, True):
        totals = [
            int(
                fedprox_partitions.femnist(
                    labels=labels,
                    clients=200,
                    classes_per_client=3,
                    random=np.random.RandomState(s),
                    shared_images=shared,
                ).sizes.sum()
            )
            for s in range(20)
        ]
        assert totals == known["totals_seed0_19"]


def test_femnist_shares_images_only_when_asked() -> None:
    labels = np.repeat(np.arange(10), 4000)
    sound = fedprox_partitions.femnist(labels, 200, 5, np.random.RandomState(0))
    assert len(np.unique(sound.rows)) == len(sound.rows)
    shared = fedprox_partitions.femnist(
        labels, 200, 5, np.random.RandomState(0), shared_images=True
    )
    assert (shared.sizes == sound.sizes).all()
    # of every class, no more images are in use than its greediest client has
    most = histogram(shared, labels).max(axis=0).sum()
    assert len(np.unique(shared.rows)) == most < len(shared.rows) / 10
    # every client has the first images of its classes
    assert shared[13].tolist() == [
        c * 4000 + i for c in (3, 4, 5, 6, 7) for i in range(len(shared[13]) // 5)
    ]


def test_ditto_is_the_published_fashion_mnist(oracle: Oracle) -> None:
    known = oracle("datasets")["fmnist_ditto"]
    train, test = fedprox_partitions.ditto(
        train_labels=np.repeat(np.arange(10), 6000),
        test_labels=np.repeat(np.arange(10), 1000),
        clients=500,
        classes_per_client=5,
        random=np.random.RandomState(known["seed"]),
    )
    assert (
        train.sizes.tolist() == known["train_sizes"] and test.sizes.tolist() == known["test_sizes"]
    )
    assert (train.sizes.sum(), test.sizes.sum()) == (61_251, 11_254)
    users = [*known["first3_users_class_start_n_teststart_ntest"], known["last_user"]]
    for user, pieces in zip((0, 1, 2, 499), users, strict=True):
        rows = [c * 6000 + start + i for c, start, n, _, _ in pieces for i in range(n)]
        assert train[user].tolist() == rows
        rows = [c * 1000 + start + i for c, _, _, start, n in pieces for i in range(n)]
        assert test[user].tolist() == rows


def test_dirichlet_is_niid_bench(oracle: Oracle) -> None:
    labels = np.repeat(np.arange(10), 100)
    for known in oracle("misc")["dirichlet_niid_bench_style"]:
        owned = partition.dirichlet(
            labels, known["n_clients"], known["alpha"], np.random.RandomState(known["np_seed"])
        )
        assert histogram(owned, labels).tolist() == known["counts"]
        assert [owned[u][:10].tolist() for u in range(len(owned))] == known["first10_indices"]


def test_dirichlet_plain_is_sattlers(oracle: Oracle) -> None:
    known = oracle("misc")["sattler_split_noniid"]
    labels = np.repeat(np.arange(10), 100)
    random = np.random.RandomState(known["np_seed"])
    owned = partition.dirichlet_plain(labels, known["n_clients"], known["alpha"], random)
    assert histogram(owned, labels).tolist() == known["counts"]


def test_shipped_train_and_test_sizes_are_one_split(oracle: Oracle) -> None:
    """FedSim's test sizes are n - int(0.9 n) of whole clients: no client of under 51 samples, so
    none under 6 tests."""
    for name, known in oracle("datasets")["fedsim_shipped_test_sizes"].items():
        if name.startswith("synthetic"):
            for tests in known["test_sizes"]:
                n = next(n for n in range(10 * tests + 1) if n - int(0.9 * n) == tests)
                train, test = partition.split_train_test(Ragged.of([np.arange(n)]), Stream(0))
                assert (len(train.rows), len(test.rows)) == (n - tests, tests)


# -- properties
# --------------------------------------------------------------------------------------------------

labellings = hnp.arrays(np.int64, st.integers(1, 300), elements=st.integers(0, 6))
seeds = st.integers(0, 2**32 - 1)


def recipes(labels: np.ndarray, clients: int, k: int, seed: int) -> dict[str, Callable[[], Ragged]]:
    return {
        "power_law": lambda: fedprox_partitions.power_law(
            labels, clients, k, np.random.RandomState(seed)
        ),
        "femnist": lambda: fedprox_partitions.femnist(
            labels, clients, k, np.random.RandomState(seed)
        ),
        "dirichlet": lambda: partition.dirichlet(
            labels, clients, 1.0, np.random.RandomState(seed), minimum=1
        ),
        "dirichlet_plain": lambda: partition.dirichlet_plain(
            labels, clients, 5.0, np.random.RandomState(seed)
        ),
        "shards": lambda: partition.shards(labels, clients, k, Stream(seed)),
        "iid": lambda: partition.iid(len(labels), clients, Stream(seed)),
        "blocks": lambda: partition.blocks(labels, clients, k, Stream(seed))[0],
        "by_owner": lambda: partition.by_owner(labels),
    }


@pytest.mark.parametrize("name", recipes(np.zeros(1, np.int64), 1, 1, 0))
@given(labels=labellings, clients=st.integers(1, 12), k=st.integers(1, 5), seed=seeds)
def test_every_partition(name: str, labels: np.ndarray, clients: int, k: int, seed: int) -> None:
    """Every sample at most once (or exactly once), no client empty, the same seed the same
    partition."""
    make = recipes(labels, clients, k, seed)[name]
    try:
        owned = make()
    except (ConfigError, DataError):  # too few samples: never a silently wrong partition
        assume(False)
        raise
    again = make()
    assert np.array_equal(owned.rows, again.rows) and np.array_equal(owned.offsets, again.offsets)
    assert len(np.unique(owned.rows)) == len(owned.rows)
    assert owned.sizes.min() >= 1
    assert len(owned) == (len(np.unique(labels)) if name == "by_owner" else clients)
    if name in ("dirichlet", "dirichlet_plain", "shards", "iid", "blocks", "by_owner"):
        assert np.array_equal(np.sort(owned.rows), np.arange(len(labels)))
    if name in ("power_law", "femnist"):
        C = labels.max() + 1
        for u in range(clients):
            assert set(labels[owned[u]]) <= {(u + j) % C for j in range(k)}


@given(labels=labellings, clients=st.integers(1, 40), k=st.integers(1, 7), seed=seeds)
def test_power_law_gives_the_minimum_first(
    labels: np.ndarray, clients: int, k: int, seed: int
) -> None:
    assume(k <= labels.max() + 1)
    plenty = np.tile(np.arange(labels.max() + 1), 5 * k * clients + 1)
    owned = fedprox_partitions.power_law(plenty, clients, k, np.random.RandomState(seed))
    counts = histogram(owned, plenty, 7)
    for u in range(clients):
        assert (counts[u, [(u + j) % (labels.max() + 1) for j in range(k)]] >= 5).all()


@given(
    sizes=st.lists(st.integers(1, 60), min_size=1, max_size=8),
    fraction=st.floats(0.01, 1.0),
    seed=seeds,
)
def test_split_keeps_every_row_and_a_training_sample(
    sizes: list[int], fraction: float, seed: int
) -> None:
    owned = Ragged.of(np.split(np.arange(sum(sizes)) + 7, np.cumsum(sizes)[:-1]))
    train, test = partition.split_train_test(owned, Stream(seed), fraction)
    for client, n in enumerate(sizes):
        assert len(train[client]) == max(1, int(fraction * n))
        assert sorted([*train[client], *test[client]]) == owned[client].tolist()
    again = partition.split_train_test(owned, Stream(seed), fraction)
    assert np.array_equal(train.rows, again[0].rows) and np.array_equal(test.rows, again[1].rows)


def test_split_of_one_client_does_not_depend_on_the_others() -> None:
    rows = np.arange(50)
    alone, _ = partition.split_train_test(Ragged.of([rows, rows]), Stream(3))
    more, _ = partition.split_train_test(Ragged.of([rows, rows, rows + 50]), Stream(3))
    assert np.array_equal(alone[1], more[1]) and not np.array_equal(alone[0], alone[1])


def test_shards_of_the_sorted_labels() -> None:
    labels = np.tile(np.arange(10), 20)
    owned = partition.shards(labels, 10, 2, Stream(0))
    assert (owned.sizes == 20).all() and (histogram(owned, labels) > 0).sum(axis=1).max() <= 2


def test_blocks_are_those_of_athena() -> None:
    """FACTS: of 10 clients with 2 classes, clients 2i-1 and 2i share classes 2i-2 and 2i-1
    (numbered from 1); with 5, clients 1-5 have 0-4 and 6-10 have 5-9. 6,000 images of a class:
    halves of 3,000, fifths of 1,200."""
    labels = np.random.default_rng(0).permutation(np.repeat(np.arange(10), 6000))
    owned, true_clusters = partition.blocks(labels, 10, 2, Stream(0))
    expected = np.zeros((10, 10), int)
    for i in range(1, 6):
        for client in (2 * i - 1, 2 * i):
            expected[client - 1, [2 * i - 2, 2 * i - 1]] = 3000
    assert np.array_equal(histogram(owned, labels), expected) and true_clusters.tolist() == [
        0,
        0,
        1,
        1,
        2,
        2,
        3,
        3,
        4,
        4,
    ]
    owned, true_clusters = partition.blocks(labels, 10, 5, Stream(0))
    expected = np.kron(np.eye(2, dtype=int), np.full((5, 5), 1200))
    assert (
        np.array_equal(histogram(owned, labels), expected)
        and true_clusters.tolist() == [0] * 5 + [1] * 5
    )
    assert len(np.unique(owned.rows)) == 60_000


def test_blocks_mix_the_samples_of_a_class() -> None:
    """Rows of a class come in a random order, so that pooled training and test images mix."""
    labels = np.tile(np.arange(10), 100)
    owned, _ = partition.blocks(labels, 20, 2, Stream(0))
    late = [np.mean(owned[u] >= 500) for u in range(20)]
    assert 0.2 < min(late) < max(late) < 0.8
    assert not np.array_equal(owned.rows, partition.blocks(labels, 20, 2, Stream(1))[0].rows)


@given(labels=labellings, clients=st.integers(1, 12), k=st.integers(1, 7), seed=seeds)
def test_blocks_are_even(labels: np.ndarray, clients: int, k: int, seed: int) -> None:
    C = int(labels.max()) + 1
    assume(C % k == 0 and clients >= C // k and np.bincount(labels).max() * k >= clients)
    try:
        owned, true_clusters = partition.blocks(labels, clients, k, Stream(seed))
    except (ConfigError, DataError):  # too few samples
        assume(False)
        raise
    members = np.bincount(true_clusters, minlength=C // k)
    assert (
        members.min() >= 1
        and members.max() - members.min() <= 1
        and (np.diff(true_clusters) >= 0).all()
    )
    counts = histogram(owned, labels, C)
    for c in range(C):
        inside = true_clusters == c // k
        assert counts[~inside, c].sum() == 0 and np.ptp(counts[inside, c]) <= 1


def test_blocks_that_cannot_be() -> None:
    labels = np.tile(np.arange(10), 10)
    for k in (0, 3, 4, 11):
        message = rf"classes_per_client must divide the 10 classes \(1, 2, 5, 10\), got {k}"
        with pytest.raises(ConfigError, match=message):
            partition.blocks(labels, 10, k, Stream(0))
    with pytest.raises(ConfigError, match="5 blocks of 2 classes need at least 5 clients; got 4"):
        partition.blocks(labels, 4, 2, Stream(0))
    with pytest.raises(
        DataError, match=r"blocks: no samples are left for client \d+ .*fewer clients"
    ):
        partition.blocks(labels, 60, 2, Stream(0))


@given(sizes=st.lists(st.integers(0, 30), min_size=1, max_size=8), seed=seeds)
def test_dealt_again_evenly_and_once(sizes: list[int], seed: int) -> None:
    lists = np.split(np.arange(sum(sizes)) + 7, np.cumsum(sizes)[:-1])
    owned = Ragged.of([*lists, lists[0]])  # two clients have the same
    again = partition.redistribute(owned, Stream(seed))
    assert sorted(again.rows) == list(range(7, 7 + sum(sizes)))
    assert len(again) == len(owned) and np.ptp(again.sizes) <= 1


def test_dealt_again_at_random() -> None:
    labels = np.repeat(np.arange(10), 100)
    again = partition.redistribute(Ragged.of(np.split(np.arange(1000), 10)), Stream(0))
    assert histogram(again, labels).min() >= 1 and histogram(again, labels).max() <= 25
    assert not np.array_equal(again.rows, partition.redistribute(again, Stream(1)).rows)


def test_alpha_governs_heterogeneity() -> None:
    labels = np.repeat(np.arange(10), 500)
    kinds = [
        np.median(
            (
                histogram(partition.dirichlet(labels, 10, alpha, np.random.RandomState(0)), labels)
                > 25
            ).sum(axis=1)
        )
        for alpha in (0.05, 0.5, 100.0)
    ]
    assert kinds[0] < kinds[1] < kinds[2] == 10


# -- the odd and the impossible
# --------------------------------------------------------------------------------------


def test_empty_class_and_tiny_class_are_ordinary() -> None:
    labels = np.array([0] * 40 + [1] * 8 + [3] * 40)  # class 2 has no sample, class 1 too few
    owned = fedprox_partitions.power_law(labels, 4, 2, np.random.RandomState(0))
    assert labels[owned[1]].tolist() == [1, 1, 1] and set(labels[owned[2]]) == {3}
    assert len(partition.dirichlet(labels, 3, 1.0, np.random.RandomState(0))) == 3


@pytest.mark.parametrize("clients", [0, -1, 101])
def test_impossible_numbers_of_clients(clients: int) -> None:
    labels = np.tile(np.arange(10), 10)
    for name, make in recipes(labels, clients, 1, 0).items():
        if name != "by_owner":
            with pytest.raises(ConfigError, match="clients must be from 1 to"):
                make()


@pytest.mark.parametrize("k", [0, 11])
def test_impossible_numbers_of_classes(k: int) -> None:
    labels = np.tile(np.arange(10), 10)
    random = np.random.RandomState(0)
    for make in (fedprox_partitions.power_law, fedprox_partitions.femnist):
        with pytest.raises(ConfigError, match="classes_per_client must be from 1 to 10"):
            make(labels, 5, k, random)
    with pytest.raises(ConfigError, match="classes_per_client"):
        fedprox_partitions.ditto(
            train_labels=labels, test_labels=labels, clients=5, classes_per_client=k, random=random
        )


def test_more_clients_than_the_classes_can_feed() -> None:
    with pytest.raises(
        DataError, match=r"power_law: no samples are left for client \d+.*fewer clients"
    ):
        fedprox_partitions.power_law(np.tile(np.arange(10), 10), 90, 1, np.random.RandomState(0))


@pytest.mark.parametrize("alpha", [0.0, -1.0, np.nan, np.inf])
def test_impossible_alpha(alpha: float) -> None:
    labels = np.tile(np.arange(10), 10)
    random = np.random.RandomState(0)
    for make in (partition.dirichlet, partition.dirichlet_plain):
        with pytest.raises(ConfigError, match="alpha"):
            make(labels, 2, alpha, random)


def test_dirichlet_that_never_comes_about() -> None:
    labels = np.repeat(np.arange(2), 50)
    with pytest.raises(DataError, match="at least 10 samples each need more than 100"):
        partition.dirichlet(labels, 11, 1.0, np.random.RandomState(0))
    with pytest.raises(DataError, match="larger alpha or fewer clients"):
        partition.dirichlet(labels, 10, 1e-9, np.random.RandomState(0))


@pytest.mark.parametrize("fraction", [0.0, -0.1, 1.1, np.nan])
def test_impossible_fraction(fraction: float) -> None:
    with pytest.raises(ConfigError, match="train_fraction"):
        partition.split_train_test(Ragged.of([np.arange(3)]), Stream(0), fraction)
