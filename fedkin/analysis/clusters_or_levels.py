"""Do clusters help, or do clients only differ in level? Five kinds of models over several draws of
the data, with the interval of what clusters add beyond an own intercept for each client.

In none of 13 tables whose clients are real groups did clusters beat one shared model with an
intercept for each client by more than 0.3% of the loss (measured by us): where clusters beat the
plain shared model, they sorted clients by level. So the gain over a shared model is not enough.

Intervals over draws are corrected, since draws share samples (Nadeau & Bengio 2003).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from inspect import isfunction
from typing import Any

import numpy as np
import pandas as pd

from fedkin.analysis.level_fits import (
    CLUSTERS,
    CLUSTERS_AND_INTERCEPTS,
    GIVEN,
    INTERCEPTS,
    LOCAL,
    PERSONAL,
    RANDOM,
    SHARED,
    Draw,
    fit_draw,
)
from fedkin.analysis.level_plan import LevelPlan
from fedkin.analysis.tables import rows_of
from fedkin.config.schema import check_integer
from fedkin.core.errors import ConfigError
from fedkin.core.randomness import Stream
from fedkin.data.describe import label_icc
from fedkin.data.federated import FederatedData, Ragged
from fedkin.data.units import units_of
from fedkin.measures.corrected_interval import CorrectedInterval, corrected_interval
from fedkin.measures.worse_than_alone import worse_than_alone
from fedkin.run.simulate import trainable
from fedkin.simulation.workers import AnyModel

LEAST_GAIN = 1.0  # percent of the loss; a smaller gain is not worth clusters
# Share of what own models save. Clusters that save less of it divide clients that all differ, and
# clients whose intercepts save less of it differ by more than levels.
LEAST_SHARE = 1 / 3
HELP = "clusters"
LEVELS = "levels, not clusters"
OWN = "own models, not clusters"
ALIKE = "one shared model"
_TEST_SHARE = 0.2
_VALIDATION_SHARE = 0.25  # of the samples that are not for testing
# The two kinds of models of each gain, by its name.
_GAINS = {
    "own intercept over shared": (INTERCEPTS, SHARED),
    "clusters over shared": (CLUSTERS, SHARED),
    "clusters beyond the intercept": (CLUSTERS_AND_INTERCEPTS, INTERCEPTS),
    "clusters over local": (CLUSTERS, LOCAL),
    "personal over shared": (PERSONAL, SHARED),
    "personal beyond the intercept": (PERSONAL, INTERCEPTS),
    "personal over local": (PERSONAL, LOCAL),
    "given groups over shared": (GIVEN, SHARED),
    "given groups over random ones": (GIVEN, RANDOM),
}
_BEYOND = "clusters beyond the intercept"


@dataclass(frozen=True)
class ClustersOrLevels:
    """The answer to "clusters or levels?", with the results of all draws.

    Attributes:
        data: name of the data.
        draws: results of each draw.
        icc: share of the variance of labels that lies between clients (intraclass correlation).

    Examples:
        >>> import fedkin as fk
        >>> import numpy as np
        >>> x = np.random.default_rng(0).normal(size=(120, 2))
        >>> clients = np.arange(120) % 6
        >>> data = fk.data.from_arrays(x, x[:, 0], clients=clients, task="regression")
        >>> plan = fk.LevelPlan(clusters=(2,), starts=1, rounds=2, rates=(0.1,))
        >>> answer = fk.clusters_or_levels(data, fk.models.mclr, draws=2, plan=plan)
        >>> len(answer.draws)
        2
    """

    data: str
    draws: tuple[Draw, ...]
    icc: float = math.nan

    @property
    def residual_icc(self) -> float:
        """The same of the shared model's residuals, mean over draws: about the share of its loss
        that an intercept for each client can save."""
        return float(np.mean([draw.icc for draw in self.draws]))

    @property
    def table(self) -> pd.DataFrame:
        """A row for each kind of model: the share of the constant's loss that it saves (D2, in
        percent), its mean test loss, and the percentage of clients that it serves worse than a
        local model, by more than 2%. Clients with fewer than 10 test samples do not count there,
        and the percentage is NaN if none counts in some draw. Means over draws."""
        rows = {}
        for kind in self.draws[0].losses:
            losses = [draw.losses[kind].mean for draw in self.draws]
            saved = [1 - draw.losses[kind].mean / draw.constant for draw in self.draws]
            rows[kind] = {
                "D2 %": 100 * float(np.mean(saved)),
                "loss": float(np.mean(losses)),
                "worse than alone %": float(np.mean([_harmed(draw, kind) for draw in self.draws])),
            }
        return pd.DataFrame.from_dict(rows, orient="index").rename_axis("model")

    @property
    def gains(self) -> pd.DataFrame:
        """A row for each comparison: the mean gain in percent of the loss, with its corrected 95%
        interval over draws."""
        rows = {}
        for name, (better, base) in _GAINS.items():
            if better in self.draws[0].losses:
                found = self.gain(better, base)
                rows[name] = {"gain %": found.mean, "low": found.low, "high": found.high}
        return pd.DataFrame.from_dict(rows, orient="index").rename_axis("comparison")

    def gain(self, better: str, base: str) -> CorrectedInterval:
        """The gain of one kind of model over another, in percent of the other's loss."""
        values = [
            100 * (1 - draw.losses[better].mean / draw.losses[base].mean) for draw in self.draws
        ]
        ratio = float(np.mean([draw.test_ratio for draw in self.draws]))
        return corrected_interval(values, ratio)

    @property
    def clusters(self) -> list[int]:
        """The number of clusters that validation samples choose in each draw."""
        return [draw.clusters for draw in self.draws]

    @property
    def clusters_beyond(self) -> list[int]:
        """The number of clusters that they choose where clients have own intercepts."""
        return [draw.clusters_beyond for draw in self.draws]

    @property
    def verdict(self) -> str:
        """``clusters``, ``levels, not clusters``, ``own models, not clusters`` or ``one shared
        model``.

        Clusters help if they save a significant part of the loss beyond own intercepts, which is
        at least ``LEAST_GAIN`` percent and a third of what personal models save beyond them. Levels
        are the answer if own intercepts save such a part of the shared model's loss. If personal
        models save at least ``LEAST_GAIN`` percent beyond them, significantly, it must also be at
        least a third of what these models save.
        """
        beyond = self.gain(CLUSTERS_AND_INTERCEPTS, INTERCEPTS).mean
        own = self.gain(PERSONAL, INTERCEPTS).mean
        if self._helps(CLUSTERS_AND_INTERCEPTS, INTERCEPTS) and beyond >= LEAST_SHARE * own:
            return HELP
        saved = self.gain(INTERCEPTS, SHARED).mean
        enough = saved >= LEAST_SHARE * self.gain(PERSONAL, SHARED).mean
        if self._helps(INTERCEPTS, SHARED) and (enough or not self._own_slopes_help):
            return LEVELS
        return OWN if self._helps(PERSONAL, SHARED) else ALIKE

    @property
    def usual_clusters(self) -> int:
        """The number of clusters that most draws choose, if clusters help; otherwise 1."""
        if self.verdict != HELP:
            return 1
        return max(self.clusters_beyond, key=self.clusters_beyond.count)

    @property
    def personal_part(self) -> str:
        """Name of the personal part that is advised without clusters, as in [personal] of a
        configuration; empty for none."""
        if self.verdict == LEVELS:
            return "linear" if self._own_slopes_help else "bias"
        return "linear" if self.verdict == OWN else ""

    @property
    def _own_slopes_help(self) -> bool:
        """Whether personal models save a significant part of the loss beyond own intercepts."""
        return self._helps(PERSONAL, INTERCEPTS)

    def _helps(self, better: str, base: str) -> bool:
        """Whether a gain is significant, and at least ``LEAST_GAIN`` percent."""
        gain = self.gain(better, base)
        return gain.low > 0 and gain.mean >= LEAST_GAIN

    @property
    def why(self) -> str:
        """The reason for the verdict, in one or two sentences."""
        beyond = self.gain(CLUSTERS_AND_INTERCEPTS, INTERCEPTS)
        level = self.gain(INTERCEPTS, SHARED)
        own = self.gain(PERSONAL, SHARED)
        chosen = sorted(set(self.clusters_beyond))
        number = ", ".join(map(str, chosen))
        if self.verdict == HELP:
            text = (
                f"clusters (K = {number}) save {_interval(beyond)} of the loss of a shared model "
                "in which each client has an own intercept"
            )
            if self.gain(PERSONAL, CLUSTERS).low > 0:
                text += f"; personal models save {_interval(own)} of the shared model's loss"
            return text
        text = f"beyond an own intercept for each client, clusters save {_interval(beyond)}"
        if self.verdict == OWN:
            return f"personal models save {_interval(own)} of the shared model's loss; {text}"
        text = f"own intercepts save {_interval(level)} of the shared model's loss; {text}"
        if self.verdict == LEVELS and self._own_slopes_help:
            more = self.gain(PERSONAL, INTERCEPTS)
            text += f"; personal models save {_interval(more)} more"
        return text

    def summary(self) -> dict[str, Any]:
        """The answer as plain JSON values."""
        return {
            "data": self.data,
            "verdict": self.verdict,
            "why": self.why,
            "draws": len(self.draws),
            "icc": None if math.isnan(self.icc) else self.icc,
            "residual_icc": None if math.isnan(self.residual_icc) else self.residual_icc,
            "clusters": self.clusters,
            "clusters_beyond": self.clusters_beyond,
            "models": rows_of(self.table.reset_index()),
            "gains": rows_of(self.gains.reset_index()),
        }

    def __repr__(self) -> str:
        return f"ClustersOrLevels({self.data}: {self.verdict}; {self.why})"


def clusters_or_levels(
    data: FederatedData | Sequence[FederatedData],
    model: AnyModel | Callable[..., Any],
    *,
    draws: int = 5,
    plan: LevelPlan | None = None,
    column: str | None = None,
    seed: int = 0,
    progress: Callable[[str], None] = lambda _: None,
) -> ClustersOrLevels:
    """Compare clusters with levels: a shared model, the same with an own intercept for each client,
    personal models (own fits pulled to the shared model), local models, and clusters.

    Args:
        data: the clients' data. Each draw divides the samples of every client again: 60% for
            training, 20% for validation, 20% for testing. Data with a time must not be divided at
            random: give a federation with three splits for each draw. Draw their validation samples
            by date or by ``with_validation(..., stratified=False)``.
        model: a linear model of the data, or the function that makes one: ``fk.models.mclr``.
        draws: number of draws, if ``data`` is one federation.
        plan: how models are trained; the numbers of clusters to try are in it.
        column: a column of facts about clients (``client_columns``); groups by its values are
            compared with random groups of the same sizes.
        seed: seed of divisions and initial models.
        progress: called with a line of text for each draw.

    Raises:
        ConfigError: there is no draw, the column is unknown, or the data are forecasts and no list.
        DataError: the data have no test samples, or are survival times.
        ModelError: the model is not linear.

    Examples:
        >>> import fedkin as fk
        >>> import numpy as np
        >>> x = np.random.default_rng(0).normal(size=(120, 2))
        >>> clients = np.arange(120) % 6
        >>> data = fk.data.from_arrays(x, x[:, 0], clients=clients, task="regression")
        >>> plan = fk.LevelPlan(clusters=(2,), starts=1, rounds=2, rates=(0.1,))
        >>> answer = fk.clusters_or_levels(data, fk.models.mclr, draws=2, plan=plan)
        >>> answer.table.index[0]
        'shared'
    """
    if isinstance(data, FederatedData):
        check_integer("draws", draws, 1)
        federations = [redrawn(data, seed + number) for number in range(draws)]
    else:
        federations = list(data)
    if not federations:
        raise ConfigError("data must be a federation, or a federation for each draw; got none")
    plan = plan or LevelPlan()
    results = []
    for number, each in enumerate(federations):
        progress(f"draw {number + 1} of {len(federations)}: {each.name}")
        of_draw = trainable(model(each) if isfunction(model) else model)
        groups = None if column is None else groups_of(each, column)
        results.append(fit_draw(each, of_draw, plan, seed=seed + number, groups=groups))
    return ClustersOrLevels(federations[0].name, tuple(results), label_icc(federations[0]))


def redrawn(data: FederatedData, seed: int) -> FederatedData:
    """The data with another random division of each client's samples: 60% for training, 20% for
    validation, 20% for testing. A client keeps at least one sample for training. With units, such
    as patients, these are shares of units, and no unit is divided.

    Args:
        data: the clients' data.
        seed: seed of the division.

    Raises:
        ConfigError: the labels are forecasts, which must not be divided at random.
    """
    if data.task_type.by_time:
        raise ConfigError(
            f"{data.name}: divided at random, models of forecasts would learn from the future; "
            "divide the data by two dates, such as validation_from = '2018-01' and test_from = "
            "'2019-01'; in Python, give such data for one or several dates as a list"
        )
    parts: dict[str, list[np.ndarray]] = {"train": [], "validation": [], "test": []}
    stream = Stream(seed, 0, "draws")
    for client in range(data.clients):
        rows = np.concatenate([data.part(split)[client] for split in data.splits])
        units = None if data.unit is None else units_of(data.unit, rows)
        drawn = rows if units is None else np.arange(units.count)
        shuffled = stream.client(client).permutation(drawn)
        tested = min(round(_TEST_SHARE * len(drawn)), len(drawn) - 1)
        held = min(round(_VALIDATION_SHARE * (len(drawn) - tested)), len(drawn) - tested - 1)
        divided = {
            "test": shuffled[:tested],
            "validation": shuffled[tested : tested + held],
            "train": shuffled[tested + held :],
        }
        for name, chosen in divided.items():
            own = chosen if units is None else rows[np.isin(units.of_sample, chosen)]
            parts[name].append(own)
    split = {name: Ragged.of(rows) for name, rows in parts.items()}
    return replace(data, **split)


def groups_of(data: FederatedData, column: str) -> tuple[str, ...]:
    """The group of each client, from a column of facts about clients."""
    facts = data.client_columns or {}
    if column not in facts:
        raise ConfigError(
            f"{data.name}: there is no column {column!r} of facts about clients (known: "
            f"{', '.join(facts) or 'none'}); give it when the table is read: client_columns = "
            f'["{column}"]'
        )
    return facts[column]


def _harmed(draw: Draw, kind: str) -> float:
    """Percentage of clients whose loss is more than 2% above the loss of their local model; NaN if
    no client has enough test samples."""
    own = draw.losses[LOCAL]
    return 100 * worse_than_alone(draw.losses[kind].total, own.total, own.samples)


def _interval(found: CorrectedInterval) -> str:
    """A gain with its interval, as text."""
    return f"{found.mean:+.1f}% [{found.low:+.1f}, {found.high:+.1f}]"
