"""PNI, the privacy-preserving non-IID index of FedSim (section 3.3). Shapes: N clients."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Float64

from fedkin.core.errors import MethodError


def client_pni(rmse: Float[np.ndarray, "N"]) -> Float64[np.ndarray, "N"]:
    """Index of each client, PNI_i = sqrt( sum over j != i of (RMSE_i - RMSE_j)^2 ) (eq. 17).

    ``rmse`` has an error for each client: one random model predicts the class numbers of the
    client's samples, and the error is the root mean square difference from the true class numbers
    (eq. 16; ``tasks.label_errors.LabelErrors``). The sum is computed as N (RMSE_i - m)^2 + sum_j
    (RMSE_j - m)^2, with m the mean. This avoids cancellation, and needs O(N) memory and time.

    Raises:
        MethodError: a client has no finite error.
    """
    if not np.isfinite(rmse).all():
        missing = np.flatnonzero(~np.isfinite(rmse))
        raise MethodError(
            f"the index needs a finite error from every client, but {len(missing)} have none, such "
            f"as client {missing[0]}"
        )
    deviation = rmse.astype(np.float64) - rmse.mean(dtype=np.float64)
    return np.sqrt(len(rmse) * deviation**2 + np.sum(deviation**2))


def pni(rmse: Float[np.ndarray, "N"]) -> float:
    """PNI, the mean of the clients' indices (eq. 18).

    It grows with the number of clients as sqrt(N), and depends on the numbering of the classes and
    on the random model. Compare only values with the same N, numbering and model.
    """
    return float(client_pni(rmse).mean()) if len(rmse) else 0.0
