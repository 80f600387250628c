"""Natural federations as federated data, with the defaults of each set."""

from __future__ import annotations

from typing import Any

from fedkin.data.federated import FederatedData
from fedkin.data.from_arrays import from_pandas
from fedkin.data.natural import natural
from fedkin.data.partition_options import checked
from fedkin.task_types.catalogue import LOSSES, TASK_TYPES
from fedkin.task_types.forecast import Forecast
from fedkin.task_types.survival import Survival


@checked
def natural_federation(
    *,
    set: str,
    seed: int = 0,
    features: Any = None,
    drop: Any = None,
    scale: str | None = None,
    categories: Any = None,
    min_frequency: int | None = None,
    min_clients: int | None = None,
    task: str | None = None,
    loss: str | None = None,
    quantiles: Any = None,
    loss_options: Any = None,
    lags: Any = None,
    label_scale: str | None = None,
) -> FederatedData:
    """A natural federation: a table whose clients are hospitals, schools, states or industries.

    Label, client, exposure, event, categories and split are those of the set (``fk.data.natural``).
    Clients without a training row are left out.

    Args:
        set: name of the set, such as ``azpro``.
        seed: number of the split.
        features: columns of the features; None for the set's own.
        drop: columns that are left out.
        scale: how the feature columns are scaled: ``standard``, ``robust`` or ``none``; None for
            ``standard``.
        categories: columns of numbers that are categories; None for the set's own.
        min_frequency, min_clients: which categories get a feature, as for ``load``.
        task: what the labels are; None for the set's task type, or the one that has the loss.
        loss: the training loss; None for the set's own, or the first one of ``task``.
        quantiles: levels of the task ``quantile``.
        loss_options: options of the loss.
        lags: of a forecast, the steps of the past that are features; None for the set's own.
        label_scale: of a forecast, ``client`` or ``pooled``, as for ``load``.

    Raises:
        ConfigError: the set is unknown, or an option does not apply.
        DataError: the file is not found.
    """
    found = natural(set, seed=seed)
    own = found.task_type
    assert own in TASK_TYPES
    if task is None and own == Forecast.name and loss in LOSSES[own]:
        task = own
    is_default = task is None and loss is None and quantiles is None
    options = found.reader_options()
    options["features"] = list(found.features) if features is None else features
    options["task"] = own if is_default else task
    options["loss"] = found.about.loss if is_default else loss
    if options["task"] != Forecast.name:
        # Another task than the set's: its rows are samples without a time.
        for name in ("time", "season", "lags"):
            options.pop(name, None)
    if not Survival.is_named(options["task"], options["loss"]):
        options.pop("event", None)
    if lags is not None:
        options["lags"] = lags
    if drop is not None and features is None:
        left_out = [drop] if isinstance(drop, str) else list(drop)
        options["features"] = [name for name in found.features if name not in left_out]
        drop = [name for name in left_out if name not in found.features] or None
    own_categories = [name for name in found.about.categories if name in options["features"]]
    return from_pandas(
        found.trained_clients(),
        **options,
        scale=scale,
        drop=drop,
        categories=own_categories if categories is None else categories,
        min_frequency=min_frequency,
        min_clients=min_clients,
        quantiles=quantiles,
        loss_options=loss_options,
        label_scale=label_scale,
        seed=seed,
    )
