"""The benchmark's methods, each with a published grid of three candidates: three learning rates, or
two of them and another value of the method's own option."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from fedkin import methods
from fedkin.core.method import Method
from fedkin.options.base import Option
from fedkin.options.personal.parts import PersonalHead
from fedkin.options.server_optimizer import FedAdam
from papers.benchmark.federations import Setting

STEPS = 12  # gradient steps of a client in a round, of all its models together
INNER = 3  # of them to each of pFedMe's steps
TRIALS = 3


@dataclass(frozen=True)
class Candidate:
    """One point of a grid: the method, its learning rate and its options."""

    method: Method
    rate: float
    options: tuple[Option, ...] = ()


@dataclass(frozen=True)
class Contender:
    """A method of the benchmark.

    Attributes:
        name: on the page.
        family: kind of method.
        method: from a setting to the method.
        other: the method of the third candidate, in words and as a function; None: the third
            candidate has another rate.
        options: of the method's runs, such as a server optimizer.
        passes: number of models that a client trains in a round, by setting; they share its steps.
        tuned: whether each client trains its model once more after the last round.
    """

    name: str
    family: str
    method: Callable[[Setting], Method]
    other: tuple[str, Callable[[Setting], Method]] | None = None
    options: tuple[Option, ...] = ()
    passes: Callable[[Setting], int] = field(default=lambda setting: 1)
    tuned: bool = False

    def grid(self, setting: Setting) -> tuple[Candidate, ...]:
        """The three candidates."""
        low, middle, high = setting.rates
        method = self.method(setting)
        if self.other is None:
            return tuple(Candidate(method, rate, self.options) for rate in (low, middle, high))
        third = Candidate(self.other[1](setting), high, self.options)
        return Candidate(method, middle, self.options), Candidate(method, high, self.options), third

    def words(self) -> str:
        """The grid, for the page."""
        return (
            "three rates"
            if self.other is None
            else f"two rates; the higher one with {self.other[0]}"
        )


def _clustered(kind: type, **options: Any) -> Callable[[Setting], Method]:
    """A method with the setting's number of clusters."""
    return lambda setting: kind(clusters=setting.clusters, **options)


def _flexcfl(measure: Literal["edc", "madc"]) -> Callable[[Setting], Method]:
    """Pre-trained by as many clients as there are for each cluster, with a round's steps."""

    def make(setting: Setting) -> Method:
        return methods.FlexCFL(
            clusters=setting.clusters,
            alpha=(setting.clients - setting.newcomers) // setting.clusters,
            steps=STEPS,
            measure=measure,
        )

    return make


def _feddrift(delta: float) -> Callable[[Setting], Method]:
    """One step where the data do not come in steps."""
    return lambda setting: methods.FedDrift(
        every=setting.every or setting.rounds, models=4, delta=delta
    )


def _selective(setting: Setting) -> Method:
    """With as many places for models as FedDrift has where the data come in steps."""
    if setting.every:
        return methods.SelectiveReclustering(clusters=4, warmup=2, history=True)
    return methods.SelectiveReclustering(clusters=setting.clusters)


def _pfedme(setting: Setting) -> Method:
    """With lambda such that its product with the highest rate is 1.5: it must be below 2."""
    return methods.PFedMe(strength=1.5 / setting.rates[2], own_steps=INNER, own_lr=setting.rates[1])


def _two(setting: Setting) -> int:
    return 2


def _components(setting: Setting) -> int:
    return setting.clusters


ONE = "one model"
OWN = "personalised"
CLUSTERED = "clustered"
MIXED = "mixture"
HEADS = (PersonalHead(head_epochs=STEPS // 2),)
CONTENDERS = (
    Contender("FedAvg", ONE, lambda s: methods.FedAvg()),
    Contender("IFCA", CLUSTERED, _clustered(methods.IFCA, newcomers="loss")),
    Contender("Local", OWN, lambda s: methods.Local()),
    Contender("FedAvg, fine-tuned", OWN, lambda s: methods.FedAvg(), tuned=True),
    Contender("FedAdam", ONE, lambda s: methods.FedAvg(), options=(FedAdam(lr=0.02),)),
    Contender("SCAFFOLD", ONE, lambda s: methods.SCAFFOLD()),
    Contender(
        "Ditto",
        OWN,
        lambda s: methods.Ditto(strength=0.1),
        ("lambda 1, not 0.1", lambda s: methods.Ditto(strength=1.0)),
        passes=_two,
    ),
    Contender("FedPer", OWN, lambda s: methods.FedPer()),
    Contender("FedRep", OWN, lambda s: methods.FedRep(head_epochs=STEPS // 2), passes=_two),
    # At the run's rate shares end at 1, and each client trains alone.
    Contender(
        "APFL",
        OWN,
        lambda s: methods.APFL(share_lr=1e-3),
        ("shares kept at 1/2, not learned", lambda s: methods.APFL(adapt=False)),
        passes=_two,
    ),
    Contender("pFedMe", OWN, _pfedme, passes=lambda setting: INNER),
    Contender(
        "FEROMA",
        OWN,
        lambda s: methods.FEROMA(),
        ("mixes from round 6 on at the latest, not 21", lambda s: methods.FEROMA(latest=5)),
    ),
    Contender("FedEM", MIXED, _clustered(methods.FedEM), passes=_components),
    Contender("FedRC", MIXED, _clustered(methods.FedRC), passes=_components),
    Contender(
        "FedSoft",
        MIXED,
        _clustered(methods.FedSoft, strength=0.1),
        ("lambda 1, not 0.1", _clustered(methods.FedSoft, strength=1.0)),
    ),
    Contender("FeSEM", CLUSTERED, _clustered(methods.FeSEM, newcomers="loss")),
    Contender("FlexCFL", CLUSTERED, _flexcfl("edc"), ("MADC, not EDC", _flexcfl("madc"))),
    Contender(
        "Sattler CFL",
        CLUSTERED,
        lambda s: methods.SattlerCFL(eps1=0.4, eps2=0.6, first_split=5),
        ("eps1 1, not 0.4", lambda s: methods.SattlerCFL(eps1=1.0, eps2=0.6, first_split=5)),
    ),
    Contender(
        "FL+HC",
        CLUSTERED,
        _clustered(methods.FLHC, cluster_round=3),
        ("clusters after round 1, not 3", _clustered(methods.FLHC, cluster_round=1)),
    ),
    Contender(
        "CFL-GP",
        CLUSTERED,
        _clustered(methods.CFLGP),
        ("K found, not given", lambda s: methods.CFLGP(clusters=None)),
    ),
    Contender(
        "FLUX",
        CLUSTERED,
        lambda s: methods.FLUX(),
        ("eps by gap, not knee", lambda s: methods.FLUX(eps="gap")),
    ),
    Contender(
        "PACFL",
        CLUSTERED,
        lambda s: methods.PACFL(threshold=10.0),
        ("beta 20 degrees, not 10", lambda s: methods.PACFL(threshold=20.0)),
    ),
    Contender("FedDrift", CLUSTERED, _feddrift(0.1), ("delta 0.2, not 0.1", _feddrift(0.2))),
    Contender("Selective re-clustering", CLUSTERED, _selective),
    Contender(
        "OCFL",
        CLUSTERED,
        lambda s: methods.OCFL(),
        (
            "K-means with K given, not HDBSCAN",
            lambda s: methods.OCFL(clusterer="kmeans", clusters=s.clusters),
        ),
    ),
    # With a dozen clients the published eps of 1e-5 is never reached.
    Contender(
        "FedGWC",
        CLUSTERED,
        lambda s: methods.FedGWC(eps=1e-3),
        ("plain means of rewards", lambda s: methods.FedGWC(eps=1e-3, mean=True)),
    ),
    Contender(
        "FedCCFA",
        OWN,
        lambda s: methods.FedCCFA(),
        ("changes of rows, not rows", lambda s: methods.FedCCFA(changes=True)),
        passes=_two,
    ),
    Contender(
        "FL+HC with FedRep's heads",
        OWN,
        _clustered(methods.FLHC, cluster_round=3, newcomers="direction"),
        options=HEADS,
        passes=_two,
    ),
)
