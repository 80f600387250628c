"""The options with which a reader of tables makes samples of a forecast."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fedkin.core.errors import ConfigError, unknown
from fedkin.core.plain import plain
from fedkin.data.column_lists import column_list
from fedkin.data.frequency import Frequency
from fedkin.data.partition_options import positive
from fedkin.task_types.forecast import CLIENT, LABEL_SCALES, Forecast


@dataclass(frozen=True)
class ForecastOptions:
    """How the rows of a table become the samples of a forecast.

    Attributes:
        time: columns of the time.
        season: number of steps in a season; None for the usual one.
        lags: steps of the past that are features; None for 1 and the season.
        test_from: date of the first test sample; None for a share of the samples.
        validation_from: date of the first validation sample; None without validation samples.
        label_scale: ``client`` or ``pooled``.
        frequency: length of a step; None for the commonest distance between a client's rows.
    """

    time: tuple[str, ...]
    season: int | None = None
    lags: tuple[int, ...] | None = None
    test_from: Any = None
    validation_from: Any = None
    label_scale: str = CLIENT
    frequency: Frequency | None = None

    def lags_with(self, season: int) -> tuple[int, ...]:
        """The steps of the past that are features, for a known season."""
        return tuple(sorted({1, season})) if self.lags is None else self.lags

    @classmethod
    def of(
        cls,
        task: str | None,
        *,
        time: Any = None,
        season: int | None = None,
        lags: Any = None,
        test_from: Any = None,
        validation_from: Any = None,
        label_scale: str | None = None,
        frequency: str | None = None,
    ) -> ForecastOptions | None:
        """The options as the user gives them; None for another task than ``forecast``.

        Raises:
            ConfigError: an option does not apply or has an invalid value, or a forecast has no
                time.
        """
        if task != Forecast.name:
            others = {
                "time": time,
                "season": season,
                "lags": lags,
                "test_from": test_from,
                "validation_from": validation_from,
                "label_scale": label_scale,
                "frequency": frequency,
            }
            for name, value in others.items():
                if value is not None:
                    raise ConfigError(
                        f"{name} = {value!r} applies to forecasts only; set task = 'forecast', or "
                        f"leave {name} out"
                    )
            return None
        if time is None:
            raise ConfigError(
                "task = 'forecast' needs the column of the time, such as time = 'date', or time = "
                "['year', 'month']"
            )
        if season is not None:
            positive("season", season)
        if label_scale is not None and label_scale not in LABEL_SCALES:
            raise ConfigError(
                f"{unknown('value of label_scale', str(label_scale), LABEL_SCALES)}; for example "
                "label_scale = 'pooled'"
            )
        return cls(
            time=_names(time),
            season=season,
            lags=None if lags is None else lags_of(lags),
            test_from=test_from,
            validation_from=validation_from,
            label_scale=label_scale or CLIENT,
            frequency=None if frequency is None else Frequency.of(frequency),
        )


def _names(time: Any) -> tuple[str, ...]:
    """The columns of the time."""
    names = column_list("time", time, "['year', 'month']")
    if not names:
        raise ConfigError(
            f"time must be a column, or a list of columns such as ['year', 'month']; got {time!r}"
        )
    return tuple(map(str, names))


def lags_of(given: Any) -> tuple[int, ...]:
    """Lags as numbers of steps, in ascending order.

    Raises:
        ConfigError: a lag is no whole number of at least 1, or occurs twice.
    """
    values = plain(given)
    values = [values] if isinstance(values, int) else values
    if isinstance(values, (list, tuple)):
        lags = [lag for lag in values if isinstance(lag, int) and not isinstance(lag, bool)]
        if len(lags) == len(values) and min(lags, default=1) >= 1 and len(set(lags)) == len(lags):
            return tuple(sorted(lags))
    raise ConfigError(
        "lags must be different numbers of steps, at least 1, such as [1, 2, 12] (0 is the label "
        f"itself, which is not known yet); got {values!r}"
    )
