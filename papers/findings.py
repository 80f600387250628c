"""The findings, in sentences that can be quoted. Each has its numbers, from the stored runs, and
the command that prints them. A sentence is shown only while its numbers support it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from math import isnan, nan
from statistics import mean

import numpy as np

from fedkin.analysis.statistics import LEAST_SEEDS, LEVEL, paired_p
from papers import femnist_label_swaps
from papers.fedgroup import recipes as fedgroup
from papers.fedsim.numbers import BASELINES, paired_curves
from papers.fedsim.paired_tests import paired_p as paired_p_one_tailed
from papers.fedsim.recipes import SYNTHETIC, UNMATCHED
from papers.flexcfl import weightings
from papers.flexcfl.recipes import FEMNIST, FEMNIST_MLP, MNIST, MNIST_MLP, NO_SHIFT, PUBLISHED_III
from papers.flexcfl.recipes import SYNTHETIC as LARGE
from papers.number_text import NOT_RUN, format_number, span
from papers.panm.numbers import by_alpha
from papers.panm.recipes import BY_ALPHA, QUARTER, Question
from papers.recipe import Setting
from papers.reproduced_share import CPU_SIZED
from papers.reproduction_marks import MARGIN, Results, values_of

Stores = Mapping[str, Results]
DRAWS = 5  # of each kind, at least
FIVE = 5  # findings that are numbered; the others follow
WHERE = (
    "`make results` computes our numbers from the stored runs. The command at the end of a "
    "finding prints its table from the same runs, with the finding below it. With `--out DIR` "
    "instead of `--stored` the command makes the runs again; `fedkin reproduce` says how long that "
    "takes. The papers' numbers are quoted, and so are results of the authors' code, run again."
)
COMMAND = re.compile(r"( With [^.]*:)? `fedkin reproduce [^`]*`$")  # the end of a finding
SWAPPED = f"{MNIST.row}: swap all"


def section(results: Stores) -> str:
    """The findings with stored runs; empty if there are none."""
    texts = [text for finding in FINDINGS if (text := finding(results))]
    if not texts:
        return ""
    lines = ["## Findings", "", WHERE, ""]
    lines += [f"{i}. {text}" for i, text in enumerate(texts[:FIVE], 1)]
    if texts[FIVE:]:
        lines += ["", "Further findings:", ""]
        lines += [f"* {text}" for text in texts[FIVE:]]
    return "\n".join(lines)


def of_table(results: Stores, name: str) -> list[str]:
    """The findings from a table, if their runs are given; without the command, which shows the
    table.

    Args:
        results: stored runs, by paper.
        name: of the table, as ``fedkin reproduce`` knows it.
    """
    mention = re.compile(rf"`(fedkin reproduce )?{re.escape(name)}[ `]")
    return [
        COMMAND.sub("", text)
        for finding in FINDINGS
        if (text := finding(results)) and mention.search(text)
    ]


def ifca_leads(results: Stores) -> str:
    """Without the slip of the authors' code, IFCA is ahead of FlexCFL."""
    runs = results.get("flexcfl", ())
    columns = ("IFCA", "FlexCFL", "IFCA, by samples", "IFCA, first client")
    ifca, flexcfl, by_samples, slip = (
        _percent(results=runs, table="III", row=MNIST.row, column=column, figure="best")
        for column in columns
    )
    down, flexcfl_bytes, base = (_bytes(runs, column) for column in ("IFCA", "FlexCFL", "FedAvg"))
    gaps, gaps_by_samples = (
        _ahead(runs, column, "FlexCFL") for column in ("IFCA", "IFCA, by samples")
    )
    if (
        min(len(gaps), len(gaps_by_samples)) < LEAST_SEEDS
        or isnan(down + flexcfl_bytes + base)
        or min(gaps) <= 0
    ):
        return ""
    p, p_by_samples = (paired_p(np.array(of), np.zeros(len(of))) for of in (gaps, gaps_by_samples))
    if p >= LEVEL or not slip < flexcfl:
        return ""
    return (
        f"**IFCA is ahead of FlexCFL on MNIST-MCLR, and not behind it as printed**. IFCA has "
        f"{ifca:.1f}% and FlexCFL {flexcfl:.1f}% (printed: 94.2 and 95.8). IFCA leads by "
        f"{min(gaps):.1f} to {max(gaps):.1f} points in each of {len(gaps)} seeds (paired t-test, "
        f"p = {p:.2g}, not adjusted). IFCA needs {down / base:.2f} times FedAvg's bytes, and "
        f"FlexCFL {flexcfl_bytes / base:.2f}. With the slip of the authors' code, which averages "
        f"one client of each cluster, IFCA has {slip:.1f}. Weighted by samples, as in their "
        f"earlier code, it has {by_samples:.1f} (against FlexCFL p = {p_by_samples:.2g}). Their "
        "code, run again on another draw of the data, gave FlexCFL 95.8 in 194 rounds and IFCA, by "
        f"samples, 95.5 in 150.{_elsewhere(runs)} `fedkin reproduce flexcfl-table3 --stored`"
    )


def _elsewhere(results: Results) -> str:
    """IFCA minus FlexCFL in the other counted rows of Table III, in points, and as printed."""
    words = []
    for setting in (MNIST_MLP, FEMNIST, FEMNIST_MLP, LARGE):
        ours = [
            _percent(results=results, table="III", row=setting.row, column=column, figure="best")
            for column in ("IFCA", "FlexCFL")
        ]
        printed = dict(zip(NO_SHIFT, PUBLISHED_III[setting], strict=True))
        gaps = [ours[0] - ours[1], (printed["IFCA"] or nan) - (printed["FlexCFL"] or nan)]
        ours_text, printed_text = (format_number(gap, "+.1f") for gap in gaps)
        words.append(
            f"{ours_text} on {setting.row.removesuffix(', shared images')} (printed: "
            f"{printed_text})"
        )
    if any(NOT_RUN in text for text in words):
        return ""
    return (
        f" IFCA minus FlexCFL in the table's other counted rows: {', '.join(words[:-1])} and "
        f"{words[-1]} points."
    )


def _ahead(results: Results, column: str, other: str) -> list[float]:
    """Points by which one method's best accuracy on MNIST-MCLR is ahead of another's, of each seed
    of both."""
    ours = _by_seed(results, column)
    theirs = _by_seed(results, other)
    return [ours[seed] - theirs[seed] for seed in sorted(ours.keys() & theirs.keys())]


def _by_seed(results: Results, column: str) -> dict[int, float]:
    """The best accuracy on MNIST-MCLR by seed, in percent."""
    runs = (m for m in results if (m["table"], m["row"], m["column"]) == ("III", MNIST.row, column))
    return {m["seed"]: 100 * m["best"] for m in runs if m.get("best") is not None}


def the_slip_fits(results: Stores) -> str:
    """IFCA's numbers agree with the slip, and FeSEM's are nearer to the slip than to a mean."""
    far = {
        method: [
            [*third, *fourth] for third, fourth in zip(*_both_tables(results, method), strict=True)
        ]
        for method in weightings.METHODS
    }
    seeds = weightings.fewest_seeds(results.get("flexcfl", ()), CPU_SIZED)
    if seeds < LEAST_SEEDS:
        return ""
    on_synthetic = [
        distance
        for of_table in _both_tables(results, "FeSEM", LARGE.row)
        for distance in of_table[1]
    ]
    mean_of = {
        method: [mean(of_column) for of_column in of_columns] for method, of_columns in far.items()
    }
    if any(slip >= min(alike, by_samples) for alike, slip, by_samples in mean_of.values()):
        return ""
    words = " ".join(
        f"With it {_within(far[method][1])} numbers of {method} are within {MARGIN} points. Their "
        f"mean distance from the paper is {slip:.1f} points; it is {alike:.1f} where all clients "
        f"count alike, and {by_samples:.1f} by samples."
        for method, (alike, slip, by_samples) in mean_of.items()
    )
    return (
        "**FlexCFL's numbers of IFCA fit a slip in its code, and its numbers of FeSEM are nearer "
        "to the slip than to a mean**. The slip takes the first client of each cluster for the "
        f"mean of all. {words} Of FeSEM's on Synthetic(1,1) {_within(on_synthetic)} are within. "
        "These are "
        f"the numbers of Tables III and IV, each from at least {seeds} seeds that all three have. "
        f"{_by_the_log(results)}With `flexcfl-table3`: `fedkin reproduce flexcfl-table4 --stored`"
    )


def _by_the_log(results: Stores) -> str:
    """The one run of IFCA with a published log, which speaks against the slip, and our runs."""
    by_samples, slip = (
        _percent(
            results=results.get("flexcfl", ()),
            table="IV",
            row=f"{MNIST_MLP.row}: swap all",
            column=f"IFCA, {how}",
            figure="best",
        )
        for how in ("by samples", "first client")
    )
    return (
        "The one log of IFCA that the authors published speaks against the slip. That run weights "
        "clients by samples, and so is without the slip. It has 63.8% on MNIST-MLP under swap "
        f"all, near the printed 63.4. Ours has {by_samples:.1f} by samples and {slip:.1f} with "
        "the slip. "
    )


def _within(distances: Sequence[float]) -> str:
    return f"{weightings.within(distances)} of {len(distances)}"


def _both_tables(results: Stores, method: str, data: str = "") -> list[list[list[float]]]:
    return [
        weightings.distances(results.get("flexcfl", ()), method, table, data)
        for table in weightings.TABLES
    ]


def a_fifth_is_missed(results: Stores) -> str:
    """The label-blind test does not see all swaps."""
    blind = "FlexCFL"
    aware = "FlexCFL, label-aware"
    seen = [
        _percent(
            results=results.get("flexcfl", ()),
            table="IV",
            row=SWAPPED,
            column=column,
            figure="moves_noticed",
        )
        for column in (blind, aware)
    ]
    best = [
        _percent(
            results=results.get("flexcfl", ()),
            table="IV",
            row=SWAPPED,
            column=column,
            figure="best",
        )
        for column in (blind, aware)
    ]
    recall = _percent(
        results=results.get("flexcfl", ()),
        table="IV",
        row=SWAPPED,
        column=blind,
        figure="shift_recall",
    )
    if isnan(sum(best) + recall) or not 75 <= seen[0] <= 85 < min(seen[1], recall):
        return ""
    return (
        "**FlexCFL's label-blind test of a shift misses a fifth of the swaps**. On MNIST-MCLR it "
        f"detects {seen[0]:.0f}%, and a test that compares labels class by class detects "
        f"{seen[1]:.0f}%. Most clients that it overlooks are detected with a later swap (recall at "
        f"the end {recall:.0f}%). The best round has {best[0]:.1f}% and {best[1]:.1f}%. The paper "
        "prints 95.1 for the first. Its code, run again for 124 rounds, gave 92.1. "
        '`fedkin reproduce flexcfl-table4 --rows "MNIST-MCLR: swap all" --stored`'
    )


def alpha_does_nothing(results: Stores) -> str:
    """Of Synthetic(alpha, beta), alpha changes no sample and no label."""
    pni = {
        (alpha, beta): values_of(
            results=results.get("fedsim", ()),
            table="Fig. 10",
            row=f"beta {beta}",
            column=alpha,
            figure="pni",
        )
        for alpha in ("0", "0.5", "1")
        for beta in ("0", "0.5", "1")
    }
    if not all(pni.values()):
        return ""
    draws = min(len(values) for values in pni.values())
    low = mean(pni["0", "0"])
    high = mean(pni["0", "1"])
    if draws < DRAWS or low >= high:
        return ""
    if not all(values[:draws] == pni["0", beta][:draws] for (_, beta), values in pni.items()):
        return ""
    return (
        "**The alpha of Synthetic(alpha, beta) does nothing**. It adds one number to the scores "
        "of all classes, so a seed gives the same data with every alpha. The non-IID index "
        f"is equal in all {draws} draws, and grows with beta from {low:.2f} to {high:.2f}. `fedkin "
        "reproduce fedsim-figure10 --stored`"
    )


def femnist_has_three_labels(results: Stores) -> str:
    """FedGroup's row of FEMNIST with the labels of the authors' file, and with the labels of
    FedSim's text."""
    differences = {}
    for row in (fedgroup.FEMNIST, fedgroup.FEMNIST_FIVE):
        ours = [
            _percent(
                results=results.get("fedgroup", ()),
                table="III",
                row=row.row,
                column=column,
                figure="best",
            )
            for column in fedgroup.METHODS
        ]
        differences[row] = [
            abs(a - (b or nan)) for a, b in zip(ours, fedgroup.PUBLISHED[row], strict=True)
        ]
    three, five = (mean(differences[row]) for row in (fedgroup.FEMNIST, fedgroup.FEMNIST_FIVE))
    labels_of_client = femnist_label_swaps.own_labels(femnist_label_swaps.swaps())
    if isnan(three + five) or three >= five:
        return ""
    return (
        "**The FEMNIST of FedGroup and FlexCFL has three labels a client**. FedSim's text says "
        "five. In the log of a run that FlexCFL's authors published, none of "
        f"{len(labels_of_client)} clients gives away more than "
        f"{max(map(len, labels_of_client.values()))} original labels. With three, FedGroup's six "
        f"methods are {three:.1f} points from the paper in the mean, with five {five:.1f}. "
        '`fedkin reproduce fedgroup-table3 --rows "FEMNIST-MCLR, shared images" '
        '--rows "FEMNIST-MCLR, shared images, five labels" --stored`'
    )


def fedsim_loses(results: Stores) -> str:
    """FedSim is behind both baselines on draws of Synthetic(1, 1) that resemble the authors'."""
    over_avg, over_prox = (_gains(results, SYNTHETIC["(1, 1)"], baseline) for baseline in BASELINES)
    unmatched = _gains(results, UNMATCHED["(1, 1)"], BASELINES[0])
    if (
        min(len(over_avg), len(over_prox), len(unmatched)) < DRAWS
        or max(*over_avg, *over_prox) >= 0
    ):
        return ""
    p_avg, p_prox = (
        float(paired_p_one_tailed(np.zeros(len(g)), np.array(g))) for g in (over_avg, over_prox)
    )
    ranges = (
        f"{mean(g):+.1f} points ({min(g):+.1f} to {max(g):+.1f})"
        for g in (over_avg, over_prox, unmatched)
    )
    avg, prox, elsewhere = ranges
    return (
        "**FedSim is behind both baselines on Synthetic(1, 1), as its paper says, on each of "
        f"{len(over_avg)} draws**. The draws have the sizes and label shares of the authors' file. "
        f"It gains {avg} over FedAvg and {prox} over FedProx. The paper prints -6.2 and -7.0. "
        f"One-tailed paired t-tests of the draws have p = {p_avg:.2g} and {p_prox:.2g}. They are "
        "not adjusted for the other comparisons of Table 7; its verdicts are. On "
        f"{len(unmatched)} other draws it "
        f"gains {elsewhere} over FedAvg. `fedkin reproduce fedsim-table7 --rows '(1, 1)' --rows "
        "'(1, 1), other draws' --stored`"
    )


def panm_needs_less_of_the_rounds_updates(results: Stores) -> str:
    """With the usual alpha PANM by updates loses clusters that it finds with half of that alpha."""
    runs = results.get("peers", ())
    usual, less, none = (by_alpha(runs, alpha) for alpha in (Question.alpha, QUARTER, 0.0))
    numbers = [number for one in (usual, less, none) for shares in one[:3] for number in shares]
    if (
        min(usual.seeds, less.seeds) < LEAST_SEEDS
        or isnan(sum(numbers))
        or not max(usual.behind) > 1 > max(less.behind)
    ):
        return ""
    worse = [gap for gap in usual.behind if gap > 1]
    return (
        f"**PANM by updates is level with an oracle with an alpha of {QUARTER:g}, and not with the "
        f"{Question.alpha:g} that re-implementations have**. Alpha is the weight of a round's own "
        f"updates in the similarity of two peers. With {Question.alpha:g} accuracy is "
        f"{span(worse, '.1f')} points behind an oracle that knows the clusters, on {len(worse)} of "
        f"{len(BY_ALPHA)} federations of MNIST and Fashion-MNIST. With {QUARTER:g} it is at most "
        f"{max(less.behind):.1f} behind on any (means of {less.seeds} seeds). The least recall is "
        f"{min(usual.recall):.1f}% and {min(less.recall):.1f}%, the least precision "
        f"{min(usual.precision):.1f}% and {min(less.precision):.1f}%. Without these updates the "
        f"least recall is {min(none.recall):.1f}%. With `panm-compared` and `panm-breaks`: `fedkin "
        "reproduce panm-federations --stored`"
    )


FINDINGS: tuple[Callable[[Stores], str], ...] = (
    ifca_leads,
    the_slip_fits,
    a_fifth_is_missed,
    fedsim_loses,
    alpha_does_nothing,
    panm_needs_less_of_the_rounds_updates,
    femnist_has_three_labels,
)


def _percent(results: Results, table: str, row: str, column: str, figure: str) -> float:
    """The mean over the seeds; NaN where they are too few."""
    values = [
        value
        for value in values_of(results=results, table=table, row=row, column=column, figure=figure)
        if value is not None
    ]
    return 100 * mean(values) if len(values) >= LEAST_SEEDS else nan


def _bytes(results: Results, column: str) -> float:
    """Bytes between server and clients in the runs of MNIST-MCLR; NaN where there is none."""
    down, up = (
        values_of(results=results, table="III", row=MNIST.row, column=column, figure=f"bytes_{way}")
        for way in ("down", "up")
    )
    return mean(down) + mean(up) if down else nan


def _gains(results: Stores, setting: Setting, baseline: str) -> list[float]:
    """Points that FedSim gains over a baseline, of each draw."""
    curves = paired_curves(results.get("fedsim", ()), setting, ["FedSim", baseline])
    if len(curves) < 2:
        return []
    return (100 * (curves["FedSim"] - curves[baseline])[:, 1:].mean(axis=1)).tolist()
