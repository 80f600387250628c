"""Claims of FedSim (Neurocomputing 2022)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from jaxtyping import Float

from fedkin.measures.pca import component_count
from papers.claims.claim import INFERRED, SKIPPED, Claim, Part, reason_against, short_name
from papers.claims.rules import ABOVE, BELOW, Rule, between, gain
from papers.claims.samples import (
    PERCENT,
    BySeed,
    Sample,
    difference,
    lowest,
    sample_of,
)
from papers.fedsim import network_recipes as networks
from papers.fedsim.numbers import BASELINES, FEDSIM, LEAST, MOST, table_of
from papers.fedsim.page import ROUND_ROBIN
from papers.fedsim.recipes import (
    FEMNIST,
    FIGURE_8,
    FIGURE_10,
    GOODREADS,
    MEX,
    MNIST,
    OF_AUTHORS,
    SYNTHETIC,
    TABLE_4,
    TABLE_7,
    shares_cohorts,
)
from papers.recipe import Cell, Setting
from papers.reproduction_marks import Results, figures_by_seed

PAPER = "FedSim"
VARIANCE = 0.95  # that the kept components explain
EXTREME = ("(0.75, 0.75)", "(1, 1)")  # "extremely non-IID" (section 6)
LABELS = {
    MNIST: "MNIST",
    FEMNIST: f"FEMNIST{INFERRED}",
    GOODREADS: "Fed-Goodreads",
    MEX: "Fed-MEx",
}
NETWORKS = (
    networks.MNIST_CNN,
    networks.FEMNIST_CNN,
    networks.MEX_MLP_PUBLISHED,
    networks.GOODREADS_RNN,
)


def accuracies_by_seed(
    results: Results, setting: Setting, column: str
) -> Mapping[int, Float[np.ndarray, "R"]]:
    """Accuracy in the rounds 0 to T, of each seed of a method."""
    table = networks.TABLE if setting in NETWORKS else table_of(setting)
    cell = (results, table, setting.row, column)
    correct = figures_by_seed(*cell, figure="right")
    tested = figures_by_seed(*cell, figure="tested")
    return {seed: np.array(correct[seed], np.float64) / tested[seed] for seed in correct}


def gain_by_seed(results: Results, setting: Setting, method: str, other: str) -> BySeed:
    """FedSim's mean performance improvement (section 4.3) in points, of each seed of both.

    Args:
        results: stored runs.
        setting: of the row.
        method: that gains.
        other: over which it gains.
    """
    ours = accuracies_by_seed(results, setting, method)
    theirs = accuracies_by_seed(results, setting, other)
    gains = {}
    for seed in sorted(ours.keys() & theirs.keys()):
        gaps = ours[seed] - theirs[seed]
        gains[seed] = float(PERCENT * gaps.sum() / (len(gaps) - 1))
    return gains


def steps_by_seed(results: Results, setting: Setting, method: str, other: str) -> BySeed:
    """How much more a method's accuracy changes from round to round than another's, in the second
    half of the rounds: mean size of the changes, in points, of each seed of both.

    Args:
        results: stored runs.
        setting: of the row.
        method: the method.
        other: the other method.
    """
    steps: list[dict[int, float]] = []
    for column in (method, other):
        of_seeds = accuracies_by_seed(results, setting, column)
        changes = {
            seed: np.abs(np.diff(curve[len(curve) // 2 :])) for seed, curve in of_seeds.items()
        }
        steps.append({seed: float(PERCENT * of.mean()) for seed, of in changes.items()})
    ours, theirs = steps
    return difference(ours, theirs)


def _over(setting: Setting, others: Sequence[str], label: str, printed: float) -> Part:
    """FedSim's gain, over the better one of several baselines."""

    def sample(results: Results) -> Sample:
        gains = [gain_by_seed(results, setting, FEDSIM, other) for other in others]
        return replace(lowest(gains, setting), independent=not shares_cohorts(setting))

    return Part(
        label=label,
        rows=(setting.row,),
        columns=(FEDSIM, *others),
        sample=sample,
        rule=gain(printed),
        printed=printed,
        barred=reason_against(setting),
    )


def _over_both(setting: Setting) -> Part:
    printed = min(points for points, _ in TABLE_4[setting])
    return _over(setting, BASELINES, LABELS[setting], printed)


def _over_fedavg(name: str) -> Part:
    setting = OF_AUTHORS.get(name, SYNTHETIC[name])
    return _over(setting, BASELINES[:1], name.replace(" ", ""), TABLE_7[name][0][0])


def _of_network(setting: Setting) -> Part:
    label = short_name(setting.row)
    return _over(setting, BASELINES[:1], label, networks.TABLE_6[setting][0][0])


def _steadier(setting: Setting, baseline: str) -> Part:
    """FedSim's changes from round to round minus a baseline's."""
    return Part(
        label=LABELS[setting],
        rows=(setting.row,),
        columns=(FEDSIM, baseline),
        sample=lambda results: sample_of(
            steps_by_seed(results, setting, FEDSIM, baseline), setting
        ),
        rule=BELOW,
        group=f"minus {baseline}'s",
        form="+.2f",
        barred=reason_against(setting),
    )


def _over_random(setting: Setting, label: str, rule: Rule) -> Part:
    """FedSim minus FedSim with round-robin clusters, as its code has the random ones."""
    return Part(
        label=label,
        rows=(setting.row,),
        columns=(FEDSIM, ROUND_ROBIN),
        sample=lambda results: sample_of(
            gain_by_seed(results, setting, FEDSIM, ROUND_ROBIN), setting
        ),
        rule=rule,
        barred=reason_against(setting),
    )


def _components(cell: Cell) -> Part:
    """Principal components that keep 95% of the variance."""
    setting = cell.setting

    def sample(results: Results) -> Sample:
        shares = figures_by_seed(results, cell.table, setting.row, cell.column, figure="explained")
        counts = {
            seed: float(component_count(np.array(share, np.float64), VARIANCE))
            for seed, share in shares.items()
        }
        return sample_of(counts, setting)

    label = next(name for row, name in LABELS.items() if row.row == setting.row)
    return Part(
        label=label,
        rows=(setting.row,),
        columns=(cell.column,),
        sample=sample,
        rule=between(LEAST, MOST),
        form=".1f",
        barred=reason_against(setting),
    )


def _index_grows(label: str, low: Cell, high: Cell) -> Part:
    """PNI with the higher parameter minus PNI with the lower, in pairs of seeds of the data."""

    def sample(results: Results) -> Sample:
        of_low, of_high = (
            figures_by_seed(results, cell.table, cell.setting.row, cell.column, figure="pni")
            for cell in (low, high)
        )
        return sample_of(difference(of_high, of_low), high.setting)

    return Part(
        label=label,
        rows=tuple(dict.fromkeys((low.setting.row, high.setting.row))),
        columns=tuple(dict.fromkeys((high.column, low.column))),
        sample=sample,
        rule=ABOVE,
        form="+.2f",
        barred=reason_against(high.setting),
    )


_PNI = {(cell.column, cell.setting.row): cell for cell in FIGURE_10}

CLAIMS = (
    Claim(
        paper=PAPER,
        where="5",
        quote="significantly out performed both baselines on all four datasets",
        table="fedsim-table4",
        measure="gain over the better baseline",
        parts=tuple(map(_over_both, LABELS)),
    ),
    Claim(
        paper=PAPER,
        where="abstract",
        quote="more stable compared to both these baselines",
        table="fedsim-table4",
        measure="change from round to round, second half, points",
        parts=tuple(_steadier(setting, baseline) for baseline in BASELINES for setting in LABELS),
    ),
    Claim(
        paper=PAPER,
        where="5.1",
        quote="we can empirically prove that the proposed method is model agnostic",
        table="fedsim-table6",
        measure="gain over FedAvg",
        parts=tuple(map(_of_network, NETWORKS)),
    ),
    Claim(
        paper=PAPER,
        where="6",
        quote="moderate non-IID settings benefit from a similarity guided approach",
        table="fedsim-table7",
        measure="gain over FedAvg",
        parts=tuple(map(_over_fedavg, ("(0, 0)", "(0.25, 0.25)", "(0.5, 0.5)"))),
    ),
    Claim(
        paper=PAPER,
        where="7",
        quote=(
            f"performance improvements were observed{SKIPPED}except with the IID and extreme "
            "non-IID settings"
        ),
        table="fedsim-table7",
        measure="gain over FedAvg",
        parts=tuple(map(_over_fedavg, ("IID", *EXTREME))),
    ),
    Claim(
        paper=PAPER,
        where="5.2, of FEMNIST",
        quote="clearly demonstrates the benefit of using similarity knowledge",
        table="fedsim-table4",
        measure="FedSim minus random clusters",
        parts=(_over_random(FEMNIST, LABELS[FEMNIST], ABOVE),),
        shown=tuple(
            replace(_over_random(setting, LABELS[setting], ABOVE), group="not in the paper")
            for setting in (MNIST, GOODREADS)
        ),
    ),
    Claim(
        paper=PAPER,
        where="5.2",
        quote="random clustering outperforms similarity clustering with extreme non-IID datasets",
        table="fedsim-table7",
        measure="FedSim minus random clusters",
        parts=tuple(
            _over_random(SYNTHETIC[name], name.replace(" ", ""), BELOW) for name in EXTREME
        ),
    ),
    Claim(
        paper=PAPER,
        where="5.3",
        quote="reduces the gradient vector size to a value between 4 and 15 with all datasets",
        table="fedsim-figure8",
        measure="components",
        parts=tuple(map(_components, FIGURE_8)),
        evidence="4 to 15",
    ),
    Claim(
        paper=PAPER,
        where="4.1.2",
        quote="increasing α increases class distribution skew",
        table="fedsim-figure10",
        measure="change of PNI (the data stay the same, so that no index changes)",
        parts=(_index_grows("α from 0 to 1", _PNI["0", "beta 0"], _PNI["1", "beta 0"]),),
    ),
    Claim(
        paper=PAPER,
        where="6",
        quote="values consistently increased with β",
        table="fedsim-figure10",
        measure="change of PNI",
        parts=tuple(
            _index_grows(
                f"β from {low} to {high}", _PNI["0", f"beta {low}"], _PNI["0", f"beta {high}"]
            )
            for low, high in (("0", "0.5"), ("0.5", "1"), ("0", "1"))
        ),
    ),
)
