"""Claims of FlexCFL (arXiv 2108.09749)."""

from __future__ import annotations

from papers.claims.claim import SKIPPED, Claim, Part, reason_against, short_name
from papers.claims.rules import ABOVE, BELOW, Rule, gain, ratio, similar
from papers.claims.samples import (
    BySeed,
    Sample,
    best_gap,
    difference,
    sample_of,
)
from papers.flexcfl import cnn_recipes
from papers.flexcfl.page import CELLS_III, CELLS_IV
from papers.flexcfl.recipes import (
    FEMNIST,
    FEMNIST_MLP,
    FIGURE_6,
    MNIST,
    MNIST_MLP,
    MORE_6,
    PRINTED_6,
    SYNTHETIC,
)
from papers.recipe import Setting
from papers.reproduction_marks import Results, figures_by_seed

PAPER = "FlexCFL"
PRINTED = {
    (cell.table, cell.setting.row, cell.column): cell.published
    for cell in (*CELLS_III, *CELLS_IV)
    if cell.published is not None
}
SETTINGS = {cell.setting.row: cell.setting for cell in (*CELLS_III, *CELLS_IV)}
BYTES = ("bytes_down", "bytes_up")  # between server and clients
OF_SERVERS = "bytes_servers"
CODED = "as FlexCFL's code has it"
OF_MNIST = (MNIST, MNIST_MLP, cnn_recipes.MNIST)
OF_FEMNIST = (FEMNIST, FEMNIST_MLP, cnn_recipes.FEMNIST)
OF_FASHION = (cnn_recipes.FASHION,)
RUN = (MNIST, MNIST_MLP, FEMNIST, FEMNIST_MLP, SYNTHETIC)


def printed_gap(table: str, row: str, column: str, other: str) -> float:
    """Points by which a table of the paper has a method ahead of another.

    Args:
        table: III or IV.
        row: of the table.
        column: the method.
        other: the method that it is compared with.
    """
    return PRINTED[table, row, column] - PRINTED[table, row, other]


def _gap(row: str, column: str, other: str, group: str = "", rule: Rule | None = None) -> Part:
    """A method's best accuracy minus another's, without a shift, or under the one that the row
    names; the rule is side and size of the printed difference where no other is given."""
    table = "IV" if ": " in row else "III"
    setting = SETTINGS[row]
    printed = printed_gap(table, row, column, other)
    return Part(
        label=short_name(row),
        rows=(row,),
        columns=(column, other),
        sample=lambda results: best_gap(results, table, setting, column, [other]),
        rule=rule or gain(printed),
        group=group,
        printed=printed,
        barred=reason_against(setting),
    )


def _like_ifca(setting: Setting) -> Part:
    printed = printed_gap("III", setting.row, "FlexCFL", "IFCA")
    return _gap(setting.row, "FlexCFL", "IFCA", rule=similar(printed))


def _over_first_client(setting: Setting, baseline: str) -> Part:
    """FlexCFL minus a baseline as FlexCFL's code runs it: a cluster's model is its first client's.
    The part judges nothing, because the text describes another mean."""
    return Part(
        label=short_name(setting.row),
        rows=(setting.row,),
        columns=("FlexCFL", f"{baseline}, first client"),
        sample=lambda results: best_gap(
            results, "III", setting, "FlexCFL", [f"{baseline}, first client"]
        ),
        rule=ABOVE,
        group=f"over {baseline} {CODED}",
        printed=printed_gap("III", setting.row, "FlexCFL", baseline),
    )


def _ratio(row: str, column: str, base: str, printed: float, servers: bool, label: str) -> Part:
    """Bytes of a method over those of another, in pairs of seeds (Fig. 6)."""
    setting = next(cell.setting for cell in FIGURE_6 if cell.setting.row == row)

    def sample(results: Results) -> Sample:
        ours = _bytes(results, row, column, servers)
        theirs = _bytes(results, row, base, servers)
        shared = sorted(ours.keys() & theirs.keys())
        return sample_of({seed: ours[seed] / theirs[seed] for seed in shared}, setting)

    return Part(
        label=label,
        rows=(row,),
        columns=(column, base),
        sample=sample,
        rule=ratio(printed),
        printed=printed,
        form=".2f",
        barred=reason_against(setting),
    )


def _times_fedavg(column: str) -> Part:
    row = "MNIST, swap all"
    label = f"{column}, times FedAvg's"
    return _ratio(row, column, "FedAvg", PRINTED_6[row, column], servers=False, label=label)


def _less_than_ifca_mig() -> Part:
    """FlexCFL's bytes minus IFCA-MIG's, as multiples of FedAvg's."""
    row = "MNIST, swap all"
    setting = next(cell.setting for cell in FIGURE_6 if cell.setting.row == row)

    def sample(results: Results) -> Sample:
        ours, theirs, base = (
            _bytes(results, row, column, servers=False)
            for column in ("FlexCFL", "IFCA-MIG", "FedAvg")
        )
        gaps = difference(ours, theirs)
        return sample_of({seed: gaps[seed] / base[seed] for seed in gaps if seed in base}, setting)

    return Part(
        label="FlexCFL minus IFCA-MIG",
        rows=(row,),
        columns=("FlexCFL", "IFCA-MIG", "FedAvg"),
        sample=sample,
        rule=BELOW,
        printed=PRINTED_6[row, "FlexCFL"] - PRINTED_6[row, "IFCA-MIG"],
        form="+.2f",
        barred=reason_against(setting),
    )


def _bytes(results: Results, row: str, column: str, servers: bool) -> BySeed:
    """Bytes of each seed; ``servers``: with those between the servers of groups."""
    names = (*BYTES, OF_SERVERS) if servers else BYTES
    ways = [figures_by_seed(results, "Fig. 6", row, column, figure=name) for name in names]
    shared = set.intersection(*(set(way) for way in ways))
    return {seed: sum(way[seed] for way in ways) for seed in shared}


CLAIMS = (
    Claim(
        paper=PAPER,
        where="abstract",
        quote=(
            f"can significantly improve absolute test accuracy by{SKIPPED}on FEMNIST compared to "
            "FedAvg"
        ),
        table="flexcfl-table3",
        measure="gain",
        parts=(
            *(_gap(s.row, "FlexCFL", "FedAvg", group="over FedAvg") for s in OF_FEMNIST),
            *(_gap(s.row, "FlexCFL", "FedProx", group="over FedProx") for s in OF_FASHION),
            *(_gap(s.row, "FlexCFL", "FeSEM", group="over FeSEM") for s in OF_MNIST),
        ),
        evidence="means of +10.6 here, +3.5 on FashionMNIST over FedProx, +8.4 on MNIST over FeSEM",
        shown=tuple(_over_first_client(setting, "FeSEM") for setting in (MNIST, MNIST_MLP)),
    ),
    Claim(
        paper=PAPER,
        where="6",
        quote=(
            f"FlexCFL significantly improved{SKIPPED}top-1 test accuracy on FEMNIST compared to "
            "FedSEM"
        ),
        table="flexcfl-table3",
        measure="gain over FeSEM",
        parts=tuple(_gap(setting.row, "FlexCFL", "FeSEM") for setting in OF_FEMNIST),
        shown=tuple(_over_first_client(setting, "FeSEM") for setting in (FEMNIST, FEMNIST_MLP)),
    ),
    Claim(
        paper=PAPER,
        where="1",
        quote="FlexCFL achieves performance improvements similar to IFCA",
        table="flexcfl-table3",
        measure="FlexCFL minus IFCA",
        parts=tuple(map(_like_ifca, (*OF_MNIST, *OF_FEMNIST, SYNTHETIC, *OF_FASHION))),
        shown=tuple(_over_first_client(setting, "IFCA") for setting in RUN),
    ),
    Claim(
        paper=PAPER,
        where="5.2",
        quote="The RAC strategy leads to a significant decrease in accuracy",
        table="flexcfl-table3",
        measure="RAC minus FlexCFL",
        parts=tuple(_gap(s.row, "RAC", "FlexCFL") for s in (*OF_MNIST, *OF_FEMNIST)),
    ),
    Claim(
        paper=PAPER,
        where="5.3",
        quote="leverage the client migration strategy to correct the mismatches",
        table="flexcfl-table4",
        measure="gain",
        parts=(
            *(
                _gap(f"{s.row}: swap all", "FlexCFL", "FedAvg", group="over FedAvg")
                for s in (*OF_MNIST, *OF_FEMNIST, *OF_FASHION)
            ),
            *(
                _gap(f"{s.row}: swap all", "FlexCFL", "FedGroup", "over FedGroup", rule=ABOVE)
                for s in RUN
            ),
        ),
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
        parts=tuple(_gap(f"{s.row}: swap part", "FlexCFL, eta_g 5", "FlexCFL") for s in OF_FEMNIST),
    ),
    Claim(
        paper=PAPER,
        where="5.3, Fig. 6",
        quote="FlexCFL is more efficient in communication",
        table="flexcfl-figure6",
        measure="bytes, times those of another; a newcomer's first model is not counted",
        parts=(
            _less_than_ifca_mig(),
            _times_fedavg("FlexCFL"),
            _times_fedavg("IFCA-MIG"),
            _ratio(
                row=MORE_6[0],
                column=MORE_6[1],
                base=MORE_6[2],
                printed=MORE_6[3],
                servers=True,
                label="FlexCFL, eta_g 5, times FlexCFL's",
            ),
        ),
    ),
)
