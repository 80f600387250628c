"""The section [samples] of a federation with a server: the samples of all sites, the scaling of
their tables, and their labels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, Literal

from pydantic import model_validator

from fedkin.config.schema import Positive, Section
from fedkin.config.series_keys import check_series, client_column, label_column, with_series
from fedkin.core.model_spec import BackboneFeatures
from fedkin.core.object_repr import listed
from fedkin.core.storage import user_path
from fedkin.data.label_statistics import given_statistics
from fedkin.data.label_tasks import task_type_of
from fedkin.data.risk_set_options import RiskSetOptions
from fedkin.data.table_options import read_statistics, whole_transform
from fedkin.data.table_transform import NONE, TableTransform, given_transform
from fedkin.task_types.classification import CLASSIFICATION
from fedkin.task_types.forecast import Forecast
from fedkin.task_types.survival import Survival
from fedkin.task_types.task_type import TaskType

Scale = Literal["standard", "robust", "none"]  # as ``data.table_transform.SCALES``


class SamplesSection(Section):
    """The section [samples]: the shape of a sample and the number of classes, equal at all sites.

    ``words`` is the size of the vocabulary if samples are word indices. ``features_of`` is the
    backbone that computed the samples, if one did.

    ``labels`` and ``features`` are the names of the classes and of a table's columns. Their order
    must be the same at all sites. ``scale_from`` has the ``mean`` and the ``scale`` of each column,
    by which all sites scale their tables; or the encoding of columns with text and missing values,
    too, in the file of `fedkin data join`. With ``scale`` the server computes these numbers before
    the first round, from sums over the training samples of all sites.

    ``task`` and ``loss`` say what labels are that are no classes. With survival, ``shape`` is the
    number of columns, and becomes the shape of a risk set. The server computes the mean and
    the standard deviation of numbers, or the rate of counts, in the same way, or they are given
    (``label_scale_from``).

    Of a forecast, each site scales its series by their own past, and [samples] says what all sites
    share: columns, length of a step, lags and the dates of the split (``series_keys``).
    """

    shape: list[Positive]
    classes: Positive
    words: Positive | None = None
    # of samples that are the inputs of a layer of a backbone: the backbone's name and digest, and
    # the layer, as `fedkin deploy init` writes them
    features_of: dict[str, Any] | None = None
    labels: list[str] | None = None
    features: list[str] | None = None
    # how the server scales a table's columns, by sums over the training samples of all sites; not
    # set: by `scale_from`, or not at all
    scale: Scale | None = None
    # mean and scale of each of a table's columns, by which all sites scale their tables
    scale_from: dict[str, Any] | None = None
    # task type of labels that are no classes, such as regression or count
    task: str | None = None
    # training loss of these labels; not set: the task type's first one
    loss: str | None = None
    # levels that a model of quantiles predicts
    quantiles: list[float] | None = None
    # options of the loss, by name
    loss_options: dict[str, Any] | None = None
    # statistics of labels that are numbers, by which all sites scale them; not set: the server
    # computes them, by sums over the training samples of all sites
    label_scale_from: dict[str, float] | None = None
    # of forecasts: column of the label in the tables of all sites; not set: y
    label: str | None = None
    # of forecasts: column of the client in the tables of all sites; not set: client_id
    client: str | None = None
    # of forecasts, required: column of the time, or columns of year and month
    time: str | list[str] | None = None
    # of forecasts, required: length of a step, such as month or 15 minutes
    frequency: str | None = None
    # of forecasts: number of steps in a season; not set: the usual one of the frequency
    season: Positive | None = None
    # of forecasts: steps of the past that are features; not set: 1 and the season
    lags: list[Positive] | None = None
    # of forecasts, required: date of the first test sample of all clients
    test_from: Any = None
    # of forecasts: only client is possible, which scales each series by its past
    label_scale: str | None = None

    @model_validator(mode="before")
    @classmethod
    def _outputs(cls, values: Any) -> Any:
        """The values with the number of outputs as ``classes``, if labels are numbers; of survival,
        with the shape of a risk set."""
        task, loss, quantiles = (values.get(key) for key in ("task", "loss", "quantiles"))
        if task is loss is quantiles is None or "classes" in values:
            return values
        task_type = task_type_of(task, loss, quantiles, values.get("loss_options"))
        if isinstance(task_type, Survival):
            return _of_risk_sets(values)
        own = None if task_type is None else task_type.loss
        return values if own is None else {**values, "classes": own.outputs}

    @model_validator(mode="after")
    def _labels(self) -> SamplesSection:
        """Check task type, loss and statistics of the labels."""
        task_type = self._bare_task_type()
        loss = task_type.loss
        if isinstance(task_type, Survival) and not self._has_risk_sets():
            raise ValueError(
                f"shape: with task = 'survival' it is the number of columns, such as [2], and "
                f"classes are left out; got shape = {self.shape} and classes = {self.classes}"
            )
        if self.task == Forecast.name:
            # The other keys of a forecast are checked when the features are.
            if self.label_scale_from is not None:
                raise ValueError(
                    "label_scale_from: does not apply to forecasts, whose labels each site scales "
                    "by the past of each series; remove it"
                )
        else:
            self.task_type()
        if loss is None and self.label_scale_from is not None:
            raise ValueError(
                'label_scale_from: scales labels that are numbers; set task = "regression", or '
                "remove it"
            )
        if loss is not None and self.classes != loss.outputs:
            raise ValueError(
                f"classes: a model has {loss.outputs} output(s) for loss = {loss.name!r}, got "
                f"{self.classes}; remove classes"
            )
        return self

    @model_validator(mode="after")
    def _names(self) -> SamplesSection:
        """Check that, if names of classes or columns are given, there is a different one for each
        class or column."""
        columns = self._columns()
        for what, names, number in (
            ("labels", self.labels, self.classes),
            ("features", self.features, columns),
        ):
            if names is not None and (len(names) != number or len(set(names)) != number):
                raise ValueError(f"{what} must be {number} different names, got {listed(names)}")
        for key in ("scale", "scale_from"):
            if getattr(self, key) not in (None, NONE) and self.features is None:
                raise ValueError(
                    f"{key}: needs the names of the columns too, such as features = "
                    '["age", "weight"]'
                )
        if self.scale is not None and self.scale_from is not None:
            raise ValueError(
                f"scale = {self.scale!r} computes numbers, or uses none, but scale_from gives "
                "them; leave one of the two out"
            )
        if self.summed and len(self.shape) > 1 and not isinstance(self._bare_task_type(), Survival):
            raise ValueError(
                f"scale: scales the columns of tables, but samples have the shape {self.shape}; "
                "remove it"
            )
        self.transform()
        self.backbone_features()
        check_series(self)
        return self

    def _has_risk_sets(self) -> bool:
        """Whether shape and classes are those of the risk sets of ``loss_options``."""
        places = RiskSetOptions.of(self.loss_options).at_risk
        return len(self.shape) == 2 and self.shape[0] == self.classes == places

    def _columns(self) -> int:
        """The number of columns of a table, whose samples have these names of features."""
        if isinstance(self._bare_task_type(), Survival):
            # The last feature of a patient in a risk set is the patient's weight.
            return self.shape[-1] - 1
        return sum(self.shape[:1])

    @property
    def summed(self) -> bool:
        """Whether the server computes the scaling from sums of all sites."""
        return self.scale not in (None, NONE)

    @property
    def labels_summed(self) -> bool:
        """Whether the server computes the statistics of labels from sums of all sites."""
        task_type = self._bare_task_type()
        has_sums = task_type.loss is not None and not task_type.by_time
        return has_sums and self.label_scale_from is None

    def task_type(self) -> TaskType:
        """What the labels are, with their statistics if these are given, and of a forecast with the
        facts about series."""
        found = self._bare_task_type()
        if isinstance(found, Forecast):
            return with_series(found, self)
        given = self.label_scale_from
        return found if given is None else given_statistics(found, given)

    def _bare_task_type(self) -> TaskType:
        """The task type and the loss, without statistics."""
        found = task_type_of(self.task, self.loss, self.quantiles, self.loss_options)
        return CLASSIFICATION if found is None else found

    def columns(self) -> dict[str, str] | None:
        """The columns of label and client, by their roles, if all sites share them; None
        otherwise."""
        if self.task != Forecast.name:
            return None
        return {"label": label_column(self), "client": client_column(self)}

    def backbone_features(self) -> BackboneFeatures | None:
        """The backbone that computed the samples; None for others. Raises ValueError unless
        ``features_of`` has its three entries."""
        if self.features_of is None:
            return None
        known = {field.name for field in fields(BackboneFeatures)}
        if set(self.features_of) != known:
            raise ValueError(
                f"features_of: has the entries {listed(sorted(known))}, got "
                f"{listed(sorted(self.features_of))}; `fedkin deploy init` writes them"
            )
        return BackboneFeatures(**self.features_of)

    def transform(self) -> TableTransform | None:
        """How all sites scale their tables; None if they do not.

        Raises ConfigError if ``scale_from`` lacks a column of ``features``.
        """
        if self.scale_from is None or self.features is None:
            return None
        found = whole_transform(self.scale_from, "samples.scale_from")
        if isinstance(found, TableTransform):
            return found.of_columns(self.features, "samples.scale_from").as_given()
        return given_transform(found, self.features, "samples")


def _of_risk_sets(values: Mapping[str, Any]) -> Mapping[str, Any]:
    """The values of a section about survival, with the shape and the outputs of a risk set in place
    of the shape of a patient."""
    shape = values.get("shape")
    if not isinstance(shape, list) or len(shape) != 1 or not isinstance(shape[0], int):
        return values
    places = RiskSetOptions.of(values.get("loss_options")).at_risk
    return {**values, "shape": [places, shape[0] + 1], "classes": places}


def with_columns(samples: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """The section [samples] with the content of the file that ``scale_from`` names, and with the
    names and the number of the features if ``scale_from`` has them.

    Args:
        samples: the section, before it is checked.
        folder: the folder at which a relative path starts.

    Raises:
        ConfigError: the file cannot be read.
    """
    given = samples.get("scale_from")
    if isinstance(given, str):
        given = read_statistics(folder / user_path(given))
    if not isinstance(given, Mapping):
        return dict(samples)
    if "encoding" not in given:
        return {**samples, "scale_from": given}
    names = list(given.get("columns", ()))
    return {"shape": [len(names)], "features": names, **samples, "scale_from": given}
