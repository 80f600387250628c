"""TCGA-BRCA: survival of breast cancer patients in six regions, a natural federation, in FLamby's
split.

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
from fedkin.data.about import AboutData, Form, named
from fedkin.data.download import Source, fetch, locate
from fedkin.data.federated import FederatedData
from fedkin.data.files import Table, reading
from fedkin.data.partition_options import checked
from fedkin.data.risk_set_federation import PatientTable, risk_set_federation
from fedkin.data.risk_set_options import RiskSetOptions

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
    url="https://raw.githubusercontent.com/owkin/FLamby/"
    "edacf54d5211520583b0133d55ac39b6fda8324b/flamby/datasets/fed_tcga_brca",
    size="142 kB",
)
# One table with the columns region and split.
JOINED = Source("tcga_brca (one table)", {TABLE: None}, folders=_FOLDERS)


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
    """TCGA-BRCA: survival of 1,088 breast cancer patients, a client for each of six regions.

    The split is FLamby's. The model for these data is ``fedkin.models.cox``.

    A training sample is a death with patients of the same region who were at risk at that time: x
    float32 [m, 40]. The last of the 40 features is 1 for a patient, and 0 for a place that is empty
    because there are fewer than m patients. y is the position of the patient who died, and the
    cross entropy is the Cox loss. A test sample is a pair of patients with a known first death, so
    accuracy is the C-index; over all clients, it counts pairs within regions. The regions have 45,
    35, 14, 16, 7 and 2 deaths for training and 14, 4, 8, 3, 2 and 1 for testing, so the C-index of
    a small region is not reliable.

    The files are FLamby's two, or one table ``brca.csv`` of the same patients with the columns
    region and split.

    Args:
        at_risk: m, the number of places for patients in a sample, at least 2.
        draws: number of training samples for each death, each with different patients.
        scaling: scaling of the age: ``pooled`` to mean 0 and standard deviation 1 on the training
            patients of all regions; ``raw`` in years, as in FLamby.
        ties: treatment of deaths at the same time: ``breslow`` or ``efron``. No region's training
            patients have such deaths.
        seed: seed of the draws.

    Raises:
        ConfigError: ``scaling`` or ``ties`` is unknown, ``at_risk`` is below 2, or ``draws`` is
            below 1.
        DataError: files can neither be found nor downloaded, or have other columns or values than
            FLamby's; or in some region no training patient died while another was at risk.
    """
    options = RiskSetOptions(at_risk, draws, ties, seed)
    if scaling not in SCALINGS:
        raise ConfigError(unknown("scaling", scaling, SCALINGS))
    table = _patients()
    x = table.iloc[:, 2 : 2 + FEATURES].to_numpy(np.float64)
    if scaling == "pooled":
        age = x[table["split"].to_numpy() == "train", 0]
        x[:, 0] = (x[:, 0] - age.mean()) / age.std(ddof=1)
    patients = PatientTable(
        x=x,
        times=table["T"].to_numpy(np.float64),
        died=table["E"].to_numpy() == 1,
        owners=table["region"].to_numpy(np.int64),
        trained=table["split"].to_numpy() == "train",
    )
    return risk_set_federation(patients, REGIONS, options, title="tcga_brca", purpose="tcga_brca")


def _patients() -> Table:
    """One row per patient: region, split, the features, E (1: death observed) and T (days)."""
    import pandas as pd

    if locate(TCGA) is None and (folder := locate(JOINED)):
        return _checked(_read(folder / TABLE), folder / TABLE)
    folder = fetch(TCGA)
    table = _read(folder / TABLE)
    split = _read(folder / SPLIT)
    joined = table.merge(split, on="pid")
    # Entries such as train_3 contain the split and the region.
    fold = joined["fold2"].str.rsplit("_", n=1)
    front = pd.DataFrame({"region": fold.str[1].astype(int), "split": fold.str[0]})
    without_pid = joined[table.columns[1:]]
    return _checked(pd.concat([front, without_pid], axis=1), folder / TABLE)


def _read(path: Path) -> Table:
    """Read one of FLamby's CSV files as a table."""
    import pandas as pd

    with reading(path, "a CSV file"):
        return pd.read_csv(path)


def _checked(table: Table, path: Path) -> Table:
    """The table of patients, unchanged. Raises DataError if it has another form than FLamby's."""
    names = list(table.columns)
    has_names = names[:3] == ["region", "split", "age_at_index"] and names[-2:] == ["E", "T"]
    if not has_names or len(names) != FEATURES + 4:
        raise DataError(
            f"{path}: expected the columns region, split, {FEATURES} features from age_at_index "
            f"on, E, T, but got {len(names)} columns from {names[0]} to {names[-1]}"
        )
    numbers = cast(Table, table.drop(columns="split"))
    is_numeric = all(kind.kind in "if" for kind in numbers.dtypes)
    if not is_numeric or not np.isfinite(numbers.to_numpy(np.float64)).all():
        raise DataError(
            f"{path}: expected numbers in all columns except split, without missing values"
        )
    region_right = table["region"].isin(range(len(REGIONS)))
    split_right = table["split"].isin(["train", "test"])
    event_right = table["E"].isin([0, 1])
    wrong = ~(region_right & split_right & event_right)
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0]) + 1
        raise DataError(
            f"{path}: row {row}: expected a region from 0 to 5, a split train or test, and E 0 or 1"
        )
    return table
