"""FedSim's page, docs/results-fedsim.md."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import mean

import numpy as np
from jaxtyping import Float

from fedkin.analysis.statistics import holm
from fedkin.core.randomness import Stream
from fedkin.measures.pca import component_count
from papers import synthetic_draws
from papers.fedsim import network_recipes
from papers.fedsim.numbers import (
    BASELINES,
    Curves,
    counted,
    curves_of,
    improvements,
    paired_curves,
    sample_of,
)
from papers.fedsim.paired_comparison import BETTER, TOO_FEW, WORSE, compare, improvement, verdict
from papers.fedsim.paired_tests import as_printed, bootstrap, paired_p
from papers.fedsim.recipes import (
    AS_CODED,
    FIGURE_8,
    FINAL_PUBLISHED,
    MEX,
    OF_AUTHORS,
    SIGNIFICANT_PUBLISHED,
    SYNTHETIC,
    TABLE_4,
    TABLE_7,
    THREE,
    UNMATCHED,
    Published,
)
from papers.recipe import Setting
from papers.reproduction_marks import values_of
from papers.tables_markdown import Results, markdown

ROUND_ROBIN = "FedSim, round robin"
GLOVE_ROW = network_recipes.GOODREADS_RNN
SEVEN = {
    **{setting: TABLE_7[name] for name, setting in OF_AUTHORS.items()},
    **{SYNTHETIC[name]: published for name, published in TABLE_7.items()},
}
SEVEN_UNMATCHED = {UNMATCHED[name]: published for name, published in TABLE_7.items()}


def table_4(results: Results) -> str:
    """Real data: gains, rounds in which they are significant, and the curves."""
    return "\n\n".join(
        [
            "## Table 4, real data: gains of FedSim in percentage points",
            gains(results, TABLE_4),
            "## The same runs: mean accuracy in the last round (%)",
            finals(results, list(TABLE_4)),
            "## Rounds in which FedSim is significantly better than both (one-tailed t-test, "
            "0.05, Holm for the two)",
            significance(results),
            "![accuracy over the rounds, real data](images/fedsim-real.svg)",
            "![gains of FedSim over the rounds, real data](images/fedsim-gain.svg)",
            "## Figure 4: all clients' gradients on two principal components, in ten clusters of "
            "K-means",
            "![all clients' gradients on two principal components](images/fedsim-plane.svg)",
        ]
    )


def table_7(results: Results) -> str:
    """Synthetic data: gains on the authors' draws and on others, and the curves; of both tables:
    Figure 7."""
    return "\n\n".join(
        [
            "## Table 7, synthetic data: gains of FedSim in percentage points",
            gains(results, SEVEN),
            "## The same runs: mean accuracy in the last round (%)",
            finals(results, list(SEVEN)),
            "![accuracy over the rounds, synthetic data](images/fedsim-synthetic.svg)",
            "## Table 7 again, on draws that were not chosen",
            gains(results, SEVEN_UNMATCHED),
            "## Which draws of Synthetic(alpha, beta) resemble the authors'",
            "The draws were chosen before any training, by the numbers that the papers print "
            "(FedGroup, FlexCFL) or by the authors' test files. They are the first five seeds "
            "from 0 on that match all numbers to the margin, and the first five that do not. "
            "*Purity* is the share of the most frequent label among a client's samples, here over "
            "all clients and in the largest.",
            synthetic_draws.markdown_table(),
            figure_7(results),
        ]
    )


def table_6(results: Results) -> str:
    """Other networks: FedSim's gains, and the curves."""
    rows = [setting.row for setting in network_recipes.FIGURE_6]
    drawn = any(curves_of(results, network_recipes.TABLE, row, list(THREE)) for row in rows)
    lines = [
        [
            n.row,
            n.column,
            f"**{n.ours}**" if n.ours else "not run",
            f"*{n.published}* {n.symbol}".strip(),
            str(n.seeds),
        ]
        for n in network_recipes.improvements(results)
    ]
    return "\n\n".join(
        [
            "## Table 6: gains of FedSim with other networks, in percentage points",
            markdown(["", "", "improvement", "paper", "seeds"], lines),
            f"{GLOVE_ROW.row} needs {GLOVE_ROW.needs}, which cannot be distributed.",
            *(
                ["![accuracy over the rounds, other networks](images/fedsim-networks.svg)"]
                if drawn
                else []
            ),
        ]
    )


def figure_7(results: Results) -> str:
    """Clusters by similarity against clusters without it, on the data of both tables."""
    return "\n\n".join(
        [
            "## Figure 7: clusters by similarity, and clusters assigned in turn (round robin)",
            "The table has points of accuracy gained over FedAvg, with a 95% interval. They are "
            "means over the rounds and over the *n* samples (seeds, or draws as above) that "
            "FedAvg, similarity and round robin all have; *as coded* has its own samples. The "
            "paper's figure shows FEMNIST. Its text says that on (0.75, 0.75) and (1, 1) round "
            "robin is ahead of similarity. Then *similarity minus round robin* would be negative. "
            "*Share* is round robin's gain divided by similarity's gain, if both gain.",
            variants(results, [*TABLE_4, *SEVEN]),
            round_robin_ahead(results),
            "![similarity against round robin](images/fedsim-random.svg)",
        ]
    )


def round_robin_ahead(results: Results) -> str:
    """The results of the two rows where the paper's text has round robin ahead of similarity."""
    words = []
    for name in ("(0.75, 0.75)", "(1, 1)"):
        points = _points_over_fedavg(results, SYNTHETIC[name], "FedSim", ROUND_ROBIN)
        if not points:
            return "Round robin was not run on both rows that the text names."
        difference = points["FedSim"] - points[ROUND_ROBIN]
        low, high = _interval(difference)
        sign = "as the text says" if difference.mean() < 0 else "contrary to the text"
        words.append(
            f"{name} {spread(difference)}, {sign}"
            + (", and 0 is in the interval" if low <= 0 <= high else "")
        )
    return f"Similarity minus round robin is on {'; on '.join(words)}."


def figures(results: Results) -> str:
    """Figures 8 and 10."""
    return "\n\n".join(
        [
            "## Figures 8 and 10",
            "![principal components, and the non-IID index](images/fedsim-components-pni.svg)",
            components(results),
        ]
    )


ABOUT = """\
| column | meaning |
| --- | --- |
| improvement | the paper's number, computed as in its tables: the difference of the mean curves, \
summed over rounds 0 to T and divided by T, with its deviation *over the rounds*. It is truncated \
to two digits, as theirs is; the tables of numbers that differ round it |
| difference | the mean of each run's mean over rounds 1 to T, with a bootstrap interval (95%, not \
adjusted for several comparisons) and its range |
| ahead | the number of samples with a difference above zero |
| verdict | the result of two one-tailed paired t-tests, each at 0.05 and Holm-adjusted over all \
comparisons of the table |
| sign | whether a significant difference has the sign of the paper's |

In a row with one draw of the data, as in the paper, the samples are the seeds. \
They represent other initial models,
cohorts and batches on that federation. \
In a row with several draws the samples are the draws (each the mean of its
seeds), which represent the generator too. The paper does not say FedProx's mu. \
Here it is 1 without stragglers, a guess
that the curves of MNIST and of the IID data support."""


def gains(results: Results, rows: Mapping[Setting, Published]) -> str:
    """FedSim against both baselines, a line each."""
    marks = {(n.row, n.column): n.symbol for n in improvements(results, rows)}
    rows_run: list[tuple[Setting, int, Curves, tuple[float, float]]] = []
    for setting, published in rows.items():
        curves = paired_curves(results, setting, list(THREE))
        if len(curves) == len(THREE):
            rows_run += [(setting, i, curves, published[i]) for i in range(len(BASELINES))]
    if not rows_run:
        return "not run"
    points = [
        100 * (curves["FedSim"] - curves[BASELINES[i]])[:, 1:].mean(axis=1)
        for _, i, curves, _ in rows_run
    ]
    better = holm(np.array([paired_p(p, np.zeros_like(p)) for p in points], np.float64))
    worse = holm(np.array([paired_p(np.zeros_like(p), p) for p in points], np.float64))
    head = [
        "",
        "over",
        "improvement",
        "paper",
        "difference (95% interval)",
        "lowest to highest",
        "ahead",
        "verdict",
        "sign",
        "seeds",
    ]
    p = zip(better.tolist(), worse.tolist(), strict=True)
    lines = [
        _line(
            *each,
            gain,
            both,
            counted(results, each[0]),
            marks[each[0].row, f"over {BASELINES[each[1]]}"],
        )
        for each, gain, both in zip(rows_run, points, p, strict=True)
    ]
    return markdown(head, lines)


def spread(points: Float[np.ndarray, "S"]) -> str:
    """The mean over the seeds, and its interval where there are enough of them."""
    low, high = _interval(points)
    return f"{points.mean():+.2f}" + ("" if np.isnan(low) else f" ({low:.2f} to {high:.2f})")


def _interval(points: Float[np.ndarray, "S"]) -> tuple[float, float]:
    """The bootstrap interval of the mean; NaN where the seeds are too few."""
    return bootstrap(points, Stream(0, purpose="results/bootstrap").rng())


def _line(
    setting: Setting,
    baseline: int,
    curves: Curves,
    published: tuple[float, float],
    points: Float[np.ndarray, "S"],
    p: tuple[float, float],
    seeds: str,
    mark: str,
) -> list[str]:
    """``p`` is that FedSim is better, and that it is worse."""
    value, deviation = improvement(curves["FedSim"], curves[BASELINES[baseline]])
    verdict_text = verdict(*p)
    return [
        setting.row,
        BASELINES[baseline],
        f"**{as_printed(value)}** ± {as_printed(deviation)}",
        f"*{published[0]:.2f} ± {published[1]:.2f}* {mark}".rstrip(),
        spread(points),
        f"{points.min():+.1f} to {points.max():+.1f}",
        str(int((points > 0).sum())),
        verdict_text,
        _sign(setting, float(points.mean()), published[0])
        if verdict_text in (BETTER, WORSE)
        else "-",
        seeds,
    ]


def _sign(setting: Setting, ours: float, printed: float) -> str:
    if setting == MEX:
        return "other data"
    # The paper's one difference of that size is -0.06 with a deviation of 2.47.
    if abs(printed) < 0.1:
        return "the paper has none"
    return "agrees" if np.sign(ours) == np.sign(printed) else "**differs**"


def significance(results: Results) -> str:
    """The rounds in which FedSim is better than both baselines at once, and the paper's claim."""
    lines = []
    for setting, printed in SIGNIFICANT_PUBLISHED.items():
        curves = paired_curves(results, setting, list(THREE))
        if len(curves) == len(THREE):
            comparisons = compare(curves, "FedSim", Stream(0).rng())
            both = np.all([each.significant for each in comparisons], axis=0)[1:]
            lasting = len(both) - int(np.logical_and.accumulate(both[::-1]).sum())
            since = str(lasting + 1) if lasting < len(both) else "never"
            ours = [f"**{both.mean():.1%}**", f"**{since}**"]
            few = any(each.verdict == TOO_FEW for each in comparisons)
            lines.append([setting.row, *(["too few seeds"] * 2 if few else ours), f"*{printed}*"])
    return (
        markdown(["", "of the rounds", "in every round from", "paper"], lines)
        if lines
        else "not run"
    )


def finals(results: Results, settings: Sequence[Setting]) -> str:
    """Mean accuracy in the last round, with the authors' logs."""
    lines = []
    for setting in settings:
        curves = paired_curves(results, setting, list(THREE))
        printed = FINAL_PUBLISHED.get(setting.row, (None,) * 3)
        cells = [
            (f"**{100 * curves[column][:, -1].mean():.1f}**" if column in curves else "not run")
            + (f"<br>*{number}*" if number else "")
            for column, number in zip(THREE, printed, strict=True)
        ]
        lines.append([setting.row, *cells])
    return markdown(["", *THREE], lines)


def variants(results: Results, settings: Sequence[Setting]) -> str:
    """Each variant of FedSim against FedAvg; similarity minus round robin over the seeds that have
    all three."""
    lines = []
    for setting in settings:
        both = _points_over_fedavg(results, setting, "FedSim", ROUND_ROBIN)
        similarity = both.get("FedSim")
        dealt = both.get(ROUND_ROBIN)
        as_coded = _points_over_fedavg(results, setting, AS_CODED).get(AS_CODED)
        cells = [_shown(points) for points in (similarity, as_coded, dealt)]
        if as_coded is not None:
            cells[1] += f"; {_samples(as_coded, setting)}"
        if similarity is None or dealt is None:
            lines.append([setting.row, *cells, "not run", "-", "0"])
            continue
        gain = min(similarity.mean(), dealt.mean()) > 0
        share = f"{dealt.mean() / similarity.mean():.0%}" if gain else "-"
        lines.append(
            [setting.row, *cells, spread(similarity - dealt), share, _samples(dealt, setting)]
        )
    head = [
        "",
        "by similarity",
        "by similarity, as coded",
        "round robin",
        "similarity minus round robin",
        "share",
        "n",
    ]
    return markdown(head, lines)


def _samples(points: Float[np.ndarray, "S"], setting: Setting) -> str:
    return f"{len(points)} {sample_of(setting)}{'s' if len(points) > 1 else ''}"


def _points_over_fedavg(
    results: Results, setting: Setting, *columns: str
) -> dict[str, Float[np.ndarray, "S"]]:
    """Points gained over FedAvg by each of these columns, over the seeds that all of them have;
    empty if one was not run."""
    curves = paired_curves(results, setting, ["FedAvg", *columns])
    if len(curves) < 1 + len(columns):
        return {}
    return {name: 100 * (curves[name] - curves["FedAvg"])[:, 1:].mean(axis=1) for name in columns}


def _shown(points: Float[np.ndarray, "S"] | None) -> str:
    return "not run" if points is None else spread(points)


def components(results: Results) -> str:
    """The number of principal components that keep 95% of the gradients' variance."""
    lines = []
    for cell in FIGURE_8:
        shares = values_of(
            results=results,
            table="Fig. 8",
            row=cell.setting.row,
            column=cell.column,
            figure="explained",
        )
        counts = [component_count(np.array(share, np.float64), 0.95) for share in shares]
        text = f"**{mean(counts):.1f}** ({min(counts)} - {max(counts)})" if counts else "not run"
        lines.append([cell.setting.row, str(cell.setting.cohort), text])
    return markdown(["", "gradients", "components for 95% (paper: 4 to 15)"], lines)
