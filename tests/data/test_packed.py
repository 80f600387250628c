"""Data that are read where they lie."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import MISSING, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import fedkin as fk
from fedkin.core.errors import ConfigError, DataError
from fedkin.core.model_spec import BackboneFeatures
from fedkin.data.digest import data_digest
from fedkin.data.federated import FederatedData, Ragged
from fedkin.data.packed import DESCRIPTION, open_packed, pack, verify
from fedkin.data.patients import Patients


@pytest.fixture
def data() -> FederatedData:
    return fk.data.synthetic(clients=6, samples=10, seed=2).with_validation(0.2)


def same(one: FederatedData, other: FederatedData) -> bool:
    for field in fields(FederatedData):
        a = getattr(one, field.name)
        b = getattr(other, field.name)
        if isinstance(a, Ragged):
            if not (np.array_equal(a.rows, b.rows) and np.array_equal(a.offsets, b.offsets)):
                return False
        elif isinstance(a, Patients):
            if not all(np.array_equal(a.arrays()[name], b.arrays()[name]) for name in a.arrays()):
                return False
        elif isinstance(a, dict):
            if a != b:
                return False
        elif not np.array_equal(a, b) or (isinstance(a, np.ndarray) and a.dtype != b.dtype):
            return False
    return True


def test_packed_data_are_opened(data: FederatedData, tmp_path: Path) -> None:
    packed = pack(data, tmp_path / "d")
    assert isinstance(packed.x.base, np.memmap) and isinstance(packed.train.rows.base, np.memmap)
    assert same(data, packed) and same(data, fk.data.load(tmp_path / "d"))
    assert data_digest(packed) == data_digest(data)  # so that a run goes on with either
    verify(tmp_path / "d")


def data_of_words() -> FederatedData:
    return FederatedData(
        name="words",
        x=np.array([[0, 1], [1, 2], [2, 2]]),
        y=np.array([0, 1, 1]),
        classes=2,
        train=Ragged(np.array([0, 2]), np.array([0, 1, 2])),
        test=Ragged(np.array([1]), np.array([0, 0, 1])),
        true_clusters=np.array([1, 0]),
        client_names=("anna", "ben"),
        vocabulary=("a", "b", "c"),
        vectors=np.ones((3, 4), np.float32),
        label_names=("no", "yes"),
    )


def data_of_a_table() -> FederatedData:
    """A table of visits: scaled numbers, a fact about each client, and several visits a patient."""
    table = pd.DataFrame({"age": np.arange(24.0), "stay": np.arange(24.0) ** 2})
    table = table.assign(patient=np.arange(24) // 2, ward=np.repeat(["a", "b"], 12))
    table = table.assign(sector=np.repeat(["public", "private"], 12))
    return fk.data.from_pandas(
        table,
        label="stay",
        client="ward",
        task="regression",
        unit="patient",
        client_columns=["sector"],
    ).with_validation(0.3)


def data_of_features() -> FederatedData:
    """Features of texts, as ``fk.models.features`` computes them, made from scaled pixels."""
    pixels = fk.data.from_arrays(np.zeros((8, 2), np.uint8), [0, 1] * 4, clients=[0, 1] * 4)
    backbone = BackboneFeatures(backbone="bert", digest="12ab", layer=3)
    return replace(pixels, features_of=backbone, tokenizer="34cd")


def data_of_patients() -> FederatedData:
    rng = np.random.default_rng(0)
    times = rng.exponential(size=40)
    clients = np.repeat([0, 1], 20)
    return fk.data.from_patients(rng.normal(size=(40, 2)), times, times < 1, clients=clients)


EXAMPLES = (data_of_words, data_of_a_table, data_of_features, data_of_patients)


@pytest.mark.parametrize("make", EXAMPLES)
def test_all_fields_are_packed(make: Callable[[], FederatedData], tmp_path: Path) -> None:
    original = make()
    assert same(original, pack(original, tmp_path / "d"))


def test_the_examples_have_every_field() -> None:
    """A new field of the class needs a place in packed data."""
    examples = [make() for make in EXAMPLES]
    for field in fields(FederatedData):
        values = [getattr(example, field.name) for example in examples]
        default = None if field.default is MISSING else field.default
        assert any(value is not default for value in values), field.name


@pytest.mark.parametrize(
    ("entry", "value"), [("client_columns", ["sector"]), ("features_of", {"backbone": "bert"})]
)
def test_a_damaged_fact_is_named(
    entry: str, value: Any, data: FederatedData, tmp_path: Path
) -> None:
    pack(data, tmp_path / "d")
    path = tmp_path / "d" / DESCRIPTION
    path.write_text(json.dumps(json.loads(path.read_text()) | {entry: value}))
    with pytest.raises(DataError, match=f"its entry {entry} is damaged"):
        open_packed(tmp_path / "d")


def test_generated_samples_are_written_as_they_are_drawn(
    data: FederatedData, tmp_path: Path
) -> None:
    def made() -> FederatedData:
        drawn = fk.data.synthetic(clients=6, samples=10, seed=2)
        assert (
            isinstance(drawn.x, np.memmap) and Path(str(drawn.x.filename)) == tmp_path / "d/x.npy"
        )
        return drawn.with_validation(0.2)

    assert same(data, pack(made, tmp_path / "d"))
    # It was for that call only.
    assert not isinstance(fk.data.synthetic(clients=3, samples=4).x, np.memmap)


def test_a_selection_has_its_own_digest(data: FederatedData, tmp_path: Path) -> None:
    packed = pack(data, tmp_path / "d")
    part = packed.select(np.array([1, 4]))
    assert part.packed is None and data_digest(part) == data_digest(data.select(np.array([1, 4])))


def test_a_run_on_packed_data_is_that_on_data_in_memory(
    data: FederatedData, tmp_path: Path
) -> None:
    packed = pack(data, tmp_path / "d")
    inside = fk.simulate(fk.IFCA(clusters=2), data, fk.models.mclr(data), rounds=2, cohort=3)
    outside = fk.simulate(fk.IFCA(clusters=2), packed, fk.models.mclr(packed), rounds=2, cohort=3)
    assert inside.records == outside.records


@pytest.mark.parametrize("changed_after", [1, 3])
def test_files_that_change_under_a_run_are_named(
    data: FederatedData, tmp_path: Path, changed_after: int
) -> None:
    """Also after the last round, as final scores could be computed on changed samples."""
    packed = pack(data, tmp_path / "d")
    path = tmp_path / "d/y.npy"

    def touch(record: dict) -> None:
        if record["round"] == changed_after:
            os.utime(path, ns=(1, 1))

    with pytest.raises(DataError, match=r"y\.npy has been changed or removed.*pack them again"):
        fk.simulate(
            fk.FedAvg(), packed, fk.models.mclr(packed), rounds=3, cohort=3, callbacks=touch
        )


def test_a_file_that_changes_within_a_round_gives_no_record_of_it(
    data: FederatedData, tmp_path: Path
) -> None:
    packed = pack(data, tmp_path / "d")
    records = []

    class Touching(fk.FedAvg):
        def round(self, world: Any, state: Any, cohort: Any, stream: Any) -> Any:
            os.utime(tmp_path / "d/x.npy", ns=(1, 1))
            return super().round(world, state, cohort, stream)

    with pytest.raises(DataError, match=r"x\.npy has been changed"):
        fk.simulate(
            Touching(), packed, fk.models.mclr(packed), rounds=1, cohort=3, callbacks=records.append
        )
    assert [record["round"] for record in records] == [0]


@pytest.mark.parametrize("name", ["x.npy", "train.rows.npy", "test.offsets.npy"])
def test_a_file_that_is_gone_or_shorter_is_named(
    data: FederatedData, tmp_path: Path, name: str
) -> None:
    pack(data, tmp_path / "d")
    path = tmp_path / "d" / name
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(DataError, match=rf"{name} has [\d,]+ bytes, but [\d,]+ were packed"):
        open_packed(tmp_path / "d")
    path.unlink()
    with pytest.raises(DataError, match=f"{name} is missing"):
        open_packed(tmp_path / "d")


def test_a_header_that_does_not_fit_is_named(data: FederatedData, tmp_path: Path) -> None:
    pack(data, tmp_path / "d")
    path = tmp_path / "d/x.npy"
    content = path.read_bytes()
    path.write_bytes(content.replace(b"(60, 60)", b"(90, 60)"))
    with pytest.raises(DataError, match=r"x\.npy: expected an array, but it is damaged"):
        open_packed(tmp_path / "d")
    path.write_bytes(content.replace(b"(60, 60)", b"(30, 60)"))
    with pytest.raises(DataError, match="30 samples but 60 labels"):
        open_packed(tmp_path / "d")


@pytest.mark.parametrize(
    "change",
    [
        lambda about: about.pop("digest"),
        lambda about: about["files"].pop("x.npy"),
        lambda about: about["files"].update({"../secret.npy": 3}),
        lambda about: about.update(splits=["train"]),
        lambda about: about.update(splits=3),
    ],
)
def test_a_damaged_description_is_refused(data: FederatedData, tmp_path: Path, change) -> None:
    pack(data, tmp_path / "d")
    path = tmp_path / "d" / DESCRIPTION
    about = json.loads(path.read_text())
    change(about)
    path.write_text(json.dumps(about))
    with pytest.raises(DataError, match="damaged"):
        open_packed(tmp_path / "d")


def test_a_later_layout_is_refused(data: FederatedData, tmp_path: Path) -> None:
    pack(data, tmp_path / "d")
    path = tmp_path / "d" / DESCRIPTION
    path.write_text(path.read_text().replace('"layout": 1', '"layout": 2'))
    with pytest.raises(DataError, match="another version of fedkin"):
        open_packed(tmp_path / "d")


def test_other_contents_of_the_same_size_are_found_when_asked(
    data: FederatedData, tmp_path: Path
) -> None:
    pack(data, tmp_path / "d")
    path = tmp_path / "d/x.npy"
    content = bytearray(path.read_bytes())
    content[-3] ^= 1
    path.write_bytes(content)
    with pytest.raises(DataError, match="differ from the packed ones"):
        verify(tmp_path / "d")


def test_a_folder_with_files_is_left_alone(data: FederatedData, tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("precious")
    with pytest.raises(ConfigError, match="exists already"):
        pack(data, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_options_of_other_files_are_refused(data: FederatedData, tmp_path: Path) -> None:
    pack(data, tmp_path / "d")
    with pytest.raises(ConfigError, match="a folder of packed data"):
        fk.data.load(tmp_path / "d", classes=3)
