"""Heart disease: patients of four hospitals, a natural federation (UCI, 1988), in FLamby's split.

Data: A. Janosi, W. Steinbrunn, M. Pfisterer, R. Detrano: Heart Disease. UCI Machine Learning
Repository, 1988, licence CC BY 4.0. Split and features: J. Ogier du Terrail et al.: FLamby. NeurIPS
2022, arXiv 2210.04620, and its code.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
from jaxtyping import Bool, Float64, Int

from fedkin.core.errors import ConfigError, DataError, unknown
from fedkin.data.about import AboutData, Form, named
from fedkin.data.download import Source, fetch, locate
from fedkin.data.federated import FederatedData, Ragged
from fedkin.data.files import Table, reading
from fedkin.data.partition_options import checked

HOSPITALS = ("cleveland", "hungarian", "switzerland", "va")
NUMBERS = ("age", "sex", "trestbps", "chol", "fbs", "thalach", "exang", "oldpeak")
# These values become one-hot columns, except the first value, which becomes all zeros.
CATEGORIES = {"cp": (1, 2, 3, 4), "restecg": (0, 1, 2)}
FEATURES = (
    *NUMBERS,
    *(f"{name}_{value}" for name, values in CATEGORIES.items() for value in values[1:]),
)
COLUMNS = (
    "age",
    "sex",
    "cp",
    "trestbps",
    "chol",
    "fbs",
    "restecg",
    "thalach",
    "exang",
    "oldpeak",
    "slope",
    "ca",
    "thal",
    "num",
)
# The hospitals other than Cleveland have few values in these columns.
UNUSED = ("slope", "ca", "thal")
# FLamby's share of training patients, and its seed.
TRAIN = 0.66
SEED = 43
# Smallest number of patients of a hospital, so that both parts can have both classes.
LEAST = 6
SCALINGS = ("hospital", "pooled")

_FOLDERS = ("HeartDisease", "heart_disease", "heart-disease")
HEART = Source(
    "heart_disease",
    {
        "processed.cleveland.data": "2d91a8ff69cfd9616aa47b59d6f843db",
        "processed.hungarian.data": "22e96bee155b5973568101c93b3705f6",
        "processed.switzerland.data": "9a87f7577310b3917730d06ba9349e20",
        "processed.va.data": "4249d03ca7711e84f4444768c9426170",
    },
    folders=_FOLDERS,
    url="https://archive.ics.uci.edu/ml/machine-learning-databases/heart-disease",
    size="42 kB",
)
# One table with a header and a column hospital.
JOINED = Source("heart_disease (one table)", {"heart.csv": None}, folders=_FOLDERS)


@named(
    AboutData(
        clients=4,
        samples="740",
        content="patients of four hospitals, ill or not, in FLamby's split",
        source=HEART,
        forms=(
            Form("UCI's files", partial(locate, HEART)),
            Form("one table", partial(locate, JOINED)),
        ),
    )
)
@checked
def heart_disease(*, scaling: str = "hospital") -> FederatedData:
    """Heart disease: a client for each of four hospitals, x float32 [740, 13], y 1 for a patient
    with the disease.

    The split is FLamby's. Patients with a missing value are left out. Chest pain and resting ECG
    become 3 and 2 columns of 0 and 1. 66 % of each hospital's patients are for training:
    scikit-learn draws them with the seed 43, stratified if each class has at least 3 patients.
    Features have mean 0 and standard deviation 1 on the hospital's training patients. A feature
    with one value for all training patients is only centred. Training and test sizes: Cleveland
    199/104, Hungary 172/89, Switzerland 30/16, Long Beach 85/45.

    The files are UCI's four, or one table ``heart.csv`` of the same patients, with a header and a
    column ``hospital``.

    Args:
        scaling: the training patients on which features have mean 0 and standard deviation 1.
            ``hospital``: each hospital uses its own. ``pooled``: all use those of all four
            hospitals together. FLamby uses ``pooled`` for the accuracy on the joined test patients,
            which is not a mean over hospitals.

    Raises:
        ConfigError: ``scaling`` is neither ``hospital`` nor ``pooled``.
        DataError: files can neither be found nor downloaded, or have other columns or values than
            UCI's; the message names file and row.
    """
    if scaling not in SCALINGS:
        raise ConfigError(unknown("scaling", scaling, SCALINGS))
    tables = _hospitals()
    sizes = [len(table) for table in tables]
    owned = np.split(np.arange(sum(sizes)), np.cumsum(sizes)[:-1])
    x = np.concatenate([_features(table) for table in tables])
    y = np.concatenate([table["num"].to_numpy() > 0 for table in tables]).astype(np.int64)
    train_parts = []
    test_parts = []
    for rows in owned:
        trains = _training_rows(y[rows])
        train_parts.append(rows[trains])
        test_parts.append(rows[~trains])
    train = Ragged.of(train_parts)
    test = Ragged.of(test_parts)
    if scaling == "hospital":
        pairs = zip(owned, train_parts, strict=True)
        x = np.concatenate([_standardised(x[rows], x[trained]) for rows, trained in pairs])
    else:
        x = _standardised(x, x[train.rows])
    return FederatedData(
        name="heart_disease",
        x=x.astype(np.float32),
        y=y,
        classes=2,
        train=train,
        test=test,
        client_names=HOSPITALS,
        label_names=("healthy", "ill"),
        feature_names=FEATURES,
    )


def _hospitals() -> list[Table]:
    """The complete patients of each hospital, all columns as numbers."""
    if locate(HEART) is None and (folder := locate(JOINED)):
        path = folder / "heart.csv"
        table = _read(path, ("hospital", *COLUMNS), header=0)
        return [_complete(table[table["hospital"] == name], path, name) for name in HOSPITALS]
    folder = fetch(HEART)
    paths = [folder / name for name in HEART.files]
    return [
        _complete(_read(path, COLUMNS, None), path, name)
        for path, name in zip(paths, HOSPITALS, strict=True)
    ]


def _read(path: Path, columns: tuple[str, ...], header: int | None) -> Table:
    """Read a hospital's file as a table with these columns; ? is a missing value."""
    import pandas as pd

    with reading(path, "a CSV file"):
        table = pd.read_csv(path, header=header, na_values="?", skipinitialspace=True)
    if table.shape[1] != len(columns) or (header == 0 and tuple(table.columns) != columns):
        raise DataError(
            f"{path}: expected the columns {', '.join(columns)}, got "
            f"{', '.join(map(str, table.columns))}"
        )
    return table.set_axis(list(columns), axis=1)


def _complete(table: Table, path: Path, hospital: str) -> Table:
    """The patients (rows of a table) without a missing value in a used column, as numbers."""
    import pandas as pd

    used = table[[name for name in COLUMNS if name not in UNUSED]]
    numbers = used.apply(pd.to_numeric, errors="coerce")
    strange = (numbers.isna() & used.notna()).to_numpy()
    if strange.any():
        row, column = (int(index) for index in np.argwhere(strange)[0])
        raise DataError(
            f"{path}: row {int(used.index[row]) + 1}: expected a number or ? as "
            f"{used.columns[column]}, got {used.iat[row, column]!r}"
        )
    complete = numbers.dropna()
    if len(complete) < LEAST:
        raise DataError(
            f"{path}: expected at least {LEAST} patients of {hospital} without a missing value, "
            f"found {len(complete)}"
        )
    return complete


def _features(table: Table) -> Float64[np.ndarray, "n 13"]:
    """The features of patients: numbers, then a column of 0 and 1 for each category."""
    dummies = [
        table[name].to_numpy() == value
        for name, values in CATEGORIES.items()
        for value in values[1:]
    ]
    return np.column_stack([table[list(NUMBERS)].to_numpy(np.float64), *dummies])


def _training_rows(labels: Int[np.ndarray, "n"]) -> Bool[np.ndarray, "n"]:
    """Which patients of a hospital are for training, as a mask."""
    from sklearn.model_selection import train_test_split

    counts = np.bincount(labels)
    occurring = counts[counts > 0]
    stratified = len(occurring) > 1 and (occurring > 2).all()
    patients = np.arange(len(labels))
    chosen, _ = train_test_split(
        patients,
        test_size=1.0 - TRAIN,
        train_size=TRAIN,
        random_state=SEED,
        stratify=labels if stratified else None,
    )
    return np.isin(patients, chosen)


def _standardised(
    x: Float64[np.ndarray, "n 13"], training: Float64[np.ndarray, "t 13"]
) -> Float64[np.ndarray, "n 13"]:
    """Features scaled to mean 0 and standard deviation 1 (with divisor n - 1) on the training
    patients."""
    mean = training.mean(axis=0)
    deviation = training.std(axis=0, ddof=1)
    return (x - mean) / np.where(deviation > 0, deviation, 1.0)
