"""Arrays of users: nothing is read that has no value, and nothing that they hold is lost."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import torch

import fedkin as fk
from fedkin.core.errors import DataError
from fedkin.data.federated import FederatedData, Ragged
from fedkin.data.labels import encode_labels
from fedkin.data.user_arrays import user_array

CLIENTS = [0, 0, 1, 1]
Y = np.array([0, 1, 0, 1])
ROWS = np.arange(8.0).reshape(4, 2)


def masked(values: Any, *entries: tuple[int, ...]) -> np.ma.MaskedArray:
    """The values with these entries masked."""
    mask = np.zeros(np.shape(values), bool)
    for entry in entries:
        mask[entry] = True
    return np.ma.masked_array(values, mask)


def test_masked_features_are_refused_with_row_and_column() -> None:
    x = masked(ROWS, (2, 1), (3, 0))
    with pytest.raises(
        DataError, match=r"x is masked in row 2, column 1 \(2 such entries\).*x.filled\(value\)"
    ):
        fk.data.from_arrays(x, Y, clients=CLIENTS)
    with pytest.raises(DataError, match=r"x is masked in row 2"):
        fk.data.from_arrays(list(x), Y, clients=CLIENTS)


def test_tensors_of_different_shapes_are_refused() -> None:
    rows = [torch.zeros(2), torch.zeros(2), torch.zeros(3), torch.zeros(2)]
    with pytest.raises(DataError, match="x holds samples of different shapes"):
        fk.data.from_arrays(rows, Y, clients=CLIENTS)


def test_masked_labels_and_splits_are_refused_with_their_row() -> None:
    with pytest.raises(DataError, match="y is masked in row 1"):
        fk.data.from_arrays(ROWS, masked(Y, (1,)), clients=CLIENTS)
    with pytest.raises(DataError, match="test is masked in row 3"):
        fk.data.from_arrays(ROWS, Y, clients=CLIENTS, test=masked([False, True, False, True], (3,)))


def test_masked_arrays_without_a_masked_entry_are_read() -> None:
    data = fk.data.from_arrays(
        masked(ROWS), masked(Y), clients=masked(CLIENTS), test=masked([0, 1, 0, 1])
    )
    assert np.array_equal(data.x, ROWS)
    assert data.test.sizes.tolist() == [1, 1]


def test_federated_data_refuse_masked_arrays() -> None:
    rows = Ragged.of([np.array([0, 1]), np.array([2, 3])])
    x = ROWS.astype(np.float32)
    with pytest.raises(DataError, match="x is masked in row 0, column 1"):
        FederatedData(name="d", x=masked(x, (0, 1)), y=Y, classes=2, train=rows, test=rows)
    assert (
        type(FederatedData(name="d", x=masked(x), y=Y, classes=2, train=rows, test=rows).x)
        is np.ndarray
    )


def test_samples_to_predict_are_not_masked() -> None:
    data = fk.data.from_arrays(ROWS, Y, clients=CLIENTS, test=0)
    run = fk.simulate(
        fk.FedAvg(), data, fk.models.mclr(data), rounds=1, cohort=2, callbacks=fk.Progress(False)
    )
    with pytest.raises(DataError, match="samples: x is masked in row 1, column 0"):
        run.predict(masked(ROWS, (1, 0)))
    with pytest.raises(DataError, match="x is masked in row 1"):
        run.place(masked(ROWS, (1, 0)), Y)
    with pytest.raises(DataError, match="y is masked in row 2"):
        run.place(ROWS, masked(Y, (2,)))
    assert np.array_equal(run.predict(torch.tensor(ROWS).bfloat16()), run.predict(ROWS))


@pytest.mark.parametrize("make", [scipy.sparse.csr_matrix, scipy.sparse.coo_array])
def test_sparse_matrices_are_refused_with_a_cure(make: Any) -> None:
    with pytest.raises(
        DataError, match=r"x is a sparse matrix \(\w+, 4 x 2\); make it dense: x.toarray\(\)"
    ):
        fk.data.from_arrays(make(ROWS), Y, clients=CLIENTS)


def test_sparse_tensors_are_refused_with_a_cure() -> None:
    with pytest.raises(DataError, match=r"x is a sparse tensor; make it dense: x.to_dense\(\)"):
        fk.data.from_arrays(torch.tensor(ROWS).to_sparse(), Y, clients=CLIENTS)


def test_bfloat16_is_read_exactly() -> None:
    import jax.numpy as jnp
    import ml_dtypes

    values = np.array([[0.5, 1.25], [-3.0, 0.1]], np.float32)
    expected = values.astype(ml_dtypes.bfloat16).astype(np.float32)
    assert expected[1, 1] != values[1, 1]  # the number that bfloat16 has for 0.1
    tensor = torch.tensor(values, requires_grad=True).bfloat16()
    for short in (
        values.astype(ml_dtypes.bfloat16),
        jnp.asarray(values, jnp.bfloat16),
        tensor,
        list(tensor),
    ):
        read = user_array(short, "place", "x")
        assert read.dtype == np.float32
        assert np.array_equal(read, expected)


def test_columns_of_pandas_own_types_are_numbers() -> None:
    table = pd.DataFrame(
        {"a": pd.Series([1, 2, 3, 4], dtype="Int64"), "b": pd.Series([0.5] * 4, dtype="Float64")}
    )
    data = fk.data.from_arrays(
        table, pd.Series(Y, dtype="Int64"), clients=pd.Series(CLIENTS, dtype="Int64")
    )
    assert data.x.tolist() == [[1, 0.5], [2, 0.5], [3, 0.5], [4, 0.5]]
    assert data.client_names == ["0", "1"]  # and not "0.0"
    table.loc[2, "a"] = pd.NA
    with pytest.raises(DataError, match="row 2 holds NaN"):
        fk.data.from_arrays(table, Y, clients=CLIENTS)


@pytest.mark.parametrize(
    "x", [ROWS.astype(complex), ROWS.astype("datetime64[s]"), ROWS.astype(object)]
)
def test_values_that_are_no_numbers_are_refused(x: np.ndarray) -> None:
    with pytest.raises(
        DataError, match=f"x must be numbers of shape .*, got {x.dtype.name.split('[')[0]}"
    ):
        fk.data.from_arrays(x, Y, clients=CLIENTS)


def test_integers_are_copied() -> None:
    words = np.array([[1, 2], [3, 4], [5, 6], [7, 8]])
    data = fk.data.from_arrays(words, Y, clients=CLIENTS, integers=True)
    words[:] = 0
    assert data.x.tolist() == [[1, 2], [3, 4], [5, 6], [7, 8]]
    assert data.x.dtype == words.dtype


def test_labels_of_bytes_are_text() -> None:
    encoded = encode_labels(np.array([b"ill", b"well", b"ill"]), "place")
    assert encoded.names == ("ill", "well")
    with pytest.raises(DataError, match=r"the label in row 0 is .* not UTF-8"):
        encode_labels(np.array([b"\xff"]), "place")
