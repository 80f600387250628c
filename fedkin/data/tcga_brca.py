"""TCGA-BRCA: survival of breast cancer patients of six regions, a natural federation, as FLamby
divides it.

Data: The Cancer Genome Atlas, open-access clinical tier, NCI Genomic Data Commons; do not try to
identify patients. Table and split: J. Ogier du Terrail et al.: FLamby. NeurIPS 2022, arXiv
2210.04620, and its code (MIT licence).
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import cast

import numpy as np

from fedkin.core.errors import ConfigError, DataError, unknown
from fedkin.core.randomness import Stream
from fedkin.data.about import AboutData, Form, named
from fedkin.data.download import Source, fetch, locate
from fedkin.data.federated import FederatedData, Ragged
from fedkin.data.files import Table, reading
from fedkin.data.partition_options import checked
from fedkin.data.survival import check_ties, comparable_pairs, risk_sets

REGIONS = ("Northeast", "South", "West", "Midwest", "Europe", "Canada")
SCALINGS = ("pooled", "raw")
FEATURES = 39

_FOLDERS = ("TCGA-BRCA", "tcga_brca", "tcga-brca")
TABLE = "brca.csv"
SPLIT = "dataset_creation_scripts/train_test_split.csv"
TCGA = Source(
    "tcga_brca",
    {TABLE: "989df4ddec084f749d9593146d7ba92f", SPLIT: "e648057e47463ee7763924d779cd7f2d"},
    folders=_FOLDERS,
    url="https://raw.githubusercontent.com/owkin/FLamby/edacf54d5211520583b0133d55ac39b6fda8324b/flamby/datasets/"
    "fed_tcga_brca",
    size="142 kB",
)
JOINED = Source(
    "tcga_brca (one table)", {TABLE: None}, folders=_FOLDERS
)  # with columns region and split


@named(
    AboutData(
        clients=6,
        samples="1,544",
        content="survival of breast cancer patients of six regions, in FLamby's split",
        source=TCGA,
        forms=(
            Form("FLamby's files", partial(locate, TCGA)),
            Form("one table", partial(locate, JOINED)),
        ),
    )
)
@checked
def tcga_brca(
    *,
    at_risk: int = 8,
    draws: int = 8,
    scaling: str = "pooled",
    ties: str = "breslow",
    seed: int = 0,
) -> FederatedData:
    """TCGA-BRCA: survival of 1,088 breast cancer patients, one client for each of six regions, in
    FLamby's split. To be trained with ``fedkin.models.cox``.

    A training sample is a death with patients of the same region beside it who were at risk at that
    time, x float32 [m, 40], of which the last is 1 for a patient and 0 where there are fewer than
    m; y is the position of the one who died, and the cross entropy the Cox loss. A test sample is a
    pair of patients of whom it is known who died first, so accuracy is the C-index: of all clients
    over the pairs within regions. Regions have 45, 35, 14, 16, 7 and 2 deaths to train on and 14,
    4, 8, 3, 2 and 1 to be tested on: the C-index of a small region says little.

    FLamby's two files, or one table ``brca.csv`` of the same rows with columns region and split.

    Args:
        at_risk: m, patients of a sample, at least 2.
        draws: samples of each death in training, each with other patients.
        scaling: ``pooled``: the age has mean 0 and deviation 1 on the training patients of all
            regions; ``raw``: it is in years, as in FLamby.
        ties: of deaths at the same time, of which the training patients of no region have any:
            ``breslow`` or ``efron``.
        seed: of the draws.

    Raises:
        ConfigError: another ``scaling`` or ``ties``, fewer than 2 patients, or no draw.
        DataError: files that can neither be found nor downloaded, or are not of this form; a region
            without a death.
    """
    for name, least, value in (("at_risk", 2, at_risk), ("draws", 1, draws)):
        if value < least:
            raise ConfigError(f"{name} must be an integer of at least {least}, got {value}")
    if scaling not in SCALINGS:
        raise ConfigError(unknown("scaling", scaling, SCALINGS))
    check_ties(ties)
    table = _patients()
    x = table.iloc[:, 2 : 2 + FEATURES].to_numpy(np.float64)
    if scaling == "pooled":
        age = x[table["split"].to_numpy() == "train", 0]
        x[:, 0] = (x[:, 0] - age.mean()) / age.std(ddof=1)
    times = table["T"].to_numpy(np.float64)
    died = table["E"].to_numpy() == 1
    parts: dict[str, list[np.ndarray]] = {"train": [], "test": []}
    samples = list[np.ndarray]()
    labels = list[np.ndarray]()
    total = 0
    for region, name in enumerate(REGIONS):
        for split, rows in parts.items():
            own = (table["region"].to_numpy() == region) & (table["split"].to_numpy() == split)
            rng = Stream(seed, purpose=f"tcga_brca/{split}").client(region)
            who = f"tcga_brca, region {name}, {split}"
            patients = x[own], times[own], died[own]
            if split == "train":
                some, y = risk_sets(*patients, at_risk, draws, rng, who, ties)
            else:
                some, y = comparable_pairs(*patients, at_risk, rng)
            rows.append(np.arange(total, total + len(y)))
            samples = [*samples, some]
            labels = [*labels, y]
            total = total + len(y)
    train, test = (Ragged.of(parts[split]) for split in ("train", "test"))
    every = np.concatenate(samples), np.concatenate(labels)
    return FederatedData("tcga_brca", *every, at_risk, train, test, client_names=REGIONS)


def _patients() -> Table:
    """One row for each patient: region, split, the features, E (1: death observed) and T (days)."""
    import pandas as pd

    if locate(TCGA) is None and (folder := locate(JOINED)):
        return _checked(_read(folder / TABLE), folder / TABLE)
    folder = fetch(TCGA)
    table = _read(folder / TABLE)
    split = _read(folder / SPLIT)
    whole = table.merge(split, on="pid")
    part = whole["fold2"].str.rsplit("_", n=1)
    front = pd.DataFrame({"region": part.str[1].astype(int), "split": part.str[0]})
    return _checked(pd.concat([front, whole[table.columns[1:]]], axis=1), folder / TABLE)


def _read(path: Path) -> Table:
    import pandas as pd

    with reading(path, "a CSV file"):
        return pd.read_csv(path)


def _checked(table: Table, path: Path) -> Table:
    """The table, refused where it has not this form."""
    names = list(table.columns)
    if (
        names[:3] != ["region", "split", "age_at_index"]
        or names[-2:] != ["E", "T"]
        or len(names) != FEATURES + 4
    ):
        raise DataError(
            f"{path}: expected the columns region, split, {FEATURES} features from age_at_index "
            f"on, E, T, got {len(names)} columns from {names[0]} to {names[-1]}"
        )
    numbers = cast(Table, table.drop(columns="split"))
    if (
        not all(kind.kind in "if" for kind in numbers.dtypes)
        or not np.isfinite(numbers.to_numpy(np.float64)).all()
    ):
        raise DataError(
            f"{path}: expected numbers in all columns but split, without missing values"
        )
    wrong = ~(
        table["region"].isin(range(len(REGIONS)))
        & table["split"].isin(["train", "test"])
        & table["E"].isin([0, 1])
    )
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0]) + 1
        raise DataError(
            f"{path}: row {row}: expected a region from 0 to 5, a split train or test, and E 0 or 1"
        )
    return table
