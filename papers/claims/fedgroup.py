"""Claims of FedGroup (arXiv 2010.06870)."""

from __future__ import annotations

from collections.abc import Sequence

from papers.claims.claim import SKIPPED, Claim, Part, reason_against, short_name
from papers.claims.rules import ABOVE, BELOW, MOST, Rule, at_least, gain
from papers.claims.samples import Sample, best_gap, difference, sample_of
from papers.fedgroup.figure_recipes import FIGURE_5
from papers.fedgroup.page import CELLS_III
from papers.fedgroup.recipes import (
    FEMNIST,
    FEMNIST_MLP,
    MNIST,
    MNIST_MLP,
    SYNTHETIC,
    TABLE_I,
    TABLE_I_PUBLISHED,
)
from papers.fedgroup.sent140_recipes import TWEETS
from papers.recipe import Cell, Setting
from papers.reproduction_marks import Results, figures_by_seed

PAPER = "FedGroup"
BASELINES = ("FedAvg", "FedProx")
LINEAR = 0.9  # least R^2 of a mapping that is "approximately linear"; a threshold of ours
ROWS = (MNIST, MNIST_MLP, SYNTHETIC, FEMNIST, FEMNIST_MLP, TWEETS)
RANDOM_ROWS = tuple(setting for setting in ROWS if setting is not SYNTHETIC)  # RAC prints no number
PRINTED = {
    (cell.setting.row, cell.column): cell.published
    for cell in CELLS_III
    if cell.published is not None
}


def printed_gap(setting: Setting, column: str, others: Sequence[str]) -> float:
    """Points by which Table III has a method ahead of others, the best of them."""
    printed = PRINTED[setting.row, column]
    return printed - max(PRINTED[setting.row, other] for other in others)


def _ahead(setting: Setting, column: str, others: Sequence[str], rule: Rule | None = None) -> Part:
    """A method's best accuracy minus the best of others'; the rule is side and size of the
    printed difference where no other is given."""
    printed = printed_gap(setting, column, others)
    return Part(
        label=short_name(setting.row),
        rows=(setting.row,),
        columns=(column, *others),
        sample=lambda results: best_gap(results, "III", setting, column, others),
        rule=rule or gain(printed),
        printed=printed,
        barred=reason_against(setting),
    )


def _linearity(cell: Cell) -> Part:
    """R^2 of the line through the distances of all pairs of clients: the squared correlation."""

    def sample(results: Results) -> Sample:
        correlations = figures_by_seed(
            results, cell.table, cell.setting.row, cell.column, figure="correlation"
        )
        squares = {seed: value**2 for seed, value in correlations.items()}
        return sample_of(squares, cell.setting)

    return Part(
        label=short_name(cell.setting.row),
        rows=(cell.setting.row,),
        columns=(cell.column,),
        sample=sample,
        rule=at_least(LINEAR),
        form=".2f",
        barred=reason_against(cell.setting),
    )


def _discrepancy(fewest: Cell, most: Cell) -> Part:
    """Change of the mean discrepancy from fewest to most classes per client, in pairs of seeds."""

    def sample(results: Results) -> Sample:
        of_fewest, of_most = (
            figures_by_seed(
                results, cell.table, cell.setting.row, cell.column, figure="discrepancy_mean"
            )
            for cell in (fewest, most)
        )
        return sample_of(difference(of_most, of_fewest), most.setting)

    before, after = (TABLE_I_PUBLISHED[int(cell.setting.row)][0] for cell in (fewest, most))
    return Part(
        label=f"{fewest.setting.row} to {most.setting.row} classes",
        rows=(fewest.setting.row, most.setting.row),
        columns=("FedAvg",),
        sample=sample,
        rule=BELOW,
        printed=after - before,
        form="+.2f",
        barred=reason_against(most.setting),
    )


CLAIMS = (
    Claim(
        paper=PAPER,
        where="1",
        quote=(f"significantly improve test accuracy by +5.2% on MNIST{SKIPPED}+14.7% on FEMNIST"),
        table="fedgroup-table3",
        measure="gain over both",
        parts=tuple(_ahead(setting, "FedGroup", BASELINES) for setting in (MNIST, FEMNIST_MLP)),
    ),
    Claim(
        paper=PAPER,
        where="1",
        quote="+5.4% on Sentiment140",
        table="fedgroup-table3",
        measure="gain over both",
        parts=(_ahead(TWEETS, "FedGroup", BASELINES),),
    ),
    Claim(
        paper=PAPER,
        where="IV-B",
        quote="higher than FedGrouProx in most experiments",
        table="fedgroup-table3",
        measure="FedGroup minus FedGrouProx",
        parts=tuple(_ahead(setting, "FedGroup", ["FedGrouProx"], ABOVE) for setting in ROWS),
        whole=MOST,
    ),
    Claim(
        paper=PAPER,
        where="IV-B",
        quote="the RAC strategy leads to a significant decrease in accuracy",
        table="fedgroup-table3",
        measure="RAC minus FedGroup",
        parts=tuple(_ahead(setting, "RAC", ["FedGroup"]) for setting in RANDOM_ROWS),
    ),
    Claim(
        paper=PAPER,
        where="IV-C",
        quote=f"the mapping from the pair-wise distance{SKIPPED}is approximately linear",
        table="fedgroup-figure5",
        measure="R² of the line",
        parts=tuple(map(_linearity, FIGURE_5)),
    ),
    Claim(
        paper=PAPER,
        where="III-A",
        quote=(
            "the discrepancy decreases as the classes number limitation of each client’s data "
            "increases"
        ),
        table="fedgroup-table1",
        measure="change of the discrepancy",
        parts=(_discrepancy(TABLE_I[0], TABLE_I[-1]),),
    ),
)
