"""docs/benchmarks.md, written from the measurements."""

from __future__ import annotations

import os
import platform
from importlib.metadata import version
from pathlib import Path

import numpy as np

from benchmarks.clustering import MADC_SMALL
from benchmarks.start import PLACE as OF_START
from benchmarks.tables import table_in
from benchmarks.torch_world import NETWORKS
from benchmarks.turns import EPOCHS, Times
from benchmarks.work import BATCH, clients, flops_per_sample, steps

AIMS = {
    ("784-10", "PyTorch"): 7.0,
    ("784-128-10", "PyTorch"): 3.0,
    ("CNN", "PyTorch"): 2.0,
    ("784-10", "NumPy"): 1.2,
    ("784-10", "Flower"): 4.0,
}


def quickest(times: Times, kind: str) -> str:
    """The engine of a kind with the smaller median: PyTorch is given the number of threads that
    suits it."""
    return min(
        (name for name in times if name.startswith(kind)), key=lambda name: np.median(times[name])
    )


def ratio(times: Times, peer: str) -> str:
    """The peer's time divided by fedkin's: median of the turns' ratios, and their quartiles."""
    low, middle, high = np.percentile(times[peer] / times["fedkin"], [25, 50, 75])
    return f"**{middle:.1f}** ({low:.1f}-{high:.1f})"


def training_rows(model: str, times: Times) -> list[str]:
    """One table row per engine that fedkin is compared with."""
    rows = []
    for kind in ("PyTorch", "NumPy", "Flower"):
        if any(name.startswith(kind) for name in times):
            peer = quickest(times, kind)
            seconds = f"{np.median(times['fedkin']):.3f} | {np.median(times[peer]):.3f}"
            rows.append(
                f"| {model} | {peer} | {seconds} | {ratio(times, peer)} | {AIMS[model, kind]:g} |"
            )
    return rows


def gflops(model: str, times: Times) -> float:
    """Achieved by fedkin in local training."""
    return (
        1e-9
        * flops_per_sample(model)
        * EPOCHS[model]
        * clients(20).sizes.sum()
        / float(np.median(times["fedkin"]))
    )


def processor() -> str:
    """The name of the processor."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def machine(flower: bool) -> str:
    """Processor, system and versions."""
    versions = [f"{package} {version(package)}" for package in ("jax", "jaxlib", "numpy", "torch")]
    versions += ["flwr 1.41.0"] if flower else []
    where = f"{processor()}, {os.cpu_count()} logical cores, {platform.system()}"
    return f"{where}; Python {platform.python_version()}, {', '.join(versions)}."


PAGE = """# Benchmarks

How fast is a round in fedkin, compared with other frameworks and with what the machine allows? \
The engines take turns on the same
work, so only the ratios can be compared. The comment above a table names the command that \
writes it. `make bench` writes all others.

{machine}

## A round of 20 clients

FedAvg with 1,000 clients of 60 samples in the mean, cohorts of 20, one local epoch in batches \
of 10, no evaluation.

* The first row has fedkin's seconds. Its last cell has the clock and the machine. On the clock \
of the cores the threads of a
  process count together, and PyTorch has one.
* The other rows have the framework's seconds divided by fedkin's: the median of the turns, and \
their range. Above 1, fedkin is faster.
* fedkin's rounds write their records, count bytes and can be resumed to the bit. With one epoch \
this is a large part of a round, and
  [with more epochs](#local-training) a small one.

<!-- {of_frameworks} -->
{frameworks}
The networks have 7,850, 101,770, 407,050, 50,186 and 325,578 parameters. The first three \
rounds, which also compile, are left
out. Flower's job of this size did not end within 200 seconds; \
[local training](#local-training) compares a smaller one.

## Many clients

![seconds of a round by the number of clients](images/benchmark-clients.svg)

`python -m benchmarks.clients_curve` measures and draws this figure. [Many \
clients](many-clients.md) has memory and files.

## Speed relative to the machine

![share of the machine's speed](images/benchmark-peak.svg)

`python -m benchmarks.peak_figure` draws this figure from the tables of three networks and of \
the measures.

A 2048 x 2048 float32 matrix product in the same run: JAX {jax:.0f}, NumPy {numpy:.0f} GFLOP/s. \
Only the multiply-adds of the
layers are counted.

<!-- {of_networks} -->
| model | GFLOP/s in local training | share of the faster matrix product |
|---|---|---|
{speed}

The convolutional networks of FlexCFL's authors, with five epochs in batches of 10, and the \
product in turns:

<!-- {of_convolutions} -->
{convolutions}
CNN is in both tables. In the first one the product ran at another time than the training, when \
the machine may have been slower or
faster. In the second they took turns, so its share is the one to believe.

Rounds copy and average the models, too. \
[Other forms](design/compiled-training.md) of the convolutions were tried without success.

The convolutions alone, on one core, as shares of a matrix product on that core:

<!-- {of_layers} -->
{layers}
The row *all* bounds the share of a step, which also has dense layers, and batches \
that are not full.
In FashionMNIST's CNN most of a step is the dense layer of 3.2 million weights, which are read and \
written in every step.

The measures of clustering on one core. A bound is what the core allows: the speed of a large \
matrix product in float64, or of
reading memory. MADC has no products, so its bound is half as many operations.

<!-- {of_rooflines} -->
{rooflines}
* **EDC** computes the inner products of 100 updates of 3.3 million parameters. Most of its time \
is the matrix product itself.
  The library reaches this share in a product with only 100 rows. A part goes into the \
conversion to float64.
* **MADC** compares 1,000 clients. SciPy subtracts and adds one number at a time, and the last \
row has the bound for that. Another
  order of the sums would be faster, and would change their last bits.

## Local training

One round of 20 clients. Their sizes are log-normal: {smallest} to {largest}, mean {mean:g}. \
They train with batches of {batch}
for {epochs} epochs ({steps:,} steps), and the CNN (two convolutions, 50,186 parameters) \
for {cnn_epochs} epochs.

The table has the median seconds of a round. \
The ratio is the other engine's time divided by fedkin's: the median of
{turns} ratios, and their quartiles. PyTorch runs with 1 thread and with its default. \
The faster run is shown.

| model | compared with | fedkin (s) | other (s) | ratio | aim |
|---|---|---|---|---|---|
{rows}

Flower runs 100 NumPy clients, 20 a round, without evaluation. \
The first two rounds of each job are left out.

## A PyTorch model

The same round of the same clients in fedkin's PyTorch world. \
It trains an `nn.Module` unchanged, one client after another
on one thread.

| model | compared with | compiled (s) | PyTorch (s) | ratio | aim |
|---|---|---|---|---|---|
{torch_world}

## Start

How long does a user wait for the first result? Each work is a new process. \
The run is `fedkin run --rounds 20`: FedGroup and
FedAvg on digits, until the table of results is shown. \
Programs are compiled in the first run and kept on disk. Processor seconds
are those of the whole process. Only their ratio applies to other machines.

<!-- python -m benchmarks.start --write -->
{start}
## Evaluation

| work | time | share of a training round |
|---|---|---|
| training a round of 20 of 1,000 MNIST-shaped clients | {train:.1f} ms | |
| scoring all 1,000 clients | {score:.1f} ms | **{share:.1f} %** (aim: below 10 %) |
| scoring a sample of 300 (`run.evaluate_clients = 300`) | {some:.1f} ms | **{part:.1f} %** |
| lower bound: the matrix product of all test samples with the model | {product:.1f} ms \
| {floor:.1f} % |

The convolutional networks of FlexCFL's authors, with as many clients as in their paper, \
cohorts of 20 and ten epochs. After a
run of more than a minute, `fedkin run` suggests the sample with which scoring takes about 5 % \
of the time of training:

<!-- {of_scoring} -->
{convolutional_scoring}
## Clustering

| work | compared with | ours (s) | other (s) | ratio | aim |
|---|---|---|---|---|---|
{clustering}

* EDC and its product of matrices: 100 clients of 3.3 million parameters, float32. \
EDC computes its product in float64. With
  updates in float64 the product takes {precise:.2f} times as long as in float32.
* The plain MADC holds four arrays of N x N x N numbers, so it is compared at {few} clients. \
For 1,000 clients ours takes
  {madc:.2f} s.
* IFCA: 20 clients of 600 samples choose among three models 784-128-10.
* The label-blind shift test of 10,000 clients takes {blind:.1f} ms, \
and the label-aware one {aware:.1f} ms (aim: below 100 ms).
* FedSim and FedAvg: 20 of 1,000 MNIST-shaped clients, 20 epochs, five clusters, without scoring.
* Principal components: 20 gradients of 407,050 parameters, 95% of the variance.
* PANM: 100 peers of 50 samples, 784-128-10, one epoch, ten candidates, five neighbours, \
by gradients.

## ATHENA-FL's networks

| work | compared with | ours (s) | other (s) | ratio | aim |
|---|---|---|---|---|---|
{networks}

A local epoch of one client: 320 images of 32 x 32 x 3 in batches of 32, on one core. \
PyTorch has one thread. Ten
detectors share the images and the windows of the first convolution. \
The other layers cost the same either way.

## Next

* [What each method costs](benchmarks-methods.md): clients a second of every method.
* [Many clients](many-clients.md) and [a GPU](gpu.md): the speed of larger federations.
"""


# Comments above tables that other commands write, or that the figure reads.
OF_FRAMEWORKS = "python -m benchmarks.frameworks --only-page"
OF_NETWORKS = "share of the machine, by network"
OF_ROOFLINES = "python -m benchmarks.rooflines --write"
OF_CONVOLUTIONS = "python -m benchmarks.convolutions --write"
OF_SCORING = "python -m benchmarks.scoring --write"
OF_LAYERS = "python -m benchmarks.convolution_layers --write"


def clustering_rows(edc: Times, madc: Times, choice: Times) -> list[str]:
    """One table row per comparison; the ratio is other / ours for MADC, ours / other for the rest.

    Args:
        edc: times of EDC and of the Gram matrix, in float32 and in float64.
        madc: times of MADC and of its plain form.
        choice: times of IFCA's choice and of K forward passes.
    """
    return [
        row(
            work="EDC",
            compared_with="X X^T",
            ours=edc["EDC"],
            other=edc["Gram"],
            aim="ours / other: at most 2",
            times=edc["EDC"] / edc["Gram"],
        ),
        row(
            work="MADC",
            compared_with="NumPy, as written",
            ours=madc["MADC"],
            other=madc["plain"],
            aim="other / ours: at least 50",
            times=madc["plain"] / madc["MADC"],
        ),
        row(
            work="IFCA's choice",
            compared_with="K forward passes",
            ours=choice["choice"],
            other=choice["K passes"],
            aim="ours / other: at most 1",
            times=choice["choice"] / choice["K passes"],
        ),
    ]


def fedsim_rows(rounds: Times, components: Times) -> list[str]:
    """A round of FedSim over one of FedAvg; scikit-learn's full decomposition over ours."""
    sim = rounds["FedSim"]
    avg = rounds["FedAvg"]
    ours = components["Gram"]
    full = components["full SVD"]
    return [
        row(
            work="FedSim's round",
            compared_with="FedAvg's",
            ours=sim,
            other=avg,
            aim="ours / other: at most 1.15",
            times=sim / avg,
        ),
        row(
            work="principal components",
            compared_with="scikit-learn, full SVD",
            ours=ours,
            other=full,
            aim="other / ours: at least 5",
            times=full / ours,
        ),
    ]


def panm_row(times: Times) -> str:
    """A round of PANM over the peers' training."""
    ours = times["PANM"]
    training = times["training"]
    return row(
        work="PANM's round",
        compared_with="its local training",
        ours=ours,
        other=training,
        aim="ours / other: at most 1.5",
        times=ours / training,
    )


def network_rows(mobilenet: Times, detectors: Times) -> list[str]:
    """MobileNetV2 over PyTorch's; ten detectors in a call each over all in one."""
    ours = mobilenet["fedkin"]
    torch = mobilenet[quickest(mobilenet, "PyTorch")]
    both = detectors["together"]
    single = detectors["one by one"]
    return [
        row(
            work="MobileNetV2",
            compared_with="PyTorch",
            ours=ours,
            other=torch,
            aim="ours / other: at most 1.5",
            times=ours / torch,
        ),
        row(
            work="ten detectors together",
            compared_with="one by one",
            ours=both,
            other=single,
            aim="other / ours: at least 3",
            times=single / both,
        ),
    ]


def torch_world_rows(times: dict[str, Times]) -> list[str]:
    """A round in the PyTorch world over the same round in the simulator, by network."""
    rows = []
    for name in NETWORKS:
        pytorch, compiled = (
            times[f"torch world, {name}"][world] for world in ("PyTorch world", "fedkin")
        )
        rows.append(
            row(
                work=name,
                compared_with="PyTorch world",
                ours=compiled,
                other=pytorch,
                aim="none",
                times=pytorch / compiled,
            )
        )
    return rows


def row(
    work: str, compared_with: str, ours: np.ndarray, other: np.ndarray, aim: str, times: np.ndarray
) -> str:
    """One row of the table of comparisons.

    Args:
        work: the measured computation.
        compared_with: the other computation.
        ours: seconds of each turn.
        other: seconds of each turn.
        aim: for the ratio.
        times: the ratio of each turn.
    """
    low, middle, high = np.percentile(times, [25, 50, 75])
    seconds = f"{np.median(ours):.3g} | {np.median(other):.3g}"
    ratio = f"**{middle:.2f}** ({low:.2f}-{high:.2f})"
    return f"| {work} | {compared_with} | {seconds} | {ratio} | {aim} |"


def page(
    training: dict[str, Times],
    flower: Times | None,
    scoring: Times,
    peak: dict[str, float],
    clustering: dict[str, Times],
    turns: int,
    old: Path,
) -> str:
    """The text of docs/benchmarks.md. Tables of other commands are those of the old page.

    Args:
        training: times of local training by model.
        flower: times of fedkin and of Flower; None: not measured.
        scoring: times of evaluation and training.
        peak: GFLOP/s of a matrix product.
        clustering: times of all other comparisons.
        turns: number of measurements of each engine.
        old: the page before.
    """
    sizes = clients(20).sizes
    best = max(peak.values())
    rows = [row for model, times in training.items() for row in training_rows(model, times)]
    rows += training_rows("784-10", flower) if flower else []
    names = (
        "training a round",
        "evaluating 1,000 clients",
        "evaluating 300 of them",
        "their product",
    )
    train, score, sampled, product = (1000 * float(np.median(scoring[name])) for name in names)
    comparisons = clustering_rows(clustering["edc"], clustering["madc"], clustering["choice"])
    comparisons += fedsim_rows(clustering["fedsim"], clustering["components"])
    comparisons.append(panm_row(clustering["panm"]))
    shift = {name: 1000 * float(np.median(times)) for name, times in clustering["shift"].items()}
    speed = [
        f"| {m} | {gflops(m, t):.1f} | {100 * gflops(m, t) / best:.0f} % |"
        for m, t in training.items()
    ]
    return PAGE.format(
        machine=machine(flower is not None),
        of_frameworks=OF_FRAMEWORKS,
        of_networks=OF_NETWORKS,
        of_convolutions=OF_CONVOLUTIONS,
        of_layers=OF_LAYERS,
        of_rooflines=OF_ROOFLINES,
        frameworks=table_in(old, OF_FRAMEWORKS),
        convolutions=table_in(old, OF_CONVOLUTIONS),
        layers=table_in(old, OF_LAYERS),
        rooflines=table_in(old, OF_ROOFLINES),
        smallest=sizes.min(),
        largest=sizes.max(),
        mean=sizes.mean(),
        batch=BATCH,
        turns=turns,
        epochs=EPOCHS["784-10"],
        steps=steps(sizes, EPOCHS["784-10"]),
        cnn_epochs=EPOCHS["CNN"],
        torch_world="\n".join(torch_world_rows(clustering)),
        start=table_in(old, OF_START),
        of_scoring=OF_SCORING,
        convolutional_scoring=table_in(old, OF_SCORING),
        rows="\n".join(rows),
        speed="\n".join(speed),
        jax=peak["JAX"],
        numpy=peak["NumPy"],
        clustering="\n".join(comparisons),
        few=MADC_SMALL,
        madc=np.median(clustering["madc_1000"]["MADC"]),
        precise=np.median(clustering["edc"]["Gram in float64"] / clustering["edc"]["Gram"]),
        networks="\n".join(network_rows(clustering["mobilenet"], clustering["detectors"])),
        blind=shift["label_blind"],
        aware=shift["label_aware"],
        score=score,
        train=train,
        share=100 * score / train,
        some=sampled,
        part=100 * sampled / train,
        product=product,
        floor=100 * product / train,
    )
