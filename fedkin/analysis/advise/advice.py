"""What an engineer is told: how far clients differ, how many kinds there are, whether clustering helps, and how."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import pandas as pd
import tomli_w

from fedkin.analysis.advise.pilot_runs import PLAIN
from fedkin.analysis.advise.split_half_stability import HOLDS, Kinds
from fedkin.analysis.tables import rows_of
from fedkin.config.schema import Values

CLUSTER, DO_NOT, CANNOT_TELL = "cluster", "do not cluster", "cannot tell"
_AS_GOOD = 1.0  # percentage points: of methods this near to the best, the cheapest is advised


@dataclass(frozen=True)
class Advice:
    """The answer, and what it rests on.

    Attributes:
        data, model: their names; clients: N.
        local, run: sections of a configuration, as ``toml`` writes them.
        differences: how far clients differ (``differ.differences``).
        kinds: how many kinds there are, and what every way of asking says.
        pilots: what clustered methods gain with ``tried_with`` clusters (``pilots.pilots``); None where nobody has test
            samples.
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
    def tried_with(self) -> int:
        """With how many clusters methods are tried: one for each kind, and two where there is one kind."""
        return max(2, self.clusters)

    @property
    def gains(self) -> pd.DataFrame:
        """The pilots of clustered methods whose gain is known; no rows where that is of none."""
        if self.pilots is None:
            return pd.DataFrame(columns=["gain", "low", "high", "bytes"], dtype=float)
        return self.pilots.drop(index=PLAIN).dropna(subset=["gain", "low", "high"])

    @property
    def method(self) -> str:
        """What to run. With one kind the plain one. Else the cheapest of the methods that are as good as the best of
        those that help, and the plain one where none does; where no gain is known, FlexCFL, to try beside the plain."""
        if self.clusters == 1:
            return PLAIN
        if self.gains.empty:
            return "flexcfl"
        helps = self.gains.query("low > 0")
        as_good = helps.query(f"gain >= {helps['gain'].max() - _AS_GOOD}") if len(helps) else helps
        return str(as_good["bytes"].idxmin()) if len(as_good) else PLAIN

    @property
    def verdict(self) -> str:
        """``cluster``; ``do not cluster``; or, of several kinds whose gain is not known, ``cannot tell``."""
        if self.method == PLAIN:
            return DO_NOT
        return CANNOT_TELL if self.gains.empty else CLUSTER

    @property
    def why(self) -> str:
        """The reason, in one sentence."""
        return self._why_one() if self.clusters == 1 else self._why_several()

    def _why_one(self) -> str:
        best = self.kinds.returned[1:].max()
        reason = (
            f"no split of the clients holds: of its weakest cluster at best {best:.0%} come back when their other "
            f"half of data is asked ({self.kinds.chance:.0%} where data are dealt at random)"
        )
        if self.gains.empty:
            return f"{reason}; {self._unknown} what two clusters would gain is not known"
        helps = self.gains.query("low > 0")
        name = (self.gains if helps.empty else helps)["gain"].idxmax()
        above = "" if helps.empty else ", an interval above zero although no kinds were found"
        return f"{reason}; tried with two clusters: {name} {_gain(self.gains.loc[name])}{above}"

    def _why_several(self) -> str:
        most, share = self.kinds.most, self.kinds.returned[self.clusters - 1]
        number = f"at least {most}" if self.clusters == most else f"{self.clusters}"
        kinds = f"{number} kinds of clients: at least {share:.0%} of each cluster come back"
        if self.gains.empty:
            return f"{kinds}; {self._unknown} what clustering gains is not known"
        if self.verdict == DO_NOT:
            best = self.gains.loc[self.gains["gain"].idxmax()]
            return f"{kinds}, but no clustered method is shown to gain: {_gain(best)}"
        return f"{kinds}, and {self.method} gains {_gain(self.gains.loc[self.method])}"

    @property
    def _unknown(self) -> str:
        return "nobody has test samples, so" if self.pilots is None else "no trial could be scored, so"

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
            "tried_with": None if self.pilots is None else self.tried_with,
            "pilots": None if self.pilots is None else rows_of(self.pilots.reset_index()),
            "configuration": self.configuration(),
        }


def _gain(row: pd.Series) -> str:
    return f"{row['gain']:+.1f} points [{row['low']:+.1f}, {row['high']:+.1f}] over {PLAIN}"
