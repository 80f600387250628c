"""Claims of FlexCFL (arXiv 2108.09749)."""

from __future__ import annotations

from papers.claims.claim import SKIPPED, Claim, Part, reason_against
from papers.claims.rules import ABOVE, Rule, gain, ratio, similar
from papers.claims.samples import BySeed, Sample, best_gap, figures_by_seed, sample_of
from papers.flexcfl import cnn_recipes
from papers.flexcfl.page import CELLS_III, CELLS_IV
from papers.flexcfl.recipes import (
    FEMNIST,
    FEMNIST_MLP,
    FIGURE_6,
    MNIST,
    MNIST_MLP,
    PRINTED_6,
    SYNTHETIC,
)
from papers.recipe import Setting
from papers.reproduction_marks import Results

PAPER = "FlexCFL"
PRINTED = {
    (cell.table, cell.setting.row, cell.column): cell.published
    for cell in (*CELLS_III, *CELLS_IV)
    if cell.published is not None
}
SETTINGS = {cell.setting.row: cell.setting for cell in (*CELLS_III, *CELLS_IV)}
BYTES = ("bytes_down", "bytes_up")  # between server and clients


def printed_gap(table: str, row: str, column: str, other: str) -> float:
    """Points by which a table of the paper has a method ahead of another.

    Args:
        table: III or IV.
        row: of the table.
        column: the method.
        other: the method that it is compared with.
    """
    return PRINTED[table, row, column] - PRINTED[table, row, other]


def _gap(label: str, row: str, column: str, other: str, rule: Rule | None = None) -> Part:
    """A method's best accuracy minus another's, without a shift, or under the one that the row
    names; the rule is side and size of the printed difference where no other is given."""
    table = "IV" if ": " in row else "III"
    setting = SETTINGS[row]
    printed = printed_gap(table, row, column, other)
    return Part(
        label=label,
        rows=(row,),
        columns=(column, other),
        sample=lambda results: best_gap(results, table, setting, column, [other]),
        rule=rule or gain(printed),
        printed=printed,
        barred=reason_against(setting),
    )


def _like_ifca(label: str, setting: Setting) -> Part:
    printed = printed_gap("III", setting.row, "FlexCFL", "IFCA")
    return _gap(label, setting.row, "FlexCFL", "IFCA", similar(printed))


def _over_first_client(setting: Setting, baseline: str) -> Part:
    """FlexCFL minus a baseline as the published code runs it: a cluster's model is its first
    client's. The part judges nothing, because the text describes another mean."""
    return Part(
        label="as coded",
        rows=(setting.row,),
        columns=("FlexCFL", f"{baseline}, first client"),
        sample=lambda results: best_gap(
            results, "III", setting, "FlexCFL", [f"{baseline}, first client"]
        ),
        rule=ABOVE,
        printed=printed_gap("III", setting.row, "FlexCFL", baseline),
    )


def _times_fedavg(column: str) -> Part:
    """Bytes between server and clients over FedAvg's, in pairs of seeds (Fig. 6(a))."""
    row = "MNIST, swap all"
    setting = next(cell.setting for cell in FIGURE_6 if cell.setting.row == row)
    printed = PRINTED_6[row, column]

    def sample(results: Results) -> Sample:
        ours = _bytes(results, row, column)
        base = _bytes(results, row, "FedAvg")
        shared = ours.keys() & base.keys()
        return sample_of({seed: ours[seed] / base[seed] for seed in shared}, setting)

    return Part(
        label=column,
        rows=(row,),
        columns=(column, "FedAvg"),
        sample=sample,
        rule=ratio(printed),
        printed=printed,
        form=".2f",
        barred=reason_against(setting),
    )


def _bytes(results: Results, row: str, column: str) -> BySeed:
    down, up = (figures_by_seed(results, "Fig. 6", row, column, figure=way) for way in BYTES)
    return {seed: down[seed] + up[seed] for seed in down.keys() & up.keys()}


CLAIMS = (
    Claim(
        paper=PAPER,
        where="6",
        quote=(
            f"FlexCFL significantly improved{SKIPPED}top-1 test accuracy on FEMNIST compared to "
            "FedSEM"
        ),
        table="flexcfl-table3",
        measure="gain over FeSEM",
        parts=tuple(
            _gap("FEMNIST", setting.row, "FlexCFL", "FeSEM")
            for setting in (FEMNIST, FEMNIST_MLP, cnn_recipes.FEMNIST)
        ),
        shown=tuple(_over_first_client(setting, "FeSEM") for setting in (FEMNIST, FEMNIST_MLP)),
    ),
    Claim(
        paper=PAPER,
        where="1",
        quote="FlexCFL achieves performance improvements similar to IFCA",
        table="flexcfl-table3",
        measure="FlexCFL minus IFCA",
        parts=(
            _like_ifca("MNIST", MNIST),
            _like_ifca("MNIST", MNIST_MLP),
            _like_ifca("FEMNIST", FEMNIST),
            _like_ifca("FEMNIST", FEMNIST_MLP),
        ),
        shown=tuple(
            _over_first_client(setting, "IFCA")
            for setting in (MNIST, MNIST_MLP, FEMNIST, FEMNIST_MLP)
        ),
    ),
    Claim(
        paper=PAPER,
        where="abstract",
        quote=(
            f"can significantly improve absolute test accuracy by{SKIPPED}on FashionMNIST "
            "compared to FedProx"
        ),
        table="flexcfl-table3",
        measure="gain over FedProx",
        parts=(_gap("FashionMNIST", cnn_recipes.FASHION.row, "FlexCFL", "FedProx"),),
    ),
    Claim(
        paper=PAPER,
        where="5.3",
        quote="leverage the client migration strategy to correct the mismatches",
        table="flexcfl-table4",
        measure="gain over FedGroup",
        parts=tuple(
            _gap(label, f"{setting.row}: swap all", "FlexCFL", "FedGroup", ABOVE)
            for label, setting in (
                ("MNIST", MNIST),
                ("MNIST", MNIST_MLP),
                ("FEMNIST", FEMNIST),
                ("FEMNIST", FEMNIST_MLP),
                ("Synthetic", SYNTHETIC),
            )
        ),
        counted=True,
    ),
    Claim(
        paper=PAPER,
        where="5.3",
        quote=(
            f"swap part setting, the accuracy increased by{SKIPPED}compared to "
            "FlexCFL without inter-group aggregation"
        ),
        table="flexcfl-table4",
        measure="gain over FlexCFL",
        parts=tuple(
            _gap("FEMNIST", f"{setting.row}: swap part", "FlexCFL, eta_g 5", "FlexCFL")
            for setting in (FEMNIST, FEMNIST_MLP, cnn_recipes.FEMNIST)
        ),
    ),
    Claim(
        paper=PAPER,
        where="5.3, Fig. 6",
        quote="FlexCFL is more efficient in communication",
        table="flexcfl-figure6",
        measure="times FedAvg's bytes",
        parts=(_times_fedavg("FlexCFL"), _times_fedavg("IFCA-MIG")),
    ),
)
