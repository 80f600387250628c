"""Soft membership: each client has a share of every cluster."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Int

from fedkin.core.method import State

FIELD = "membership"  # field of a state: [N, K], rows that sum to 1


def memberships(state: State) -> Float[np.ndarray, "N K"] | None:
    """Each client's shares of the clusters; None if each client belongs to one cluster only.

    Args:
        state: a run's state.
    """
    shares = getattr(state, FIELD, None)
    return (
        shares
        if isinstance(shares, np.ndarray) and shares.shape[:1] == state.assignment.shape
        else None
    )


def membership_columns(state: State, clients: Int[np.ndarray, "c"]) -> dict[str, np.ndarray]:
    """Columns of clients' shares for the table of clients: ``membership_0`` and so on, one for each
    cluster. Empty if each client belongs to one cluster only.

    Args:
        state: a run's state.
        clients: ids of the clients in the table's rows.
    """
    shares = memberships(state)
    return (
        {} if shares is None else {f"{FIELD}_{k}": own for k, own in enumerate(shares[clients].T)}
    )


def by_largest_share(shares: Float[np.ndarray, "n K"]) -> Int[np.ndarray, "n"]:
    """Order of clients by the cluster of their largest share, and within a cluster by decreasing
    share.

    Args:
        shares: share of each cluster, by client.
    """
    # Without clients or clusters there is no largest share to look for.
    largest = shares.argmax(axis=1) if shares.size else np.zeros(len(shares), np.int64)
    return np.lexsort(
        (-shares[np.arange(len(shares)), largest] if shares.size else largest, largest)
    )
