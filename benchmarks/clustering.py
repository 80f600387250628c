"""Time the server's clustering and a client's choice of a cluster against plain implementations."""

from __future__ import annotations

import numpy as np

from benchmarks.measure import simulated
from benchmarks.turns import Times, take_turns
from benchmarks.work import clients
from fedkin.measures.cosine import cosine
from fedkin.measures.edc import edc_embedding
from fedkin.measures.madc import madc
from fedkin.simulation.fake_world import FakeWorld
from fedkin.tasks.evaluate import evaluate
from fedkin.tasks.losses import Losses
from fedkin.tasks.shift import Shifted

MADC_SMALL = 500  # clients: the plain form holds four arrays of N x N x N numbers


def edc(turns: int) -> Times:
    """100 clients of 3.3 million parameters: the embedding, one product of the updates with
    themselves, and the same of updates that are in float64 already, in which the embedding
    computes."""
    updates = np.random.default_rng(0).standard_normal((100, 3_300_000), np.float32)
    precise = updates.astype(np.float64)
    calls = {
        "EDC": lambda _: edc_embedding(updates, 5),
        "Gram": lambda _: updates @ updates.T,
        "Gram in float64": lambda _: precise @ precise.T,
    }
    return take_turns(calls, turns, 1)


def similarity(count: int) -> np.ndarray:
    """Cosines of random updates."""
    updates = np.random.default_rng(0).standard_normal((count, 200), np.float32)
    return cosine(updates, updates).astype(np.float64)


def plain_madc(s: np.ndarray) -> np.ndarray:
    """Eq. 6 as written in the paper: all triples at once."""
    n = len(s)
    left = np.repeat(s[:, None], n, axis=1)
    right = np.repeat(s[None], n, axis=0)
    apart = np.abs(left - right)
    third = np.arange(n)
    counts = (third != third[:, None, None]) & (third != third[None, :, None])
    return (apart * counts).sum(axis=2) / (n - 2) * (1 - np.eye(n))


def madc_times(turns: int) -> tuple[Times, Times]:
    """Times of our MADC and of the plain one for few clients, and of ours for 1,000."""
    small = similarity(MADC_SMALL)
    large = similarity(1000)
    assert np.allclose(madc(small), plain_madc(small), atol=1e-6)
    both = take_turns(
        {"MADC": lambda _: madc(small), "plain": lambda _: plain_madc(small)}, turns, 1
    )
    return both, take_turns({"MADC": lambda _: madc(large)}, turns, 1)


def choice(turns: int, clusters: int = 3) -> Times:
    """A cohort of 20 clients choosing among K models, and K forward passes over the same data."""
    world, start = simulated(clients(20, mean=600), "784-128-10")
    models = np.repeat(start, clusters, axis=0)
    all_clients = np.arange(20)
    zeros = np.zeros(20, np.int64)

    def passes(_: int) -> None:
        for _ in range(clusters):
            evaluate(world, start, all_clients, zeros, split="train")

    return take_turns(
        {"choice": lambda _: world.run(Losses(models), all_clients), "K passes": passes}, turns, 3
    )


def shift_test(turns: int) -> Times:
    """The shift test of 10,000 clients with ten classes."""
    rng = np.random.default_rng(0)
    before = rng.integers(0, 50, (10_000, 10))
    after = rng.integers(0, 50, (10_000, 10))
    world = FakeWorld(np.zeros((10_000, 1), np.float32), before.sum(axis=1), counts=before)
    world.counts = after
    all_clients = np.arange(10_000)
    tests = ("label_blind", "label_aware")
    return take_turns(
        {t: lambda _, t=t: world.run(Shifted(t, 0.2), all_clients) for t in tests}, turns
    )


def everything(turns: int) -> dict[str, Times]:
    """All comparisons of this file; the slow ones with fewer turns."""
    small, large = madc_times(min(turns, 5))
    return {
        "edc": edc(min(turns, 7)),
        "madc": small,
        "madc_1000": large,
        "choice": choice(4 * turns),
        "shift": shift_test(turns),
    }
