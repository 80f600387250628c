"""What simulate is given by name."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

import fedkin as fk
from fedkin.core.errors import DataError, MethodError, ModelError
from fedkin.data.federated import FederatedData


@pytest.mark.parametrize(
    ("given", "error", "words"),
    [
        ({"method": "fedgrup"}, MethodError, "unknown method 'fedgrup'; did you mean 'fedgroup'"),
        ({"method": "fedgroup"}, MethodError, r"a method must be made, fk.FedGroup\(\), got its name, 'fedgroup'"),
        ({"method": fk.FedAvg}, MethodError, r"a method must be made, fk.FedAvg\(...\), got the class FedAvg"),
        ({"against": ["fedavgg"]}, MethodError, "did you mean 'fedavg'"),
        ({"data": "digit"}, DataError, "unknown data set 'digit'; did you mean 'digits'"),
        ({"data": "digits"}, DataError, r"fk.data.digits\(clients=...\)"),
        ({"data": [[1.0]]}, DataError, "fk.data.from_arrays.*got list"),
        ({"model": "mclrr"}, ModelError, "unknown model 'mclrr'; did you mean 'mclr'"),
        ({"model": "mclr"}, ModelError, r"fk.models.mclr\(data\)"),
    ],
)
def test_names_and_classes_are_refused_with_what_is_written_instead(
    tiny: FederatedData, given: dict[str, Any], error: type[Exception], words: str
) -> None:
    unchecked = inspect.unwrap(fk.simulate)  # as users call it, without the types that tests check
    made: dict[str, Any] = {"method": fk.FedAvg(), "data": tiny, "model": fk.models.mclr(tiny)}
    with pytest.raises(error, match=words):
        unchecked(**{**made, **given}, rounds=1, cohort=2)
