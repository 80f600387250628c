"""docs/benchmark-attacks.md and docs/benchmark-attacks-grid.md, written from the store."""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import mean
from typing import Any

from fedkin.core.storage import write_atomic
from papers.result_store import read
from papers.tables_markdown import markdown
from papers.trust.cells import (
    BEST,
    CLAIM,
    CLUSTERING,
    FEDERATIONS,
    METHODS,
    MINORITY_ATTACKS,
    NONE,
    RECIPE,
    RULES,
    SEEDS,
    SHARE,
    SPLIT,
    SUITE,
    TRIED,
    TRIED_AGAINST,
    Cell,
)
from papers.trust.runs import jobs

Runs = dict[Cell, list[dict[str, Any]]]
NAMES = {
    "flhc": "FL+HC, cut by the silhouette",
    "true": "true clusters (ceiling)",
    "ifca": "IFCA, K = 4",
    "flexcfl": "FlexCFL, K = 4",
    "flexcfl8": "FlexCFL, K = 8",
    "fedavg": "FedAvg",
}


def write(store: Path, docs: Path) -> None:
    """Write both pages. Stored runs of other settings are named on standard error.

    Args:
        store: of the runs.
        docs: the folder of the documentation.
    """
    stored = read(store, jobs())
    for words in stored.left_out():
        print(f"left out: {words}", file=sys.stderr)
    runs = by_cell(stored.runs)
    write_atomic(docs / "benchmark-attacks.md", page(runs))
    write_atomic(docs / "benchmark-attacks-grid.md", grid_page(runs))


def by_cell(lines: Iterable[dict[str, Any]]) -> Runs:
    """The runs of each cell that were not refused, by seed."""
    runs: Runs = defaultdict(list)
    for line in sorted(lines, key=lambda line: line["seed"]):
        if "accuracy" in line:
            runs[Cell(*(line[name] for name in ("federation", "method", "rule", "attack")))].append(
                line
            )
    return runs


def page(runs: Runs) -> str:
    """The page of the best recipe, of its parts and of attacks on the clustering, as Markdown."""
    parts = [HEAD, status(runs)]
    for name, federation in FEDERATIONS.items():
        attacks = MINORITY_ATTACKS if name == "minority" else SUITE
        parts += [f"## Best recipe: {federation.about}", recipe(runs, name, RECIPE, attacks)]
        parts += [SPLITTING, recipe(runs, name, SPLIT, attacks)]
    parts += ["## What was tried against attackers at random?", WAS_TRIED, tried(runs)]
    parts += ["## Attacks on the clustering", ON_CLUSTERING, clustering(runs)]
    parts.append(NEXT)
    return "\n\n".join(part for part in parts if part) + "\n"


def grid_page(runs: Runs) -> str:
    """The page of every rule under every attack with every method, as Markdown."""
    parts = [GRID_HEAD]
    for name in ("even", "random"):
        parts += [f"## {FEDERATIONS[name].about.capitalize()}", grid(runs, name)]
    parts.append(GRID_NEXT)
    return "\n\n".join(parts) + "\n"


def status(runs: Runs) -> str:
    """A sentence: the number of cells with all seeds."""
    whole = sum(len(lines) == len(SEEDS) for lines in runs.values())
    total = len(jobs())
    return (
        f"**{whole} of {total} cells have all {len(SEEDS)} seeds.** A cell with fewer seeds says "
        "how many it has (n)."
    )


def shown(lines: Sequence[dict[str, Any]], column: str = "accuracy", digits: int = 3) -> str:
    """The mean over the seeds, with their number if it is lower than planned; a dash without
    values."""
    values = [line[column] for line in lines if line.get(column) is not None]
    if not values:
        return "-"
    few = f" (n = {len(lines)})" if len(lines) < len(SEEDS) else ""
    return f"{mean(values):.{digits}f}{few}"


def lowest(lines: Sequence[dict[str, Any]]) -> str:
    """The accuracy of the worst seed."""
    return f"{min(line['accuracy'] for line in lines):.3f}" if lines else "-"


def recipe(runs: Runs, federation: str, rule: str, attacks: Sequence[str]) -> str:
    """A line that sums up a recipe, and its figures under each attack."""
    rows = []
    attacks_run = [a for a in attacks if runs.get(Cell(federation, BEST, rule, a))]
    for attack in [NONE, *attacks]:
        lines = runs.get(Cell(federation, BEST, rule, attack), [])
        if lines:
            columns = [shown(lines, name, 2) for name in ("ari", "alone", "suspected")]
            figures = [
                shown(lines),
                lowest(lines),
                shown(lines, "worst_kind"),
                shown(lines, "bottom_decile"),
            ]
            rows.append([attack, *figures, *columns])
    if not rows:
        return "No runs yet."
    heads = [
        "attack",
        "accuracy",
        "worst seed",
        "worst kind",
        "bottom 10%",
        "ARI",
        "attackers alone",
        "suspected",
    ]
    words = summary(runs=runs, federation=federation, method=BEST, rule=rule, attacks=attacks_run)
    return f"{words}\n\n{markdown(heads, rows)}"


def summary(runs: Runs, federation: str, method: str, rule: str, attacks: Sequence[str]) -> str:
    """A line: the worst attack, the mean over attacks, and the price of the rule without one."""
    if not attacks:
        return ""
    cells = {a: runs[Cell(federation, method, rule, a)] for a in attacks}
    accuracy = {a: mean(line["accuracy"] for line in lines) for a, lines in cells.items()}
    worst = min(accuracy, key=lambda a: accuracy[a])
    many = f"{len(attacks)} attacks without disguise or lie"
    line = f"Worst {accuracy[worst]:.3f} ({worst}), mean {mean(accuracy.values()):.3f} over {many}"
    line += f", lowest ARI {min(run['ari'] for lines in cells.values() for run in lines):.2f}"
    plain, ruled = (runs.get(Cell(federation, method, r, NONE), []) for r in ("mean", rule))
    if plain and ruled:
        price = mean(run["accuracy"] for run in plain) - mean(run["accuracy"] for run in ruled)
        line += f"; price without attack {price:+.3f}"
    return f"{line}."


def tried(runs: Runs) -> str:
    """Accuracy, and accuracy of the worst seed, of the recipe's parts and of the alternatives."""
    rows = []
    for rule in TRIED:
        cells = [runs.get(Cell("random", BEST, rule, a), []) for a in TRIED_AGAINST]
        texts = [f"{shown(lines)} / {lowest(lines)}" if lines else "" for lines in cells]
        rows.append([rule, *texts])
    return markdown(["rule", *TRIED_AGAINST], rows)


def grid(runs: Runs, federation: str) -> str:
    """Accuracy of honest clients for every method and rule under each attack of the claim, with
    the worst and the mean."""
    rows = []
    for rule in list(RULES)[:5]:
        for method in METHODS:
            cells = [runs.get(Cell(federation, method, rule, a), []) for a in (NONE, *CLAIM)]
            if sum(map(len, cells)) >= len(cells) // 2:
                means = [mean(line["accuracy"] for line in lines) for lines in cells[1:] if lines]
                ends = [f"{min(means):.3f}", f"{mean(means):.3f}"] if all(cells[1:]) else ["-", "-"]
                rows.append([NAMES[method], rule, *map(shown, cells), *ends])
    if not rows:
        return "No runs yet."
    return markdown(["method", "rule", NONE, *CLAIM, "worst", "mean"], rows)


def three_figures(lines: list[dict[str, Any]]) -> str:
    """Accuracy, ARI and share of attackers alone; empty without runs."""
    if not lines:
        return ""
    return " / ".join([shown(lines), shown(lines, "ari", 2), shown(lines, "alone", 2)])


def clustering(runs: Runs) -> str:
    """Accuracy, ARI and share of attackers alone under attacks on the clustering."""
    columns: list[tuple[str, str]] = [(m, r) for m in METHODS for r in (RECIPE, SPLIT, "mean")]
    columns = [c for c in columns if any(runs.get(Cell("even", *c, a)) for a in CLUSTERING)]
    rows = [
        [a, *(three_figures(runs.get(Cell("even", *c, a), [])) for c in columns)]
        for a in CLUSTERING
    ]
    doors = [
        [a, *(shown(runs.get(Cell("even", *c, a), []), "backdoor") for c in columns)]
        for a in CLUSTERING
        if a.startswith("backdoor")
    ]
    heads = [f"{NAMES[m]}; {r}" for m, r in columns]
    return "\n\n".join(
        [markdown(["attack", *heads], rows), BACKDOOR, markdown(["attack", *heads], doors)]
    )


HEAD = f"""# Clients that attack, measured

How well do robust rules protect clustered methods? \
[Clients that attack](robustness.md) describes the rules and the
attacks. `python -m papers.trust` writes this page and [the grid of all rules, attacks and methods]\
(benchmark-attacks-grid.md)
from `papers/results/trust.jsonl`. `python -m papers.trust --hours 1` first runs missing cells, \
the most informative ones
first.

**Setting.** MNIST in four rotations (*kinds*), 100 clients with 60 samples each. \
The model is softmax regression, trained
with five local epochs of SGD (batch 10, lr 0.05) for 30 rounds, with {len(SEEDS)} seeds. \
{SHARE:.0%} of the clients are
Byzantine and know the honest updates of their model.

| attack | meaning |
|---|---|
| `ipm@2` | sleepers: they attack from the round after the clustering on |
| `blob>ipm@2` | sleepers that are disguised before they attack |
| `sizes:ipm` | attackers that also lie, here about their sizes |

**Figures.** All figures are of honest clients, after the last round:

| column | meaning |
|---|---|
| accuracy | mean accuracy over the clients |
| worst seed | the lowest accuracy over the seeds |
| worst kind | accuracy of the kind with the lowest accuracy |
| bottom 10% | accuracy of the bottom 10% of clients |
| ARI | agreement of the clusters with the kinds |
| attackers alone | share of attackers in clusters without honest clients |
| suspected | share of honest clients with less than half of the weight that a mean gives; \
no client is excluded |

**Rules.** The best recipe is FL+HC, cut by the silhouette in round 1, \
with `rule = "{RECIPE}"`,
`byzantine = 0.45`, `least = 3` and `memory = 10`. \
All other rules are told 0.3, the share of attackers of all clients.
Rows with `told` name another share. \
If attackers are spread at random, up to 0.4 of a kind attack.

**Not measured:** other shares of attackers, and kinds with different labels at their clients."""
NEXT = """## Next

* [All rules, attacks and methods](benchmark-attacks-grid.md): the grid of this benchmark.
* [Clients that attack](robustness.md): how to use the rules."""
GRID_HEAD = f"""# Clients that attack: all rules, attacks and methods

Mean accuracy of honest clients after the last round. \
[Clients that attack, measured](benchmark-attacks.md) describes
the setting, the attacks and the best recipe. `true clusters` is the ceiling: \
the clusters cannot be attacked, and
attackers are never alone. The last two columns are the worst and the mean over the attacks. \
A cell with fewer than
{len(SEEDS)} seeds says how many it has (n)."""
GRID_NEXT = """## Next

* [The best recipe, and attacks on the clustering](benchmark-attacks.md).
* [Clients that attack](robustness.md): how to use the rules."""
SPLITTING = (
    "The same recipe with `split_after = 2`: a client leaves its cluster if the rule leaves it out "
    "in two consecutive rounds of the client. It leaves together with the clients that leave at "
    "that time."
)
WAS_TRIED = (
    "FL+HC, cut by the silhouette: accuracy of honest clients / worst seed. `memory`: the last "
    "updates of ten rounds count. `majority`: groups that point away are left out. `least 10`: a "
    "cluster with fewer replies keeps its model."
)
ON_CLUSTERING = (
    "Accuracy / ARI / share of attackers alone. The attackers are spread evenly over the kinds."
)
BACKDOOR = (
    "Backdoors: the share of images of other classes with the trigger that honest clients' models "
    "classify as 0."
)
