"""The benchmark's federations. Each has one kind of heterogeneity, and is so small that a run takes
a second or two."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache, partial

import numpy as np

from fedkin import data as sets
from fedkin.analysis.level_fits import merged
from fedkin.core.randomness import Stream
from fedkin.data.drifting import StreamData
from fedkin.data.federated import FederatedData, Ragged
from fedkin.data.natural_federation import natural_federation
from fedkin.data.natural_sets import NATURAL as NATURAL_SETS
from fedkin.models import Model, cox, mlp
from fedkin.scenarios.planted_clusters import planted
from fedkin.scenarios.shift import Shift
from fedkin.scenarios.steps import Steps
from fedkin.scenarios.swaps import SwapAll
from fedkin.scenarios.variants import label_permutations
from fedkin.task_types.classification import CLASSIFICATION

CLIENTS = 24
CLUSTERS = 4
VALIDATION = 0.25  # of the training samples, in trials
# The most samples of a client of a natural table.
TRAINED = 200
TESTED = 100
TRIAL_DRAW = 5
SMALL = partial(mlp, hidden=16)


@dataclass(frozen=True)
class Setting:
    """A federation, its model, and how long it is trained.

    Attributes:
        name: on the page.
        regime: kind of heterogeneity.
        about: description in a line.
        make: the data of a seed.
        model: of the data.
        rounds: T.
        clusters: K for methods that need it; the true number if there is one.
        clients: number of clients.
        newcomers: number of clients, the last ones, that take no part in training.
        rates: three learning rates of the grid, ascending.
        shift: how data shift.
        every: rounds of a step in a stream of steps; 0: no stream.
        revision: raised when code behind the setting is corrected, so that older runs do not count.
    """

    name: str
    regime: str
    about: str
    make: Callable[[int], FederatedData]
    model: partial[Model] = SMALL
    rounds: int = 30
    clusters: int = CLUSTERS
    clients: int = CLIENTS
    newcomers: int = 4
    rates: tuple[float, float, float] = (0.1, 0.3, 1.0)
    shift: Shift | None = None
    every: int = 0
    revision: int = 0

    def data(self, seed: int, validated: bool) -> FederatedData:
        """The federation of a seed. A trial has a validation split, except in a stream, where the
        next step is the validation data."""
        made = _made(self, seed)
        if made.validation is not None:
            # The data are divided by date.
            return made if validated else replace(made, train=merged(made), validation=None)
        if validated and not isinstance(made, StreamData):
            return _validated(made)
        return made


def _validated(made: FederatedData) -> FederatedData:
    """The data with validation samples."""
    # The stored trials have random risk sets of the training events as validation samples, which
    # fedkin refuses for data of users.
    if made.patients is None:
        return made.with_validation(VALIDATION)
    classes = replace(made, task_type=CLASSIFICATION, patients=None)
    divided = classes.with_validation(VALIDATION)
    return replace(divided, task_type=made.task_type, patients=made.patients)


@lru_cache(maxsize=4)
def _made(setting: Setting, seed: int) -> FederatedData:
    return setting.make(seed)


def _digits(partition: str, seed: int, **options: float | int) -> FederatedData:
    """All digits, divided by label."""
    return sets.digits(
        partition=partition,
        clients=CLIENTS,
        train_fraction=0.66,
        seed=seed,
        **options,  # pyright: ignore
    )


def _planted(kind: str, seed: int) -> FederatedData:
    """Four true clusters of six clients, with 48 digits each to train on."""
    return planted(
        "digits", kind, clusters=CLUSTERS, clients=CLIENTS, samples=48, test_samples=24, seed=seed
    )


def _permuted(seed: int) -> FederatedData:
    """Dirichlet(0.5) labels, permuted by the client's cluster."""
    data = _digits("dirichlet", seed, alpha=0.5)
    cluster = np.arange(data.clients) % CLUSTERS
    orders = label_permutations(data.classes, CLUSTERS, Stream(seed, purpose="benchmark/permuted"))
    y = data.y.copy()
    for split in ("train", "test"):
        part = data.part(split)
        y[part.rows] = orders[cluster[part.owners()], data.y[part.rows]]
    return replace(data, name="digits permuted, Dirichlet", y=y, true_clusters=cluster)


def _unequal(seed: int) -> FederatedData:
    """Rotated digits; clients have 4 to 48 samples, and most have few."""
    data = _planted("rotation", seed)
    share = np.random.default_rng(seed).uniform(size=data.clients) ** 2
    sizes = 4 + np.round(44 * share).astype(int)
    rows = [
        own[:size]
        for own, size in zip((data.train[c] for c in range(data.clients)), sizes, strict=True)
    ]
    return data.with_rows(Ragged.of(rows), data.test, data.true_clusters)


def _heart(seed: int) -> FederatedData:
    return sets.heart_disease()


def _writers(seed: int) -> FederatedData:
    data = sets.femnist(writer=True, clients=CLIENTS)
    return replace(data, x=1 - data.x)  # paper is 0


NONE = "none"
LABELS = "labels"
CONCEPTS = "concepts"
DRIFT = "drift"
MIXTURE = "mixture"
NATURAL = "natural"
TABLES = "tables"
REGIMES = {
    NONE: "Clients do not differ",
    LABELS: "Labels differ",
    CONCEPTS: "Planted clusters: inputs or labels are changed by cluster",
    DRIFT: "Data that drift",
    MIXTURE: "Each client has a mixture of distributions",
    NATURAL: "Natural federations",
    TABLES: "Natural federations of tables: schools, hospitals, states, industries",
}


def _sine(seed: int) -> FederatedData:
    return sets.sine(clients=CLIENTS, seed=seed)


def _mixture(seed: int) -> FederatedData:
    return sets.synthetic_mixture(clients=CLIENTS, features=20, test_samples=100, seed=seed)


def _survival(seed: int) -> FederatedData:
    return sets.tcga_brca(seed=seed)


def _natural(name: str, seed: int) -> FederatedData:
    """A natural table: at most ``CLIENTS`` of its clients, with at most ``TRAINED`` and ``TESTED``
    samples each.

    The labels of a forecast are those of a regression here, so that R2 scores all tables of
    numbers. The rows keep their division by date.
    """
    about = NATURAL_SETS[name]
    # Draw s of a table with dates ends s years earlier, so the trials use the first draw that no
    # run uses.
    draw = min(seed, TRIAL_DRAW) if about.time else seed
    is_classification = about.task_type == "classification"
    if is_classification or about.task_type == "count":
        data = natural_federation(set=name, seed=draw)
    else:
        data = natural_federation(set=name, seed=draw, task="regression", loss="squared_error")
    rng = np.random.default_rng(seed)
    kept = rng.permutation(data.clients)[:CLIENTS]
    data = data.select(kept)
    return replace(
        data,
        train=_drawn(data.train, TRAINED, rng),
        validation=None if data.validation is None else _drawn(data.validation, TESTED, rng),
        test=_drawn(data.test, TESTED, rng),
        # The stored trials have drawn validation samples by rows.
        unit=None,
    )


def _drawn(part: Ragged, most: int, rng: np.random.Generator) -> Ragged:
    """At most so many rows of each client, drawn at random, in their order."""
    clients = range(len(part.sizes))
    return Ragged.of([np.sort(rng.permutation(part[client])[:most]) for client in clients])


SLOW = (0.01, 0.03, 0.1)
SLOWEST = (0.003, 0.01, 0.03)
TURNED = partial(_planted, "rotation")
LABEL_SETTINGS = (  # in the order of their runs: one setting of each kind first
    Setting("rotations", CONCEPTS, "digits rotated by 0, 90, 180, 270 degrees", TURNED),
    Setting(
        "Dirichlet 0.1",
        LABELS,
        "digits, labels by Dirichlet(0.1)",
        partial(_digits, "dirichlet", alpha=0.1),
    ),
    Setting(
        "heart disease",
        NATURAL,
        "ill or not, four hospitals; the last one is a newcomer",
        _heart,
        clusters=2,
        clients=4,
        newcomers=1,
        rates=SLOW,
    ),
    Setting(
        "SINE",
        DRIFT,
        "FedDrift's stream: labels are inverted, client after client; prequential accuracy",
        _sine,
        rounds=50,
        every=5,
        shift=Steps(5, history=True),
        clusters=2,
        rates=(0.1, 0.3, 1.0),
    ),
    Setting(
        "mixture",
        MIXTURE,
        "FedEM's data: shares of three logistic models, 20 features",
        _mixture,
        clusters=3,
    ),
    Setting(
        "label permutations",
        CONCEPTS,
        "digits, labels permuted by cluster",
        partial(_planted, "label_permutation"),
    ),
    Setting(
        "2 classes",
        LABELS,
        "digits, two classes a client",
        partial(_digits, "power_law", classes_per_client=2),
    ),
    Setting(
        "swap-all",
        DRIFT,
        "rotations; a client swaps all its data with probability 0.05 a round",
        TURNED,
        shift=SwapAll(0.05),
    ),
    Setting(
        name="TCGA-BRCA",
        regime=NATURAL,
        about="survival in six regions (C-index); the last one is a newcomer",
        make=_survival,
        model=partial(cox, hidden=(8,)),
        clusters=2,
        clients=6,
        newcomers=1,
        rates=SLOW,
    ),
    Setting(
        "permutations, Dirichlet",
        CONCEPTS,
        "digits, Dirichlet(0.5) labels, permuted by cluster",
        _permuted,
    ),
    Setting("IID", NONE, "digits, divided at random", partial(_digits, "iid")),
    Setting("unequal sizes", CONCEPTS, "rotations; 4 to 48 samples a client", _unequal),
    Setting(
        "Dirichlet 1",
        LABELS,
        "digits, labels by Dirichlet(1)",
        partial(_digits, "dirichlet", alpha=1.0),
    ),
    Setting(
        name="FEMNIST",
        regime=NATURAL,
        about="24 writers, 62 classes",
        make=_writers,
        model=partial(mlp, hidden=32),
    ),
)


# The natural tables and their numbers of clients: employment has clusters; the states of loans and
# churn do not matter, so a method that gains from them gains by chance.
TABLE_CLIENTS = {
    "employment_w36": CLIENTS,
    "loans": CLIENTS,
    "exam": CLIENTS,
    "azpro": 17,
    "churn": CLIENTS,
    "chem97": CLIENTS,
    "randhie_plan": CLIENTS,
    "hsb82": CLIENTS,
    "flights": 16,
    "tv16": CLIENTS,
    "txhousing_lags": CLIENTS,
    "insteval": 14,
}
TABLE_SETTINGS = tuple(
    Setting(
        name=name,
        regime=TABLES,
        about=NATURAL_SETS[name].content,
        make=partial(_natural, name),
        clusters=4 if name.startswith("employment") else 2,
        clients=clients,
        rates=SLOWEST if NATURAL_SETS[name].task_type == "count" else SLOW,
    )
    for name, clients in TABLE_CLIENTS.items()
)
SETTINGS = LABEL_SETTINGS + TABLE_SETTINGS
