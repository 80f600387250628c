"""The class ``Advice``: whether clustering would help these clients, the measurements behind this
verdict, and the advised configuration."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import pandas as pd
import tomli_w

from fedkin.analysis.advise.field_benchmark import FieldPrior, field_prior
from fedkin.analysis.advise.pilot_runs import BASELINE, errors_in
from fedkin.analysis.advise.split_half_stability import THRESHOLD, ClusterCount
from fedkin.analysis.clusters_or_levels import HELP, ClustersOrLevels
from fedkin.analysis.tables import rows_of
from fedkin.config.schema import Values
from fedkin.measures.table import MEASURES

MEASURED = "ifca"  # the clustered method of the comparison with levels
CLUSTER = "cluster"
DO_NOT = "do not cluster"
CANNOT_TELL = "cannot tell"
# Points, or percent of an error: the cheapest of methods this close to the best is advised.
_TIE = 1.0


@dataclass(frozen=True)
class Advice:
    """A verdict on clustering the clients of a data set, and the measurements that support it.

    Attributes:
        data: name of the data set.
        model: name of the model.
        clients: N, the number of clients.
        local: the section [local] of the advised configuration.
        run: the section [run] of the advised configuration.
        heterogeneity: how different the clients' data are, compared with IID splits of the same
            samples.
        cluster_count: the number of clusters by each criterion.
        pilots: results of the pilot runs with ``pilot_clusters`` clusters (``run_pilots``); None if
            no client has test samples, or labels are numbers and ``levels`` is known.
        levels: whether clusters help beyond an own intercept for each client. It is known for
            linear models of numbers and of two or three classes, and then it decides.

    Examples:
        >>> import fedkin as fk
        >>> from fedkin.analysis.advise.pilot_runs import PilotPlan
        >>> data = fk.data.digits(clients=8)
        >>> pilots = PilotPlan(rounds=1, cohort=8, seeds=3)
        >>> advice = fk.advise(data, fk.models.mclr(data), pilots=pilots)
        >>> advice.data, advice.clients
        ('digits', 8)
    """

    data: str
    model: str
    clients: int
    local: Values
    run: Values
    heterogeneity: pd.DataFrame
    cluster_count: ClusterCount
    pilots: pd.DataFrame | None
    levels: ClustersOrLevels | None = None

    def __repr__(self) -> str:
        return f"Advice({self.data}: {self.verdict}, {self.why})"

    @property
    def clusters(self) -> int:
        """The estimated number of clusters."""
        if self.levels is None:
            return self.cluster_count.clusters
        return self.levels.usual_clusters

    @property
    def pilot_clusters(self) -> int:
        """The number of clusters in the pilot runs: the estimated number, but at least two."""
        return max(2, self.clusters)

    @property
    def gains(self) -> pd.DataFrame:
        """The rows of the table ``pilots`` about clustered methods whose gain over FedAvg is known.
        There may be no such rows."""
        if self.pilots is None:
            return pd.DataFrame(columns=["gain", "low", "high", "bytes"], dtype=float)
        return self.pilots.drop(index=BASELINE).dropna(subset=["gain", "low", "high"])

    @property
    def method(self) -> str:
        """The name of the advised method.

        With one cluster it is FedAvg. Otherwise it is the cheapest among the best methods with a
        significant gain, or FedAvg if no gain is significant.

        If no gain is known, it is the clustered method that ranks best in fedkin's benchmark of
        methods (see ``prior``), or FlexCFL if the benchmark has no ranking. It should then be
        compared with FedAvg in a run.
        """
        if self.levels is not None:
            return MEASURED if self.levels.verdict == HELP else BASELINE
        if self.clusters == 1:
            return BASELINE
        if self.gains.empty:
            return self.prior.best_clustered if self.prior else "flexcfl"
        significant = self.gains.query("low > 0")
        if significant.empty:
            return BASELINE
        best = significant.query(f"gain >= {significant['gain'].max() - _TIE}")
        return str(best["bytes"].idxmin())

    @property
    def prior(self) -> FieldPrior | None:
        """The ranking of methods in fedkin's benchmark (docs/benchmark-field.md) for clients with
        this kind of heterogeneity. None if the benchmark has no such ranking. It determines the
        advised method only if the pilot runs gave no result."""
        return field_prior(self.heterogeneity, self.clusters)

    @property
    def verdict(self) -> str:
        """``cluster``, ``do not cluster``, or ``cannot tell`` if the gain of several clusters is
        unknown."""
        if self.method == BASELINE:
            return DO_NOT
        if self.levels is not None:
            return CLUSTER
        return CANNOT_TELL if self.gains.empty else CLUSTER

    @property
    def why(self) -> str:
        """The reason for the verdict, in one sentence."""
        if self.levels is not None:
            return f"{self.levels.verdict}: {self.levels.why}"
        return self._why_one() if self.clusters == 1 else self._why_several()

    def _why_one(self) -> str:
        """The reason for the verdict if one cluster was found: why no larger number of clusters is
        stable, and what two clusters gain in the pilot runs."""
        reason = self.instability
        if self.gains.empty:
            return f"{reason}; {self._unknown} the gain of two clusters is unknown"
        candidates = self.gains
        remark = ""
        significant = self.gains.query("low > 0")
        if not significant.empty:
            candidates = significant
            remark = ", significant although no clusters were found; stability decides"
        name = candidates["gain"].idxmax()
        return f"{reason}; with two clusters: {name} {self._gain(str(name))}{remark}"

    @property
    def instability(self) -> str:
        """Why there is one cluster, as text with numbers: the condition of stability that no number
        of clusters above 1 meets."""
        count = self.cluster_count
        best = count.stability[1:].max()
        chance = _percent(count.chance)
        if best < THRESHOLD:
            return (
                "no number of clusters is stable: split-half stability is at most "
                f"{_percent(best)}, but {THRESHOLD:.0%} is required ({chance} in IID splits of the "
                "same data)"
            )
        return (
            "no number of clusters is more stable than by chance: split-half stability is at most "
            f"{_percent(best)}, and IID splits of the same data reach {chance}"
        )

    def _why_several(self) -> str:
        """The reason for the verdict if several clusters were found: their stability, and whether
        methods with this number of clusters gain over FedAvg."""
        limit = self.cluster_count.max_clusters
        stability = self.cluster_count.stability[self.clusters - 1]
        number = f"at least {limit}" if self.clusters == limit else f"{self.clusters}"
        reason = f"{number} clusters of clients, split-half stability {stability:.0%}"
        if self.gains.empty:
            return f"{reason}; {self._unknown} the gain of clustering is unknown"
        if self.verdict == DO_NOT:
            best = self._gain(str(self.gains["gain"].idxmax()))
            return f"{reason}, but no clustered method has a significant gain: {best}"
        return f"{reason}, and {self.method} gains {self._gain(self.method)}"

    def _gain(self, method: str) -> str:
        """The gain of a method over FedAvg as text, with its 95% interval."""
        assert self.pilots is not None
        row = self.gains.loc[method]
        band = f"[{row['low']:+.1f}, {row['high']:+.1f}]"
        if errors := errors_in(self.pilots):
            score = MEASURES[errors[0]].label
            return f"{row['gain']:+.1f}% {band} of {BASELINE}'s {score}"
        return f"{row['gain']:+.1f} points {band} over {BASELINE}"

    @property
    def _unknown(self) -> str:
        """The beginning of a remark that a gain is unknown: why it could not be measured."""
        if self.pilots is None:
            return "no client has test samples, so"
        return "no pilot could be scored, so"

    @property
    def criteria(self) -> pd.DataFrame:
        """A table with a row for each number of clusters (the table's index), and a column for each
        criterion."""
        k = self.cluster_count
        table = {
            "split-half stability": k.stability,
            "gap": k.gap.gap,
            "gap error": k.gap.error,
            "silhouette": k.silhouette,
            "eigengap": k.spectrum[1:] - k.spectrum[:-1],
            "dendrogram jump": [math.nan, *(k.heights[:-1] - k.heights[1:])],
        }
        return pd.DataFrame(table, index=pd.RangeIndex(1, k.max_clusters + 1, name="clusters"))

    def configuration(self) -> dict[str, Values]:
        """The advised sections [method], [local] and [run] of a configuration, and [personal] if
        clients should have own intercepts or own models."""
        if self.levels is not None and self.levels.personal_part:
            personal = {"name": self.levels.personal_part}
            method = {"name": BASELINE}
            return {"method": method, "personal": personal, "local": self.local, "run": self.run}
        if self.method == BASELINE:
            return {"method": {"name": BASELINE}, "local": self.local, "run": self.run}
        method = {"name": self.method, "clusters": self.clusters}
        return {"method": method, "local": self.local, "run": {**self.run, "against": [BASELINE]}}

    def toml(self) -> str:
        """The advised sections [method], [local] and [run] as TOML text, to be added to a file with
        [data] and [model]."""
        return tomli_w.dumps(self.configuration())

    def summary(self) -> dict[str, Any]:
        """The advice as plain JSON values; None for unknown values."""
        k = self.cluster_count
        prior = self.prior
        return {
            "data": self.data,
            "model": self.model,
            "clients": self.clients,
            "clients_used": len(k.clients),
            "verdict": self.verdict,
            "why": self.why,
            "clusters": self.clusters,
            "estimates": k.estimates,
            "stability_threshold": THRESHOLD,
            "chance": k.chance,
            "criteria": rows_of(self.criteria.reset_index()),
            "heterogeneity": rows_of(self.heterogeneity.reset_index()),
            "pilot_clusters": None if self.pilots is None else self.pilot_clusters,
            "pilots": None if self.pilots is None else rows_of(self.pilots.reset_index()),
            "levels": None if self.levels is None else self.levels.summary(),
            "prior": None if prior is None else {"kind": prior.kind, "ranks": prior.ranks},
            "configuration": self.configuration(),
        }


def _percent(share: float) -> str:
    """A share in per cent as text. It is rounded down, so that a value just below a threshold is
    not shown as equal to the threshold."""
    return f"{math.floor(100 * share + 1e-9)}%"
