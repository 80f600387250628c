"""What an engineer is told: how far clients differ, how many kinds there are, whether clustering helps, and how."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import pandas as pd
import tomli_w

from fedkin.experiment.advise.kinds import HOLDS, Kinds
from fedkin.experiment.advise.pilots import PLAIN
from fedkin.experiment.options import Values
from fedkin.experiment.tabular import rows_of

CLUSTER, DO_NOT = "cluster", "do not cluster"
_AS_GOOD = 1.0  # percentage points: of methods this near to the best, the cheapest is advised


@dataclass(frozen=True)
class Advice:
    """The answer, and what it rests on.

    Attributes:
        data, model: their names; clients: N.
        local, run: sections of a configuration, as ``toml`` writes them.
        differences: how far clients differ (``differ.differences``).
        kinds: how many kinds there are, and what every way of asking says.
        pilots: what clustered methods gain (``pilots.pilots``); None where there was nothing to try, because clients
            are of one kind, or where trials were not wanted.
    """

    data: str
    model: str
    clients: int
    local: Values
    run: Values
    differences: pd.DataFrame
    kinds: Kinds
    pilots: pd.DataFrame | None

    def __repr__(self) -> str:
        return f"Advice({self.data}: {self.verdict}, {self.why})"

    @property
    def clusters(self) -> int:
        """How many kinds of clients there are."""
        return self.kinds.clusters

    @property
    def method(self) -> str:
        """What to run: the cheapest of the methods that are as good as the best of those that help; else the plain."""
        if self.pilots is None:
            return PLAIN if self.clusters == 1 else "flexcfl"
        helps = self.pilots.query("low > 0")
        as_good = helps.query(f"gain >= {helps['gain'].max() - _AS_GOOD}") if len(helps) else helps
        return str(as_good["bytes"].idxmin()) if len(as_good) else PLAIN

    @property
    def verdict(self) -> str:
        """``cluster`` or ``do not cluster``."""
        return DO_NOT if self.method == PLAIN else CLUSTER

    @property
    def why(self) -> str:
        """The reason, in one sentence."""
        returned, most = self.kinds.returned, self.kinds.most
        if self.clusters == 1:
            best = returned[1:].max()
            return (
                f"no split of the clients holds: of its weakest cluster at best {best:.0%} come back when their other "
                f"half of data is asked ({self.kinds.chance:.0%} where data are dealt at random)"
            )
        number = f"at least {most}" if self.clusters == most else f"{self.clusters}"
        kinds = f"{number} kinds of clients: at least {returned[self.clusters - 1]:.0%} of each cluster come back"
        if self.pilots is None:
            return f"{kinds}; nobody has test samples, so what they gain is not known"
        if self.verdict == DO_NOT:
            tried = self.pilots.drop(index=PLAIN)
            return f"{kinds}, but no clustered method is shown to gain: {_gain(tried.loc[tried['gain'].idxmax()])}"
        return f"{kinds}, and {self.method} gains {_gain(self.pilots.loc[self.method])}"

    @property
    def numbers(self) -> pd.DataFrame:
        """One row for every number of clusters (its index), a column for every way of asking."""
        k = self.kinds
        table = {
            "clients return": k.returned,
            "gap": k.gap.gap,
            "gap error": k.gap.error,
            "silhouette": k.silhouette,
            "eigengap": k.spectrum[1:] - k.spectrum[:-1],
            "dendrogram jump": [math.nan, *(k.heights[:-1] - k.heights[1:])],
        }
        return pd.DataFrame(table, index=pd.RangeIndex(1, k.most + 1, name="clusters"))

    def configuration(self) -> dict[str, Values]:
        """The sections that follow from the advice."""
        if self.method == PLAIN:
            return {"method": {"name": PLAIN}, "local": self.local, "run": self.run}
        method = {"name": self.method, "clusters": self.clusters}
        return {"method": method, "local": self.local, "run": {**self.run, "against": [PLAIN]}}

    def toml(self) -> str:
        """The sections [method], [local] and [run] to put under [data] and [model], as ``fedkin run`` reads them."""
        return tomli_w.dumps(self.configuration())

    def summary(self) -> dict[str, Any]:
        """Everything as JSON can hold it; None for what is not known."""
        k = self.kinds
        return {
            "data": self.data,
            "model": self.model,
            "clients": self.clients,
            "clients_used": len(k.used),
            "verdict": self.verdict,
            "why": self.why,
            "clusters": self.clusters,
            "votes": k.votes,
            "holds_from": HOLDS,
            "chance": k.chance,
            "numbers": rows_of(self.numbers.reset_index()),
            "differences": rows_of(self.differences.reset_index()),
            "pilots": None if self.pilots is None else rows_of(self.pilots.reset_index()),
            "configuration": self.configuration(),
        }


def _gain(row: pd.Series) -> str:
    return f"{row['gain']:+.1f} points [{row['low']:+.1f}, {row['high']:+.1f}] over {PLAIN}"
