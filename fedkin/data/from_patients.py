"""Survival data of clients: the user's patients, with the time and the event of each one, as risk
sets (``fedkin.data.survival``).

Shapes: n patients, d features, N clients.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fedkin.core.errors import ConfigError, DataError
from fedkin.data.clean_features import check_numbers
from fedkin.data.client_ids import client_ids, whole_ids
from fedkin.data.federated import FederatedData
from fedkin.data.number_columns import numbers_of
from fedkin.data.risk_set_federation import divided_patients, drawn_training, risk_set_federation
from fedkin.data.risk_set_options import RiskSetOptions
from fedkin.data.survival_columns import check_times, events_of
from fedkin.data.user_arrays import user_array

_NAME = "patients"


def from_patients(
    x: Any,
    times: Any,
    died: Any,
    *,
    clients: Any,
    test: float = 0.2,
    at_risk: int = 8,
    draws: int = 8,
    ties: str = "breslow",
    seed: int = 0,
    name: str = _NAME,
) -> FederatedData:
    """A federation of patients with the time and the event of each one. The model for these data is
    ``fk.models.cox``.

    A training sample is a risk set: an event with patients of the same client who were at risk at
    that time. A test sample is a pair of patients of the same client of whom it is known who had
    the event first. So the loss is Cox's, stratified by client, and the score is the C-index within
    clients. A client without an event while another patient is at risk has no loss: it is left out,
    with a warning.

    Args:
        x: features [n, d]; scale them before, in one way for all clients.
        times: time of each patient's event, or the time until which the patient was seen [n].
        died: whether the event was observed [n]; otherwise the patient is censored.
        clients: the client of each patient [n].
        test: each client's share of patients for testing.
        at_risk: number of places for patients in a sample, at least 2.
        draws: number of training samples for each event, each with other patients.
        ties: treatment of events at the same time: ``breslow`` or ``efron``.
        seed: seed of the draws and of the split.
        name: name of the data set.

    Raises:
        DataError: lengths differ, a feature is no finite number, a time is negative or not finite,
            an event is no boolean, a client is missing or of another type than the others, or no
            client has an event to compare.
        ConfigError: an option is unknown or out of range.

    Examples:
        >>> import numpy as np
        >>> import fedkin as fk
        >>> rng = np.random.default_rng(0)
        >>> x = rng.normal(size=(60, 2))
        >>> times = rng.exponential(np.exp(-x[:, 0]))
        >>> data = fk.data.from_patients(x, times, times < 2, clients=np.repeat([0, 1, 2], 20))
        >>> data.clients, data.task_type.name
        (3, 'survival')
    """
    options = RiskSetOptions(at_risk, draws, ties, seed)
    given = user_array(x, name, "x")
    check_numbers(given, name)
    features = given.astype(np.float64)
    if features.ndim != 2 or not np.isfinite(features).all():
        raise DataError(f"{name}: x must be finite numbers [n, d], got {features.shape}")
    owners = whole_ids(client_ids(clients, name, "clients"))
    ends = numbers_of(times, "time", name)
    check_times(ends, name, owners)
    events = events_of(died, name, owners)
    if not len(features) == len(ends) == len(events) == len(owners):
        raise DataError(
            f"{name}: expected one time, event and client for each row of x, got {len(features)} "
            f"rows, {len(ends)} times, {len(events)} events and {len(owners)} clients"
        )
    if not 0 < test < 1:
        raise ConfigError(f"test must be a share between 0 and 1, such as 0.2; got {test!r}")
    names, numbers = np.unique(owners, return_inverse=True)
    divided = divided_patients(
        times=ends,
        died=events,
        owners=numbers,
        trained=drawn_training(numbers, test, seed),
        names=[str(client) for client in names],
        place=name,
    )
    return risk_set_federation(
        divided.table(features),
        [str(client) for client in names[divided.clients]],
        options,
        title=name,
        purpose=name,
    )
