"""Whole runs with secret sums: the numbers of a plain run, lost clients, refusals, and the
journal."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import dp_accounting
import numpy as np
import pytest

import fedkin as fk
from fedkin.config.run import load
from fedkin.core.errors import ConfigError, TaskError
from fedkin.core.method import State
from fedkin.core.randomness import Stream
from fedkin.core.replies import Reply
from fedkin.core.task import Task
from fedkin.core.world_proxy import WorldProxy
from fedkin.models import mclr
from fedkin.options.base import RunEnd
from fedkin.options.journal import Journal
from fedkin.options.privacy.private_world import PrivateWorld
from fedkin.options.privacy.randomness import SystemRandomness
from fedkin.options.secret.secret_sums import ActiveSecretSums, SecretWorld, refusal
from fedkin.reporting.option_notes import secret_in_words
from fedkin.run.simulate import execute
from fedkin.secret.client import Session
from fedkin.tasks.losses import Losses
from fedkin.tasks.secret_training import masked_form
from fedkin.tasks.sketches import NearestSketch
from fedkin.tasks.train import Train, train
from tests.mappings import merged
from tests.option_lists import simulate_arguments
from tests.simulation.small_federation import federation

SIZES = (3, 5, 8, 13, 4, 6, 9, 2, 7, 10, 12, 5)
DATA = federation(sizes=SIZES, test_sizes=(2,) * len(SIZES))
N = len(SIZES)
EVERYONE = np.arange(N)
PAIR = np.arange(N) % 2
ROUND = Stream(0, 1)
PLAIN = fk.SecretSums(examples_cap=20)


def simulated(compiled: bool = True) -> fk.SimulatedWorld:
    return fk.SimulatedWorld(DATA, mclr(DATA), fk.SGD(lr=0.1), compiled=compiled)


def models_of(world: Any, count: int = 2) -> np.ndarray:
    return np.stack([world.initial(Stream(0, 0, f"model{k}")) for k in range(count)])


def simulate(method: Any = None, secret: Any = PLAIN, rounds: int = 3, **options: Any) -> fk.Run:
    settings = {"rounds": rounds, "cohort": 8, "local": fk.SGD(lr=0.1), **options}
    if secret is PLAIN and "privacy" in options:  # examples are counted by privacy's own cap
        secret = fk.SecretSums()
    settings = simulate_arguments({**settings, "secret": secret})
    return fk.simulate(method or fk.FedAvg(), DATA, mclr(DATA), **simulate_arguments(settings))


@dataclass
class Losing:
    """Which clients are lost in which exchange."""

    lost: dict[str, tuple[int, ...]]

    def of(self, world: Any) -> WorldProxy:
        """The world with those losses."""
        lost = self.lost

        class LossyWorld(WorldProxy):
            def run(self, task: Task, clients: np.ndarray, stream: Stream | None = None) -> Reply:
                there = ~np.isin(clients, lost.get(task.name, ()))
                reply = super().run(task.select(np.flatnonzero(there)), clients[there], stream)
                arrays = {}
                for name, array in reply.arrays.items():
                    arrays[name] = np.zeros((len(clients), *array.shape[1:]), array.dtype)
                    arrays[name][there] = array
                return Reply(arrays, there, np.zeros(len(clients), bool))

        return LossyWorld(world)


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("secret", [PLAIN, replace(PLAIN, hide_choice=True)])
def test_means_are_those_of_the_plain_world(secret: fk.SecretSums, compiled: bool) -> None:
    """All rows at once, and client by client."""
    world = simulated(compiled)
    stream = Stream(0, 1, "train")
    models = models_of(world)
    expected = train(world, models, EVERYONE, PAIR, reduce=True, stream=stream)
    got = train(
        SecretWorld(world, secret, Journal(), ROUND),
        models,
        EVERYONE,
        PAIR,
        reduce=True,
        stream=stream,
    )
    np.testing.assert_allclose(got.update, expected.update, atol=1e-6)
    assert np.abs(expected.update).max() > 0.01 and got.arrived.all()
    np.testing.assert_array_equal(got.weight, expected.weight)
    assert not got.loss.any() and (got.examples == 1).all()  # no number of a single client


def test_a_hidden_choice_equals_the_choice_of_the_plain_world() -> None:
    world = simulated()
    stream = Stream(0, 1, "train")
    models = models_of(world, 2)
    expected = train(world, models, EVERYONE, None, reduce=True, stream=stream)
    own = SecretWorld(world, replace(PLAIN, hide_choice=True), Journal(), ROUND)
    got = train(own, models, EVERYONE, None, reduce=True, stream=stream)
    enough = np.bincount(expected.model_index, minlength=2) >= 3
    np.testing.assert_allclose(got.update[enough], expected.update[enough], atol=1e-6)
    assert enough.any() and not got.update[~enough].any()
    assert (got.model_index == -1).all()  # which the server does not know


LOSSES = {
    "secret_keys": (0,),
    "secret_shares": (1,),
    "secret_train": (2,),
    "secret_reveal": (3,),
}


@pytest.mark.parametrize("lost", [*({name: who} for name, who in LOSSES.items()), LOSSES])
def test_clients_that_are_lost_between_exchanges_are_left_out_and_no_more(
    lost: dict[str, tuple[int, ...]],
) -> None:
    world = simulated()
    stream = Stream(0, 1, "train")
    models = models_of(world, 1)
    index = np.zeros(N, np.int64)
    answered = np.setdiff1d(
        EVERYONE, [c for name, who in lost.items() if name != "secret_reveal" for c in who]
    )
    expected = train(world, models, answered, index[answered], reduce=True, stream=stream)
    journal = Journal()
    own = SecretWorld(Losing(lost).of(world), PLAIN, journal, ROUND)
    got = train(own, models, EVERYONE, index, reduce=True, stream=stream)
    np.testing.assert_allclose(got.update, expected.update, atol=1e-6)
    np.testing.assert_array_equal(np.flatnonzero(got.arrived), answered)
    assert journal.entries[-1]["answered"] == len(answered) and not journal.entries[-1]["lost"]


@pytest.mark.parametrize("least", [3, N])
@pytest.mark.parametrize("exchange", [*LOSSES, ""])
def test_no_secret_outlives_its_sum(exchange: str, least: int) -> None:
    """Whoever drops out, and whether the sum is made or lost."""
    world = simulated()
    settings = fk.SecretSums(least=least)
    own = SecretWorld(Losing({exchange: (2, 5)}).of(world), settings, Journal(), ROUND)
    train(
        own,
        models_of(world, 1),
        EVERYONE,
        np.zeros(N, np.int64),
        reduce=True,
        stream=Stream(0, 1, "train"),
    )
    begun = np.flatnonzero(world._memory.has("secret_session", EVERYONE))
    assert len(begun) == N - 2 * (exchange == "secret_keys")
    sessions = [
        Session.of(world._memory.kept("secret_session", client)) for client in begun.tolist()
    ]
    assert all(
        one.seed == one.mask_seed == bytes(16) and one.private == bytes(32) for one in sessions
    )


def test_a_cluster_with_too_few_answers_keeps_its_model_and_the_round_goes_on() -> None:
    world = simulated()
    stream = Stream(0, 1, "train")
    models = models_of(world)
    index = (EVERYONE < 2).astype(np.int64)
    journal = Journal()
    got = train(
        SecretWorld(world, PLAIN, journal, ROUND),
        models,
        EVERYONE,
        index,
        reduce=True,
        stream=stream,
    )
    assert (
        got.update[0].any()
        and not got.update[1].any()
        and got.weight is not None
        and not got.weight[1]
    )
    assert got.arrived.tolist() == [False, False] + [True] * (N - 2)
    assert "2 clients have announced keys" in journal.entries[-1]["lost"]["1"]
    strict = SecretWorld(world, fk.SecretSums(least=N), journal, ROUND)
    got = train(strict, models, EVERYONE, 0 * index, reduce=True, stream=stream)
    assert got.arrived.all()
    lossy = SecretWorld(
        Losing({"secret_train": (0,)}).of(world), fk.SecretSums(least=N), journal, ROUND
    )
    got = train(lossy, models, EVERYONE, 0 * index, reduce=True, stream=stream)
    assert not got.arrived.any() and not got.update.any()
    lost = journal.entries[-1]["lost"]
    assert list(lost) == ["0"]
    assert f"{N - 1} clients have answered" in lost["0"]
    assert f"{N} are needed" in lost["0"]
    # If choices are hidden, one sum has the updates of all models, and no model has a sum.
    hidden = SecretWorld(
        Losing({"secret_train": (0,)}).of(world),
        fk.SecretSums(least=N, hide_choice=True),
        journal,
        ROUND,
    )
    got = train(hidden, models, EVERYONE, None, reduce=True, stream=stream)
    assert not got.arrived.any() and not got.update.any()
    assert list(journal.entries[-1]["lost"]) == [str(model) for model in range(len(models))]


def test_portions_of_memory_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    world = simulated()
    stream = Stream(0, 1, "train")
    models = models_of(world)
    updates = []
    for memory in (2**28, 400):
        monkeypatch.setattr("fedkin.options.secret.secret_call.UPDATE_MEMORY", memory)
        monkeypatch.setattr(fk.SimulatedWorld, "update_memory", 0)
        own = SecretWorld(world, PLAIN, Journal(), ROUND)
        updates.append(train(own, models, EVERYONE, PAIR, reduce=True, stream=stream).update)
    np.testing.assert_array_equal(*updates)


@pytest.mark.parametrize(
    "method", [fk.FedAvg(), fk.FedProx(mu=0.1), fk.Ditto(), fk.APFL(), fk.PFedMe(strength=5.0)]
)
def test_runs_have_the_numbers_of_plain_runs_and_repeat(method: Any) -> None:
    plain = simulate(method, None)
    secret = simulate(method)
    again = simulate(method)
    np.testing.assert_allclose(secret.models, plain.models, atol=1e-5)
    np.testing.assert_array_equal(secret.models, again.models)  # though all masks are others
    said = secret.summary()["secret"]
    assert said == {"sums": 3, "answered": 24, "clipped": 0, "unusable": 0, "lost": 0, "clear": []}


def test_clients_that_a_simulation_loses(tmp_path: Path) -> None:
    run = simulate(secret=fk.SecretSums(dropout=0.05), rounds=6, out=tmp_path / "run")
    said = run.summary()["secret"]
    assert said["answered"] < 6 * 8 and said["sums"] + said["lost"] == 6
    lines = [
        json.loads(line) for line in (tmp_path / "run" / "secret.jsonl").read_text().splitlines()
    ]
    assert [line["round"] for line in lines] == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize(
    ("clients", "cohort", "neighbours", "dropout"), [(60, 40, 10, 0.2), (100, 100, 20, 0.3)]
)
def test_drop_outs_that_few_neighbours_cannot_bear_lose_sums_and_not_the_run(
    clients: int, cohort: int, neighbours: int, dropout: float
) -> None:
    data = fk.data.digits(clients=clients)
    settings = fk.SecretSums(neighbours=neighbours, dropout=dropout)
    options: dict[str, Any] = {"rounds": 2, "cohort": cohort, "evaluate_every": 0}
    said = fk.simulate(
        fk.FedAvg(), data, mclr(data), options=[settings], **simulate_arguments(options)
    ).summary()["secret"]
    assert said["sums"] + said["lost"] == 2 and said["lost"]


def test_a_file_has_the_option_and_a_round_that_is_done_again_counts_once() -> None:
    config = load(
        None,
        "run.rounds=2 run.cohort=8 data.clients=10 method.name=fedavg secret.name=sums".split(),
    )
    assert execute(config, out=None).summary()["secret"]["answered"] == 16
    journal = Journal()
    # Written by a process that was killed before its checkpoint.
    for round, answered in (
        (1, 8),
        (2, 7),
        (2, 6),
    ):
        journal.add(
            round=round, call=1, lost={}, sums=1, asked=8, answered=answered, clipped=0, unusable=1
        )
    end = RunEnd(2, State(np.zeros((1, 1), np.float32), np.zeros(1, np.int64)), np.zeros(0), {})
    said = ActiveSecretSums(PLAIN, journal).closing(end)["secret"]
    assert (said["sums"], said["answered"], said["unusable"]) == (2, 14, 2)


def test_a_round_without_clients_has_no_sum() -> None:
    world = simulated()
    no_clients = np.zeros(0, np.int64)
    for secret in (PLAIN, replace(PLAIN, hide_choice=True)):
        own = SecretWorld(world, secret, Journal(), ROUND)
        assert not train(
            own, models_of(world), no_clients, no_clients, reduce=True, stream=Stream(0)
        ).update.any()


def test_numbers_above_the_limit_are_reported(caplog: pytest.LogCaptureFixture) -> None:
    run = simulate(secret=fk.SecretSums(limit=1e-3))
    said = run.summary()["secret"]
    assert said["clipped"] > 0
    assert (
        secret_in_words(said)
        == f"secret: 3 sums of 24 updates, {said['clipped']} with clipped numbers"
    )
    assert "of 8 clients have clipped numbers above secret.limit = 0.001: raise it" in caplog.text


@pytest.mark.parametrize(
    ("limit", "parts"),
    [
        (
            1e30,
            [
                "secret.limit = 1e+30",
                "with 8 clients",
                "multiples of 3.7e+21 (limit / (2^28 - 1))",
                "limit=8",
            ],
        ),
        (1e-6, ["secret.limit = 1e-06", "clipped to at most 1e-06", "secret.limit=8"]),
        (8.0, []),
    ],
)
def test_a_limit_with_which_models_do_not_learn_is_named_before_the_run(
    limit: float, parts: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    simulate(secret=fk.SecretSums(limit=limit), rounds=1)
    warnings = [text for text in caplog.messages if text.startswith("secret.limit")]
    assert len(warnings) == (1 if parts else 0)
    for part in parts:
        assert part in warnings[0]


def test_replies_that_are_no_sums_are_refused_or_reported() -> None:
    world = simulated()
    work = Losses(models_of(world))
    with pytest.raises(TaskError, match="replies to task losses are not a sum"):
        SecretWorld(world, PLAIN, Journal(), ROUND).run(work, EVERYONE, Stream(0))
    journal = Journal()
    open_world = SecretWorld(world, fk.SecretSums(others="clear"), journal, ROUND)
    assert open_world.run(work, EVERYONE, Stream(0)).arrived.all()
    assert journal.entries == [{"round": 1, "clear": "losses"}]
    run = simulate(fk.FlexCFL(clusters=2, alpha=2), fk.SecretSums(others="clear"))
    assert run.summary()["secret"]["clear"][0] == "train" and run.summary()["secret"]["sums"]


def test_sums_without_masked_form_or_with_too_many_rows_are_refused() -> None:
    world = simulated()
    twice = np.zeros(2, np.int64)
    own = SecretWorld(world, PLAIN, Journal(), ROUND)
    models = models_of(world)
    with pytest.raises(TaskError, match="may add only one vector"):
        train(own, models, twice, twice, reduce=True, stream=Stream(0))
    with pytest.raises(TaskError, match="hide_choice=true"):
        train(own, models, EVERYONE, None, reduce=True, stream=Stream(0))
    with pytest.raises(TaskError, match="the task losses cannot be used with secret sums"):
        masked_form(Losses(models))
    with pytest.raises(TaskError, match="do not fit into 32 bits"):
        large = SecretWorld(world, fk.SecretSums(examples_cap=2**30), Journal(), ROUND)
        train(large, models, EVERYONE, PAIR, reduce=True, stream=Stream(0))
    assert masked_form(Train(models, fk.SGD(), PAIR, reduce=True), **_fields()).single() is None


def _fields() -> dict[str, Any]:
    none = np.zeros((N, 0), np.int64)
    about = {
        "sum_id": "x",
        "group": PAIR,
        "holders": none,
        "announced": np.zeros((N, 0, 96), np.int64),
    }
    return {
        **about,
        "partners": none.astype(bool),
        "members": 1,
        "limit": 1.0,
        "cap": 1,
        "hide_choice": False,
    }


@pytest.mark.parametrize(
    ("method", "words"),
    [
        (fk.SattlerCFL(), "SattlerCFL needs single updates"),
        (fk.FlexCFL(clusters=2), "FlexCFL needs single updates"),
        (fk.IFCA(clusters=2), "IFCA needs single updates because of its option"),
        (fk.SCAFFOLD(), "SCAFFOLD needs control variates from each client"),
        (fk.Gossip(), "Gossip has no server"),
    ],
)
def test_methods_that_need_more_are_refused_by_name(method: Any, words: str) -> None:
    with pytest.raises((ConfigError, fk.MethodError, fk.ModelError), match=words):
        simulate(method)


def test_detectors_are_refused() -> None:
    assert "several models of a client in one round" in str(refusal(fk.Athena(), PLAIN))


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ({"robust": fk.RobustAggregation()}, "a robust rule needs single updates"),
        ({"late": fk.LateReplies(max_age=2, share=0.1)}, "fits into the sum of no other round"),
        ({"attack": fk.Byzantine("sign_flip", share=0.3)}, "changes single updates"),
        ({"personal": fk.PersonalHead()}, "no masked form"),
    ],
)
def test_options_that_need_single_updates_are_refused(option: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        simulate(**option)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"least": 2}, "each client can compute the other's"),
        ({"dropout": 1.0}, "below 1"),
        ({"limit": -1.0}, "limit"),
    ],
)
def test_settings_that_are_none(settings: dict[str, Any], words: str) -> None:
    with pytest.raises((ConfigError, fk.MethodError), match=words):
        fk.SecretSums(**settings)


def test_private_and_secret(tmp_path: Path) -> None:
    """With everybody in each round it costs as much as with noise from the server. It names the
    trusted parties."""
    privacy = fk.ClientDP(noise_multiplier=1.0, delta=1e-3, clip=0.3)
    options: dict[str, Any] = {"privacy": privacy, "cohort": N, "rounds": 2}
    said = simulate(**options, out=tmp_path / "run").summary()["privacy"]
    plain = simulate(secret=None, **options).summary()["privacy"]
    assert said["epsilon"] == plain["epsilon"] and said["rounds"] == {"released": 2, "planned": 2}
    assert said["secret_sums"]["least"] == 3 and said["secret_sums"]["lost"] == 0
    assert (
        "to follow the protocol" in said["trusted"]
        and "whoever reads its run folder" in plain["trusted"]
    )
    summary = simulate(**options).summary()["secret"]
    assert summary == {
        "sums": 2,
        "answered": 2 * N,
        "clipped": 0,
        "unusable": 0,
        "lost": 0,
        "clear": [],
    }
    assert "each client's test scores when the run is scored" in said["trusted"]
    with pytest.raises(
        ConfigError, match=r"scores that it sees one by one; leave out privacy\.scores"
    ):
        simulate(**merged(options, {"privacy": replace(privacy, scores=10.0)}))
    with pytest.raises(ConfigError, match=r"leave out privacy\.adaptive"):
        simulate(**merged(options, {"privacy": replace(privacy, adaptive=True)}))


@pytest.mark.parametrize(
    ("secret", "cohort", "words"),
    [
        (fk.SecretSums(least=5), 4, r"secret\.least = 5: cohorts of run\.cohort = 4 are too small"),
        (
            fk.SecretSums(limit=2.0),
            N,
            r"secret\.limit does not apply to a private run: set privacy\.clip",
        ),
        (fk.SecretSums(examples_cap=7), N, r"set privacy\.examples_cap instead"),
    ],
)
def test_settings_that_would_do_nothing_are_refused(
    secret: fk.SecretSums, cohort: int, words: str
) -> None:
    privacy = fk.ClientDP(noise_multiplier=1.0, delta=1e-3)
    with pytest.raises(ConfigError, match=words):
        simulate(secret=secret, privacy=privacy, cohort=cohort)
    if secret.least > cohort:
        with pytest.raises(ConfigError, match=words):
            simulate(secret=secret, cohort=cohort)


def test_a_choice_that_a_client_sends_is_not_hidden_from_a_server_of_secret_sums() -> None:
    """A trusted server keeps it to itself; here epsilon is infinite, or it is refused."""
    settings = fk.ClientDP(noise_multiplier=1.0, delta=1e-3)
    task = NearestSketch(
        models_of(simulated())[0], fk.SGD(lr=0.1), directions=np.eye(2, 64, dtype=np.float32)
    )

    def world(settings: fk.ClientDP, secret: fk.SecretSums | None) -> PrivateWorld:
        mechanism = settings.mechanism(N, N, 1, "uniform")
        return PrivateWorld(
            world=simulated(),
            mechanism=mechanism,
            journal=Journal(),
            randomness=SystemRandomness(),
            round=1,
            cohort=EVERYONE,
            secret=secret,
        )

    assert world(settings, None).run(task, EVERYONE, Stream(0)).arrived.all()
    with pytest.raises(TaskError, match="would be sent without noise"):
        world(settings, PLAIN).run(task, EVERYONE, Stream(0))
    own = world(replace(settings, uncharged="infinite"), replace(PLAIN, others="clear"))
    own.run(task, EVERYONE, Stream(0))
    assert own._journal.uncharged == [task.name]


def test_simulated_clients_do_not_sign() -> None:
    with pytest.raises(
        ConfigError, match=r"secret\.signed: simulated clients have no certificates"
    ):
        simulate(secret=fk.SecretSums(signed=True))


def test_privacy_needs_neighbours_enough_to_see_n_min() -> None:
    privacy = fk.ClientDP(noise_multiplier=1.0, delta=1e-3)
    with pytest.raises(ConfigError, match=r"set secret\.neighbours=10 or more"):
        simulate(secret=fk.SecretSums(least=10, neighbours=8), privacy=privacy, cohort=N)
    own = fk.SecretSums(least=10, neighbours=10)
    assert (
        simulate(secret=own, privacy=privacy, cohort=N, rounds=1).summary()["secret"]["answered"]
        == N
    )


def test_with_visible_cohorts_there_is_no_amplification() -> None:
    """Poisson cohorts of 4 of 12 in two rounds cost as much as two full rounds: a Gaussian of z /
    sqrt(2)."""
    privacy = fk.ClientDP(noise_multiplier=1.0, delta=1e-3, clip=0.3)
    private = partial(simulate, privacy=privacy, cohort=4, rounds=2, selection="poisson")
    said = private().summary()["privacy"]
    exact = dp_accounting.get_epsilon_gaussian(1 / np.sqrt(2), 1e-3)
    assert said["epsilon"] == pytest.approx(exact, rel=1e-2)
    amplified = private(secret=None).summary()["privacy"]
    assert amplified["epsilon"] < 0.8 * exact and "added or removed" in amplified["neighbours"]
    assert "no amplification" in said["sampling"] and "adds noise only" in said["neighbours"]
    assert "may know who took part" in said["protects_from"]


@pytest.mark.parametrize("cap", [None, 3])
def test_cohorts_of_a_fixed_size_cost_as_much_as_full_rounds(
    cap: int | None, tmp_path: Path
) -> None:
    """Where who takes part is seen nothing is amplified, and a fixed size spoils nothing: q = 1, by
    dp-accounting."""
    privacy = fk.ClientDP(noise_multiplier=1.0, delta=1e-3, clip=0.3, cap=cap)
    private = partial(simulate, privacy=privacy, cohort=4, rounds=3)
    run = private(selection="uniform", out=tmp_path / "run")
    said = run.summary()["privacy"]
    assert ("at most 3 clients" in said["sampling"]) is (cap is not None)
    loose = fk.ClientDP(noise_multiplier=1.0, delta=1e-3, cap=9).mechanism(
        N, 4, 3, "uniform", seen_cohorts=True
    )
    assert "at most" not in loose.facts()["sampling"]
    event = dp_accounting.SelfComposedDpEvent(dp_accounting.GaussianDpEvent(1.0), 3)
    exact = dp_accounting.pld.PLDAccountant().compose(event).get_epsilon(1e-3)
    assert said["epsilon"] == pytest.approx(exact, rel=1e-3)
    assert (
        said["sampling"].startswith("exactly 4 of 12 clients")
        and "no amplification" in said["sampling"]
    )
    lines = [
        json.loads(line) for line in (tmp_path / "run" / "privacy.jsonl").read_text().splitlines()
    ]
    assert [line["asked"] for line in lines if "asked" in line] == [cap or 4] * 3
    with pytest.raises(ConfigError, match="have no amplification by sampling"):
        private(secret=None, selection="uniform")
    with pytest.raises(ConfigError, match=r'run\.selection="round_robin" cannot be used'):
        private(selection="round_robin")


def test_a_budget_counts_rounds_without_amplification() -> None:
    run = simulate(
        cohort=fk.Cohort(4, selection="poisson"),
        privacy=fk.ClientDP(noise_multiplier=2.0, epsilon=4.0, delta=1e-3, clip=0.3),
        rounds=20,
    )
    affordable = [
        t for t in range(1, 21) if dp_accounting.get_epsilon_gaussian(2 / np.sqrt(t), 1e-3) <= 4
    ]
    assert run.summary()["privacy"]["rounds"]["released"] == affordable[-1] < 20


def test_client_work_in_the_clear_is_named_among_trusted_parts() -> None:
    """Both options have to allow it."""
    privacy = fk.ClientDP(noise_multiplier=1.0, delta=1e-3, clip=0.3, uncharged="infinite")
    run = simulate(
        fk.FlexCFL(clusters=2, alpha=2),
        fk.SecretSums(others="clear"),
        privacy=privacy,
        cohort=N,
        rounds=1,
    )
    said = run.summary()
    assert said["privacy"]["epsilon"] == "infinite" and said["secret"]["clear"][0] == "train"
    assert said["privacy"]["trusted"].endswith(f"replies to {', '.join(said['secret']['clear'])}")
    own = PrivateWorld(
        world=simulated(),
        mechanism=privacy.mechanism(N, N, 1, "uniform"),
        journal=Journal(),
        randomness=SystemRandomness(),
        round=1,
        cohort=EVERYONE,
        secret=PLAIN,
    )
    with pytest.raises(TaskError, match="secret: replies to task losses are not a sum"):
        own.run(Losses(models_of(simulated())), EVERYONE, Stream(0))


def test_a_private_sum_is_written_down_before_the_server_sees_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    journal = Journal()
    counted = []

    def killed(*_: Any, **__: Any) -> None:
        counted.append(journal.rounds)
        raise KeyboardInterrupt

    monkeypatch.setattr("fedkin.options.privacy.private_world.secret_noisy_sums", killed)
    mechanism = fk.ClientDP(noise_multiplier=1.0, delta=1e-3).mechanism(N, N, 1, "uniform")
    own = PrivateWorld(
        world=simulated(),
        mechanism=mechanism,
        journal=journal,
        randomness=SystemRandomness(),
        round=1,
        cohort=EVERYONE,
        secret=PLAIN,
    )
    with pytest.raises(KeyboardInterrupt):
        train(own, models_of(simulated()), EVERYONE, PAIR, reduce=True, stream=Stream(0))
    assert counted == [1]
