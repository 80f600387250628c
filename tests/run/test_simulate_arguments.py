"""What simulate is given by name."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest

import fedkin as fk
from fedkin.core.errors import DataError, MethodError, ModelError
from fedkin.data.federated import FederatedData
from tests.mappings import merged


@pytest.mark.parametrize(
    ("given", "error", "words"),
    [
        ({"method": "fedgrup"}, MethodError, "unknown method 'fedgrup'; did you mean 'fedgroup'"),
        (
            {"method": "fedgroup"},
            MethodError,
            r"a method must be an instance, fk.FedGroup\(\), got the name 'fedgroup'",
        ),
        (
            {"method": fk.FedAvg},
            MethodError,
            r"a method must be an instance, fk.FedAvg\(...\), got the class FedAvg",
        ),
        (
            {"method": fk.FedAdam(0.1)},
            MethodError,
            r"FedAdam is not a method .*options=\[fk.FedAdam\(...\)\]",
        ),
        (
            {"against": [fk.ClientDP(epsilon=2.0)]},
            MethodError,
            r"ClientDP is not a method .*options=\[fk.ClientDP\(...\)\]",
        ),
        (
            {"method": fk.PersonalHead()},
            MethodError,
            r"PersonalHead is not a method .*options=\[fk.PersonalHead\(...\)\]",
        ),
        (
            {"method": fk.LocalTraining()},
            MethodError,
            r"not a method .*local=fk.LocalTraining\(...\)",
        ),
        (
            {"method": {"name": "fedavg"}},
            MethodError,
            r"expected a method such as fk.FedAvg\(\).*got dict",
        ),
        ({"against": ["fedavgg"]}, MethodError, "did you mean 'fedavg'"),
        ({"data": "digit"}, DataError, "unknown data set 'digit'; did you mean 'digits'"),
        ({"data": "digits"}, DataError, r"fk.data.digits\(clients=...\)"),
        ({"data": [[1.0]]}, DataError, "fk.data.from_arrays.*got list"),
        ({"model": "mclrr"}, ModelError, "unknown model 'mclrr'; did you mean 'mclr'"),
        ({"model": "mclr"}, ModelError, r"fk.models.mclr\(data\)"),
    ],
)
def test_names_and_classes_are_refused_with_the_right_argument(
    tiny: FederatedData, given: dict[str, Any], error: type[Exception], words: str
) -> None:
    unchecked = inspect.unwrap(fk.simulate)  # as users call it, without the types that tests check
    made: dict[str, Any] = {"method": fk.FedAvg(), "data": tiny, "model": fk.models.mclr(tiny)}
    with pytest.raises(error, match=words):
        unchecked(**merged(made, given), rounds=1, cohort=2)


def test_an_estimator_refuses_an_option_in_place_of_its_method() -> None:
    untyped: Any = fk.FedAdam(0.1)
    estimator = fk.Clustered(untyped, rounds=1, cohort=2)
    with pytest.raises(MethodError, match=r"FedAdam is not a method .*options=\[fk.FedAdam"):
        estimator.fit(np.eye(4), [0, 1, 0, 1], groups=[0, 0, 1, 1])
