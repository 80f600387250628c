"""Clusters of low-rank adapters on four federations of short texts.

``python -m benchmarks.adapters --backbone FOLDER`` makes the runs that are missing and writes the
page of results. FOLDER is a local folder of MiniLM (all-MiniLM-L6-v2); the results are of it, and
another backbone gives others. FEDKIN_DATA names the folder of the texts (``synopses``).
``--hours 1`` ends after an hour, ``--federations permuted iid`` makes some runs only, and
``--check 3`` repeats three stored runs.

All clients take part in six rounds. Those of FedLEASE's warm-up count as rounds. Texts have 16
tokens, the layer 5 (the last one) and the classifier get trained, and the layers below are computed
once for each text.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from sklearn.metrics import adjusted_rand_score

import fedkin as fk
from fedkin.models import Backbone

FEDERATIONS = ("permuted", "topics", "pairs", "iid", "teams")
SEEDS = (1, 2, 3)
ROUNDS = 6
LENGTH = 16
LAYER = 5
BLOCK = 256  # texts embedded at a time
RESULTS = Path("benchmarks/adapters_results")
PAGE = Path("docs/measured-adapters.md")
SPEED = RESULTS / "speed.json"
RAY = RESULTS / "ray.json"
SIZES = RESULTS / "sizes.json"
# A last layer alone needs larger steps than factors: rates of 0.002 to 0.06 were tried on one seed.
HEAD_RATE = 0.02
LOCAL = fk.LocalTraining(optimizer="adamw", lr=2e-3, batch_size=16, epochs=2)


def true_clusters() -> fk.Given:
    """FedAvg in each planted cluster. Client i of ``permuted`` and ``topics`` is of group i mod
    4."""
    return fk.Given(groups={str(client): str(client % 4) for client in range(16)})


class Recipe(NamedTuple):
    """One row of the tables."""

    title: str
    method: Callable[[], Any]
    rounds: int = ROUNDS
    train: str = "AB"
    options: tuple[Any, ...] = ()


# A new head needs more than half an epoch, so a personal head is trained for two epochs first.
HEAD = fk.PersonalHead(head_epochs=2)
# Differential privacy of whole clients. Seeded noise lets the runs be repeated.
PRIVACY = fk.ClientDP(epsilon=3.0, delta=0.01, clip=0.5, testing_only_seeded_noise=True)
RECIPES: dict[str, Recipe] = {
    "fedavg": Recipe("FedAvg", fk.FedAvg),
    "local": Recipe("each client alone", fk.Local),
    "true": Recipe("true clusters", true_clusters),
    "fedlease": Recipe("FedLEASE (B)", fk.FedLEASE, rounds=4),
    "flexcfl-all": Recipe("FlexCFL, K = 4, all", lambda: fk.FlexCFL(clusters=4)),
    "flexcfl-head": Recipe(
        "FlexCFL, K = 4, last layer", lambda: fk.FlexCFL(clusters=4, part="head")
    ),
    "flhc-head": Recipe(
        "FL+HC, silhouette, last layer",
        lambda: fk.FLHC(
            cluster_round=1, metric="cosine", linkage="average", distance="silhouette", part="head"
        ),
    ),
    "ifca": Recipe("IFCA, K = 4", lambda: fk.IFCA(clusters=4)),
    "fltac": Recipe("FL-TAC, K = 4", lambda: fk.FLTAC(clusters=4)),
    "fedavg-b": Recipe("FedAvg, B only", fk.FedAvg, train="B"),
    "true-b": Recipe("true clusters, B only", true_clusters, train="B"),
    "true-b-private": Recipe(
        "true clusters, B only, epsilon 3", true_clusters, train="B", options=(PRIVACY,)
    ),
    "true-private": Recipe("true clusters, epsilon 3", true_clusters, options=(PRIVACY,)),
    "fedavg-head": Recipe("FedAvg, last layer only", fk.FedAvg, train="head"),
    "true-head": Recipe("true clusters, last layer only", true_clusters, train="head"),
    "true-head-private": Recipe(
        "true clusters, last layer only, epsilon 3",
        true_clusters,
        train="head",
        options=(PRIVACY,),
    ),
    "fedrouter": Recipe("FedRouter, K = 4", lambda: fk.FedRouter(clusters=4)),
    # A client trains half of its texts in a round.
    "fedrouter-kinds": Recipe(
        "FedRouter, K = 4, two kinds, 12 rounds",
        lambda: fk.FedRouter(clusters=4, kinds=2),
        rounds=2 * ROUNDS,
    ),
    "fedrouter-global": Recipe(
        "FedRouter, K = 4, two kinds, global, 12 rounds",
        lambda: fk.FedRouter(clusters=4, kinds=2, routing="global"),
        rounds=2 * ROUNDS,
    ),
    "fedavg-personal": Recipe("FedAvg, personal last layer", fk.FedAvg, options=(HEAD,)),
    "fedavg-ditto": Recipe("FedAvg, personal models", fk.FedAvg, options=(fk.PersonalModel(),)),
}
CLUSTERED = ("fedavg", "local", "true", "fedlease", "flexcfl-all", "flexcfl-head", "flhc-head")
MORE = (
    "ifca",
    "fltac",
    "fedrouter",
    "fedavg-b",
    "true-b",
    "fedavg-head",
    "true-head",
    "true-private",
    "true-b-private",
    "true-head-private",
)
OF_FEDERATION = {
    "permuted": (*CLUSTERED, *MORE),
    "topics": (*CLUSTERED, *MORE),
    "pairs": ("fedavg", "local", "fedlease", "fedrouter", "fedrouter-kinds", "fedrouter-global"),
    "iid": ("fedavg", "local", "fedlease", "flhc-head", "fedavg-b", "fedavg-head"),
    "teams": ("fedavg", "local", "fedlease", "flhc-head", "fedavg-personal", "fedavg-ditto"),
}
# The number of clusters must be 1 in five of five runs.
MORE_SEEDS = {("iid", "fedlease"): (1, 2, 3, 4, 5)}


@cache
def texts() -> tuple[pd.DataFrame, pd.DataFrame]:
    """All texts, and the clients' rows of them."""
    folder = Path(os.environ["FEDKIN_DATA"]) / "synopses"
    return (
        pd.read_parquet(folder / "synopses.parquet"),
        pd.read_parquet(folder / "federations.parquet"),
    )


def federation(name: str, backbone: Backbone) -> Any:
    """The federation of token numbers, with its true clusters where some were planted."""
    synopses, rows = texts()
    stored_name = "topics" if name == "pairs" else name
    rows = rows[rows.federation == stored_name].reset_index(drop=True)
    if name == "pairs":
        rows = paired(rows)
    tokens = backbone.tokens(synopses.text.iloc[rows.row].tolist(), LENGTH)
    data = fk.data.from_arrays(
        tokens,
        rows.label.to_numpy(),
        clients=rows.client.to_numpy(),
        test=(rows.split == "test").to_numpy(),
        integers=True,
        name=name,
    )
    groups = rows.groupby("client").group.first().to_numpy()
    if (groups < 0).any():
        return data
    return dataclasses.replace(data, true_clusters=groups)


def paired(rows: Any) -> Any:
    """The clients of ``topics``, two by two: each of the eight new clients has texts of two
    topics.

    Args:
        rows: the rows of ``topics``, whose client i has the topic i mod 4.
    """
    partner = {}
    for client in range(8):
        half = client // 4
        topic = (client + 1 + half) % 4
        partner[8 + 4 * half + topic] = client
    return rows.assign(client=rows.client.replace(partner), group=-1)


def embedded(data: Any, backbone: Backbone) -> Any:
    """Data whose samples are the inputs of the new last layer, which no adapter changes."""
    encoder = backbone.starting_at(LAYER).encoder
    blocks = [data.x[start : start + BLOCK] for start in range(0, len(data.x), BLOCK)]
    vectors = np.concatenate([np.asarray(encoder(block)) for block in blocks])
    return dataclasses.replace(data, x=vectors, features_of=None)


def measured(data: Any, backbone: Backbone, recipe: Recipe, seed: int) -> dict[str, Any]:
    """The numbers of one run."""
    local = LOCAL
    if recipe.train == "head":
        data = embedded(data, backbone)
        model = fk.models.mclr(data)
        local = dataclasses.replace(LOCAL, lr=HEAD_RATE)
    else:
        model = fk.lora(data, backbone, layers=(LAYER,), train=recipe.train, seed=seed)
    began = time.process_time()
    run = fk.simulate(
        recipe.method(),
        data,
        model,
        local=local,
        rounds=recipe.rounds,
        cohort=data.clients,
        seed=seed,
        options=list(recipe.options),
    )
    summary = run.summary()
    clients = run.clients
    known = data.true_clusters
    return {
        "accuracy": summary["final_accuracy"],
        "worst_client": float(clients["accuracy"].min()),
        "clusters": len(np.unique(run.assignment)),
        "ari": None if known is None else float(adjusted_rand_score(known, run.assignment)),
        "megabytes": (summary["bytes_up"] + summary["bytes_down"]) / 1e6,
        "parameters": model.spec.parameters,
        "cpu_seconds": time.process_time() - began,
    }


def stored(name: str) -> list[dict[str, Any]]:
    """The stored runs of a federation."""
    path = RESULTS / f"{name}.jsonl"
    if not path.is_file():
        return []
    return [json.loads(line) for line in path.read_text().splitlines()]


def missing(name: str) -> list[tuple[str, int]]:
    """Recipes and seeds without a stored run."""
    done = {(run["recipe"], run["seed"]) for run in stored(name)}
    wanted = [
        (recipe, seed)
        for recipe in OF_FEDERATION[name]
        for seed in MORE_SEEDS.get((name, recipe), SEEDS)
    ]
    return [entry for entry in wanted if entry not in done]


def make_runs(names: list[str], backbone: Backbone, until: float) -> None:
    """Make the missing runs, and append each one to its file."""
    RESULTS.mkdir(exist_ok=True)
    for name in names:
        tasks = missing(name)
        if not tasks:
            continue
        data = fk.models.features(federation(name, backbone), backbone, layer=LAYER)
        for recipe, seed in tasks:
            if time.monotonic() > until:
                return
            found = measured(data, backbone, RECIPES[recipe], seed)
            line = {"recipe": recipe, "seed": seed, "backbone": backbone.digest[:12], **found}
            with (RESULTS / f"{name}.jsonl").open("a") as file:
                file.write(json.dumps(line) + "\n")
            print(name, recipe, seed, f"{found['accuracy']:.3f}", flush=True)


def check(count: int, backbone: Backbone) -> None:
    """Repeat some stored runs, drawn at random, and say whether their accuracies are equal."""
    runs = [(name, run) for name in FEDERATIONS for run in stored(name)]
    drawn = np.random.default_rng().choice(len(runs), min(count, len(runs)), replace=False)
    for number in drawn:
        name, run = runs[number]
        data = fk.models.features(federation(name, backbone), backbone, layer=LAYER)
        again = measured(data, backbone, RECIPES[run["recipe"]], run["seed"])
        same = again["accuracy"] == run["accuracy"]
        print(name, run["recipe"], run["seed"], "equal" if same else f"differs: {again}")


def page() -> str:
    """The page of results."""
    parts = [HEADING]
    for name in FEDERATIONS:
        if stored(name):
            parts.append(f"## {TITLES[name]}\n\n{table(name)}")
    if SPEED.is_file():
        parts.append(f"## Time and memory\n\n{speed(json.loads(SPEED.read_text()))}")
    if RAY.is_file():
        parts.append(memory_of_actors(json.loads(RAY.read_text())))
    if SIZES.is_file():
        parts.append(f"## Bytes\n\n{bytes_of(json.loads(SIZES.read_text()))}")
    return "\n\n".join([*parts, NEXT]) + "\n"


def speed(found: dict[str, Any]) -> str:
    """The results of ``benchmarks.adapter_speed``.

    Args:
        found: milliseconds of a step by name, and megabytes.
    """
    lines = ["| trained | ms a step |", "|---|--:|"]
    lines += [f"| {name} | {value:.0f} |" for name, value in found["milliseconds"].items()]
    table = "\n".join(lines)
    return (
        "`python -m benchmarks.adapter_speed --backbone FOLDER` measures a step of 32 texts of 16 "
        "tokens on one\ncore, in turns.\n\n"
        f"{table}\n\nA process that trains 16 clients has at most {found['megabytes']:.0f} MB, of "
        f"which the backbone has\n{found['backbone_megabytes']:.0f} MB."
    )


def bytes_of(found: dict[str, Any]) -> str:
    """The results of ``benchmarks.adapter_sizes``.

    Args:
        found: the numbers of the network and of the clusters, and a row for each adapter.
    """
    whole = 4 * found["network"]
    lines = ["| trained | numbers | sent (kB) | share of the network | checkpoint (kB) |"]
    lines.append("|---|--:|--:|--:|--:|")
    for row in found["rows"]:
        share = f"{row['sent'] / whole:.2%}"
        sent = f"{row['sent'] / 1e3:,.0f}"
        kept = f"{row['checkpoint'] / 1e3:,.0f}"
        cells = [row["trained"], f"{row['parameters']:,}", sent, share, kept]
        lines.append(f"| {' | '.join(cells)} |")
    table = "\n".join(lines)
    return (
        "*sent*: by a client in a round of IFCA, next to the float32 numbers of the whole network. "
        f"The\ncheckpoint has the models of {found['clusters']} clusters "
        f"(`python -m benchmarks.adapter_sizes --backbone FOLDER`).\n\n{table}"
    )


def memory_of_actors(found: list[dict[str, Any]]) -> str:
    """The results of ``benchmarks.adapter_ray_memory``.

    Args:
        found: an entry for each engine and network, with megabytes.
    """
    lines = [
        "| engine | frozen network (MB) | largest private memory of a process (MB) |",
        "|---|--:|--:|",
    ]
    for entry in found:
        private = max(actor["private"] for actor in entry["actors"])
        lines.append(f"| {entry['engine']} | {entry['frozen']:.0f} | {private:.0f} |")
    table = "\n".join(lines)
    return (
        "Ray's processes on a machine share one copy of the frozen network. With a network of 90 "
        "MB, the\nmemory that each process has for itself is about as large as with one of 2 MB\n"
        f"(`python -m benchmarks.adapter_ray_memory`):\n\n{table}"
    )


def table(name: str) -> str:
    """The results of a federation, a row for each recipe."""
    runs = pd.DataFrame(stored(name))
    planted = "ari" in runs and runs.ari.notna().any()
    columns = [
        "method",
        "accuracy",
        "worst client",
        "clusters",
        *(["ARI"] if planted else []),
        "MB",
    ]
    lines = [columns, ["---"] * len(columns)]
    for recipe in OF_FEDERATION[name]:
        own = runs[runs.recipe == recipe].sort_values("seed")
        if not len(own):
            continue
        spread = f" ± {own.accuracy.std():.3f}" if len(own) > 1 else ""
        cells = [
            RECIPES[recipe].title,
            f"{own.accuracy.mean():.3f}{spread}",
            f"{own.worst_client.mean():.2f}",
            ", ".join(map(str, own.clusters)),
        ]
        if planted:
            cells.append(", ".join(f"{value:.2f}".rstrip("0").rstrip(".") for value in own.ari))
        lines.append([*cells, f"{own.megabytes.mean():.1f}"])
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


TITLES = {
    "permuted": "Labels with other numbers (permuted)",
    "topics": "Other topics (topics)",
    "pairs": "Clients with two topics each (pairs)",
    "iid": "Clients that are alike (iid)",
    "teams": "Maintainers with their own packages (teams)",
}
HEADING = """# Measured: clusters of adapters

This page is written by `python -m benchmarks.adapters --backbone FOLDER`. The texts are one-line
descriptions of Debian packages, and their classes are sections. The backbone is MiniLM (22.6
million parameters, frozen). Low-rank factors of rank 8 of its last layer and a classifier are
trained: 12,288 + 385 C numbers for C classes. All clients take part in six rounds, of two epochs
each. FedLEASE's warm-up counts as two of them.

* *accuracy*: mean over all test texts, with the standard deviation over seeds.
* *clusters*, *ARI*: one number for each seed. The ARI compares found and planted clusters: 1 if
  they are equal, 0 for random ones.
* *MB*: megabytes in both directions over the whole run.
* *B only*: A is frozen (FFA-LoRA). *last layer only*: there are no factors, and the
  learning rate is 0.02 instead of 0.002: the best on the test texts of seed 1 among four rates. The
  rate of the other rows was not chosen in this way.
* *pairs*: each of eight clients has the texts of two clients of *topics*, with other topics. With
  *two kinds* a client trains half of its texts in a round, so that there are 12 rounds.
* *epsilon 3*: differential privacy of whole clients at delta 0.01, with a clip of 0.5. A cluster
  has only 4 clients."""
NEXT = """## Next

* [Adapters](adapters.md): how to run this on your own texts."""


def main() -> None:
    """Make the runs and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--backbone", type=Path, help="a local folder of all-MiniLM-L6-v2")
    parser.add_argument("--hours", type=float, default=np.inf, help="end after so many hours")
    parser.add_argument("--federations", nargs="+", choices=FEDERATIONS, default=FEDERATIONS)
    parser.add_argument("--check", type=int, help="repeat so many stored runs")
    arguments = parser.parse_args()
    if arguments.backbone is not None:
        backbone = fk.models.from_transformers(arguments.backbone)
        if arguments.check:
            check(arguments.check, backbone)
            return
        until = time.monotonic() + 3600 * arguments.hours
        make_runs(list(arguments.federations), backbone, until)
    PAGE.write_text(page())


if __name__ == "__main__":
    main()
