"""Clusters or levels on the natural federations: a shared model, own intercepts, personal and local
models, and clusters, on five draws, with reference figures.

    python -m benchmarks.natural --set exam --draws 5
    python -m benchmarks.natural --chance --set exam --draws 20
    python -m benchmarks.natural --page docs/measured-levels.md

The first writes ``benchmarks/natural_results/exam.json``, and the last writes the page of all such
files. ``--chance`` measures how far gains differ by chance (``benchmarks.natural_chance``), which
is a part of the page.

The shared model is FedAvg's and clusters are IFCA's, both trained by the simulator; every second
start of IFCA has the K-means clusters of local models. Own intercepts, personal and local
models are exact fits (``fedkin.analysis.level_fits``). The reference figures are means over five
other draws, by code that shares nothing with the library. Draw s of a set without a time is the
division of ``fk.data.natural(set, seed=s)``; a set with a time is divided by rolling years.

Columns of text become columns of 0 and 1, missing values are filled, heavy columns are on the scale
of the log, and all columns are standardised and cut to 8 standard deviations.
"""

from __future__ import annotations

import argparse
import json
import math
import textwrap
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

import fedkin as fk
from benchmarks import natural_chance
from benchmarks.advise_seeds import BEGIN, END, section
from benchmarks.advise_seeds import RESULTS as ADVISE_RESULTS
from fedkin.analysis.clusters_or_levels import ClustersOrLevels, clusters_or_levels
from fedkin.analysis.level_plan import LevelPlan
from fedkin.data.federated import FederatedData

RESULTS = Path(__file__).with_name("natural_results")
MOST = 8.0  # standard deviations
WITHIN = 0.5  # points of D2
VALIDATION_SHARE = 0.25  # of the samples that are not for testing
# D2 in percent: shared, own intercept, personal, local, clusters, clusters + own intercept.
REFERENCE: dict[str, tuple[float, ...]] = {
    "azpro": (44.7, 45.6, 45.7, 45.0, 45.0, 45.4),
    "randhie": (14.7, 15.0, 14.8, 14.4, 14.4, 14.5),
    "randhie_plan": (15.3, 16.0, 16.4, 13.9, 14.9, 15.3),
    "hsb82": (21.2, 23.5, 23.6, 20.9, 22.2, 23.0),
    "exam": (40.3, 45.2, 46.0, 44.3, 44.0, 44.9),
    "chem97": (44.3, 45.2, 45.4, 44.9, 45.0, 45.3),
    "loans": (37.8, 37.8, 37.6, 26.8, 37.1, 37.2),
    "flights": (10.3, 10.8, 11.4, 10.6, 10.7, 10.9),
    "txhousing_lags": (98.5, 98.5, 98.6, 97.9, 98.6, 98.6),
    "employment": (26.8, 26.8, 87.2, 87.2, 62.8, 62.8),
    "employment_lag12": (87.3, 87.3, 91.2, 91.2, 89.7, 89.7),
    "employment_w36": (26.6, 26.7, 89.8, 89.6, 81.9, 82.0),
    "insteval": (0.6, 1.2, 1.8, 1.8, 1.6, 1.6),
    "churn": (20.0, 20.5, 20.6, 10.4, 17.7, 18.1),
    "tv16": (58.9, 59.0, 59.1, 57.6, 59.0, 59.0),
}
# Gain of clusters over a shared model, both with own intercepts, in percent of the loss.
REFERENCE_BEYOND = {
    "azpro": -0.4,
    "randhie": -0.5,
    "randhie_plan": -0.8,
    "hsb82": -0.7,
    "exam": -0.7,
    "chem97": 0.1,
    "loans": -1.1,
    "flights": 0.1,
    "txhousing_lags": 3.5,
    "employment": 49.2,
    "employment_lag12": 17.6,
    "employment_w36": 75.3,
    "insteval": 0.3,
    "churn": -2.9,
    "tv16": -0.1,
}
LOG_COLUMNS = {
    "loans": (
        "annual_income",
        "annual_income_joint",
        "total_credit_limit",
        "total_credit_utilized",
        "total_collection_amount_ever",
        "total_debit_limit",
    ),
    "randhie": ("income",),
    "randhie_plan": ("income",),
}
# With one step on all samples of a client in each round, FedAvg is gradient descent on the pooled
# loss. Several local steps end at other models where clients differ: 1.8 and 1.3 points of D2 below
# the exact fit with lags of 12 months. Lags are nearly collinear, so they need more rounds. Without
# these lags, local steps cost 0.3 points, and IFCA finds better clusters.
PLANS = {
    "employment": LevelPlan(rates=(0.1, 0.03), batch_size=64, epochs=3, rounds=40),
    "employment_lag12": LevelPlan(rounds=100),
    "txhousing_lags": LevelPlan(rates=(0.2, 0.1), rounds=300),
    "employment_w36": LevelPlan(
        clusters=(4, 8, 12), rates=(0.1, 0.03), batch_size=16, epochs=3, rounds=60
    ),
}
HEAVY = ("randhie", "randhie_plan", "flights", "chem97", "tv16", "insteval", "loans")
HEAVY_PLAN = LevelPlan(starts=2)


def federation(name: str, draw: int) -> FederatedData:
    """A draw of a set, with training, validation and test samples."""
    natural = fk.data.natural(name, seed=draw)
    options = natural.reader_options()
    if options["task"] == "forecast":
        # The tables have their lags as columns, and the reference figures are of a regression.
        options["task"] = "regression"
        for name_of_series in ("time", "season", "lags"):
            options.pop(name_of_series, None)
    if name == "flights":
        # The reference figures are for squared errors.
        options["loss"] = "squared_error"
    if options["task"] == "classification":
        options["loss"] = None
    if natural.about.categories:
        options["categories"] = list(natural.about.categories)
    frame = natural.trained_clients().copy()
    for column in LOG_COLUMNS.get(name, ()):
        frame[column] = np.log1p(frame[column])
    data = standardised(fk.data.from_pandas(frame, **options))
    if data.validation is not None:
        return data
    # In stratified validation samples a client's labels have the mean of its training labels, so
    # the validation loss of own levels would be too low, and their pull too weak.
    return data.with_validation(VALIDATION_SHARE, draw, stratified=False)


def standardised(data: FederatedData) -> FederatedData:
    """The data with all columns of mean 0 and deviation 1 over the training samples, cut at
    ``MOST``."""
    trained = data.x[data.train.rows].astype(np.float64)
    deviation = trained.std(axis=0)
    deviation[deviation == 0] = 1.0
    scaled = (data.x - trained.mean(axis=0)) / deviation
    return replace(data, x=np.clip(scaled, -MOST, MOST).astype(np.float32), transform=None)


def measured(name: str, draws: int) -> ClustersOrLevels:
    """The answer for a set."""
    plan = PLANS.get(name) or (HEAVY_PLAN if name in HEAVY else LevelPlan())
    federations = [federation(name, draw) for draw in range(draws)]
    return clusters_or_levels(
        federations, fk.models.mclr, plan=plan, progress=lambda line: print(line, flush=True)
    )


def record(name: str, answer: ClustersOrLevels) -> dict[str, Any]:
    """The answer with the reference figures and their differences."""
    summary = answer.summary()
    reference = REFERENCE.get(name)
    if reference is None:
        return summary
    ours = answer.table["D2 %"].to_numpy()[: len(reference)]
    shared = ours - ours[0]
    expected = np.array(reference) - reference[0]
    return summary | {
        "d2_of_draws": d2_of_draws(answer),
        "test_ratio": round(float(np.mean([draw.test_ratio for draw in answer.draws])), 4),
        "reference": list(reference),
        "difference": (ours - np.array(reference)).round(2).tolist(),
        # The level of D2 depends on the draws, gains over the shared model hardly do.
        "difference_of_gains": (shared - expected).round(2).tolist(),
        "within": bool((np.abs(ours - np.array(reference)) <= WITHIN).all()),
        "gains_within": bool((np.abs(shared - expected) <= WITHIN).all()),
        "reference_beyond": REFERENCE_BEYOND[name],
    }


def d2_of_draws(answer: ClustersOrLevels) -> dict[str, list[float]]:
    """D2 of each model in percent, for each draw."""
    return {
        kind: [
            round(100 * (1 - draw.losses[kind].mean / draw.constant), 3) for draw in answer.draws
        ]
        for kind in answer.draws[0].losses
    }


def markdown(records: dict[str, dict[str, Any]]) -> str:
    """A table with a row for each set: D2 in percent, ours and (reference)."""
    kinds = [row["model"] for row in next(iter(records.values()))["models"]][:6]
    lines = [
        f"| set | {' | '.join(kinds)} | clusters beyond the intercept | K | verdict |",
        "|---" * (len(kinds) + 4) + "|",
    ]
    for name, each in records.items():
        reference = each.get("reference", [float("nan")] * len(kinds))
        cells = [
            f"{row['D2 %']:.1f} ({known:.1f})"
            for row, known in zip(each["models"], reference, strict=False)
        ]
        gains = {row["comparison"]: row for row in each["gains"]}
        beyond = gains["clusters beyond the intercept"]
        interval = f"{beyond['gain %']:+.1f} [{beyond['low']:+.1f}, {beyond['high']:+.1f}]"
        known = each.get("reference_beyond")
        number = " ".join(map(str, each["clusters"]))
        cells += [f"{interval} ({known:+.1f})", number, each["verdict"]]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


# The comparisons of the stored results that are gains of a model over the shared one.
_OVER_SHARED = {
    "shared + own intercept": "own intercept over shared",
    "personal": "personal over shared",
    "clusters": "clusters over shared",
}


class Gain(NamedTuple):
    """A gain in D2 over the shared model, in points.

    Attributes:
        mean: mean over draws.
        error: corrected standard error over draws; NaN where it is not stored.
        reference: the reference figure.
    """

    mean: float
    error: float
    reference: float

    @property
    def is_near(self) -> bool:
        """Whether the reference is within ``WITHIN`` points."""
        return abs(self.mean - self.reference) <= WITHIN

    @property
    def is_in_spread(self) -> bool:
        """Whether the reference is within two standard errors."""
        return abs(self.mean - self.reference) <= 2 * self.error

    def __str__(self) -> str:
        text = f"{self.mean:+.1f}"
        if not math.isnan(self.error):
            text += f" ± {self.error:.1f}"
        text += f" ({self.reference:+.1f})"
        if self.is_near:
            return text
        if math.isnan(self.error):
            return f"{text} ?"
        return f"{text} \\*" if self.is_in_spread else f"{text} \\*\\*"


def gains_of(record: dict[str, Any]) -> list[Gain]:
    """The gains of the models of a set over the shared one.

    Args:
        record: the stored results of the set.
    """
    reference = record["reference"]
    models = record["models"][: len(reference)]
    shared = models[0]["D2 %"]
    return [
        Gain(
            mean=row["D2 %"] - shared,
            error=gain_error(record, row["model"]),
            reference=round(known - reference[0], 1),
        )
        for row, known in zip(models[1:], reference[1:], strict=True)
    ]


def gain_error(record: dict[str, Any], model: str) -> float:
    """The corrected standard error (Nadeau & Bengio) of a model's gain over the shared one, in
    points of D2; NaN if neither single draws nor an interval of this gain are stored.

    Args:
        record: the stored results of a set.
        model: name of the model.
    """
    draws = record["draws"]
    of_draws = record.get("d2_of_draws")
    if of_draws is not None:
        gains = np.array(of_draws[model]) - np.array(of_draws["shared"])
        return math.sqrt((1 / draws + record["test_ratio"]) * float(gains.var(ddof=1)))
    comparison = _OVER_SHARED.get(model)
    if comparison is None:
        return math.nan
    interval = next(row for row in record["gains"] if row["comparison"] == comparison)
    half = (interval["high"] - interval["low"]) / 2
    # The interval is in percent of the shared model's loss.
    points = (100 - record["models"][0]["D2 %"]) / 100
    return float(points * half / stats.t.ppf(0.975, draws - 1))


def differences_section(records: dict[str, dict[str, Any]]) -> str:
    """How far the gains are from the reference figures, and how many differences are within the
    spread over draws."""
    gains = {name: gains_of(each) for name, each in records.items()}
    kinds = [row["model"] for row in next(iter(records.values()))["models"]][1:6]
    lines = [f"| set | {' | '.join(kinds)} |", "|---" * (len(kinds) + 1) + "|"]
    for name, of_set in gains.items():
        lines.append(f"| {name} | {' | '.join(map(str, of_set))} |")
    all_gains = [gain for of_set in gains.values() for gain in of_set]
    known = [gain for gain in all_gains if not math.isnan(gain.error)]
    far = [gain for gain in all_gains if not gain.is_near]
    far_known = [gain for gain in far if not math.isnan(gain.error)]
    far_in_spread = sum(gain.is_in_spread for gain in far_known)
    text = (
        f"The aim was to be within {WITHIN} points of the reference. "
        f"{len(all_gains) - len(far)} of {len(all_gains)} gains over the shared model are, and "
        f"{len(far)} are not. The reference has five other draws, so a part of each difference is "
        f"chance. For {sum(gain.is_in_spread for gain in known)} of the {len(known)} gains with a "
        "stored spread, the reference is within two corrected standard errors over our draws. "
        f"Among these are {len(far_known)} that miss the aim: {far_in_spread} are within the "
        f"spread (\\*), and {len(far_known) - far_in_spread} are not (\\*\\*)."
    )
    if len(far) > len(far_known):
        text += f" For {len(far) - len(far_known)} more that miss it, no spread is stored (?)."
    unit = (
        "Numbers are points of D2 over the shared model: mean ± corrected standard error, and the "
        "reference in brackets."
    )
    return "\n".join([textwrap.fill(text, 100), "", *lines, "", textwrap.fill(unit, 100), ""])


def chance_section(records: dict[str, dict[str, Any]]) -> str:
    """How far gains differ by chance, from the stored draws."""
    measured = json.loads(natural_chance.RESULTS.read_text())
    kinds = len(natural_chance.KINDS)
    gains = [gain for name in measured for gain in gains_of(records[name])[:kinds]]
    return natural_chance.section(
        measured,
        reference=lambda name, kind: REFERENCE[name][kind + 1] - REFERENCE[name][0],
        within=WITHIN,
        reached=sum(gain.is_near for gain in gains),
    )


def page(records: dict[str, dict[str, Any]]) -> str:
    """The page of results."""
    return f"""# Measured: levels or clusters

Natural federations are tables whose clients are real groups: hospitals, schools, industries,
states. This page is written by `python -m benchmarks.natural --page docs/measured-levels.md`,
from {len(records)} of the {len(REFERENCE)} sets that it can measure. The numbers are D2 in percent:
the share of the constant's loss that a model saves, mean of five draws. Numbers in brackets are
reference figures of other code on other draws.

* *shared* is FedAvg, and *clusters* is IFCA. Both are trained by the simulator, as linear models.
  In a round, a client takes one step on all its samples; in employment and employment_w36, three
  epochs in batches. Every second start of IFCA has random models, and the others have the K-means
  clusters of local models. The start and the number of clusters K are chosen on validation samples,
  and K = 1 is offered.
* *own intercept*, *personal* and *local* are exact fits. Their pull is chosen on validation samples
  that are drawn at random. Stratified by label, these made the pull too weak: on churn, own
  intercepts then lost 0.8 points.
* *clusters beyond the intercept* is the gain of clusters with own intercepts over the shared model
  with own intercepts, in percent of its loss, with the corrected 95% interval.

{markdown(records)}
The levels of D2 depend on the draws and on the encoding of columns. Since K = 1 is offered,
clusters cost less on sets without clusters, such as churn and loans, than the reference says. The
reference had to choose 2, 3 or 4 there.

## Differences from the reference

{differences_section(records)}
### Chance

{chance_section(records)}
{BEGIN}{section(ADVISE_RESULTS)}{END}
## Next

* [Do clusters help here?](do-clusters-help.md) explains the columns.
* [Do no harm, measured](measured-do-no-harm.md) is about what serves a single client.
"""


def main() -> None:
    """Measure the sets of the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--set", nargs="+", default=list(REFERENCE), help="sets; default: all")
    parser.add_argument("--draws", type=int, default=5, help="number of draws; default 5")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the results")
    parser.add_argument("--chance", action="store_true", help="measure the spread of gains only")
    parser.add_argument("--page", type=Path, help="write the page of all results in the folder")
    chosen = parser.parse_args()
    chosen.out.mkdir(parents=True, exist_ok=True)
    if chosen.chance:
        for name in chosen.set:
            natural_chance.measure(name, (federation(name, draw) for draw in range(chosen.draws)))
            print(f"{name}: {chosen.draws} draws", flush=True)
        return
    for name in () if chosen.page else chosen.set:
        answer = measured(name, chosen.draws)
        print(answer.table.round(2).to_string(), answer.gains.round(1).to_string(), sep="\n")
        print(f"{name}: {answer.verdict}: {answer.why}", flush=True)
        file = chosen.out / f"{name}.json"
        file.write_text(json.dumps(record(name, answer), indent=1) + "\n")
    if chosen.page:
        files = sorted(chosen.out.glob("*.json"))
        records = {file.stem: json.loads(file.read_text()) for file in files}
        chosen.page.write_text(page(records))


if __name__ == "__main__":
    main()
