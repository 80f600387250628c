"""Whole runs with privacy of clients: released sums, journal, refusals, and when they stop."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import fedkin as fk
from fedkin.cli import app
from fedkin.config.plan import Plan
from fedkin.config.registry import methods
from fedkin.config.run import load
from fedkin.core.errors import ConfigError, MethodError, TaskError
from fedkin.core.method import State
from fedkin.core.randomness import Stream
from fedkin.models import mclr
from fedkin.options.journal import Journal
from fedkin.options.privacy.client_dp import ClientDP
from fedkin.options.privacy.private import ActivePrivacy, refusal
from fedkin.options.privacy.private_world import PrivateWorld
from fedkin.options.privacy.randomness import SeededRandomness
from fedkin.options.privacy.statement import NOT_PRIVATE
from fedkin.options.with_options import NO_OPTIONS, ActiveOptions
from fedkin.reporting.option_notes import privacy_in_words
from fedkin.reporting.seeds_tables import seeds_table
from fedkin.run.cohort_selection import select_cohort
from fedkin.run.instrumented_world import InstrumentedWorld
from fedkin.run.simulate import execute
from fedkin.run.stopping import stop_after_round
from fedkin.tasks.classes import Classes
from fedkin.tasks.evaluate import Evaluate
from fedkin.tasks.losses import Losses
from fedkin.tasks.similarities import Similarities
from fedkin.tasks.train import Train, train
from tests.option_lists import simulate_arguments
from tests.simulation.small_federation import EVERYONE, SIZES, federation

DATA = federation()


class Elsewhere:
    """A tracker that sends its input to another machine."""

    def begin(self, name: str, description: Any, folder: Any) -> None: ...

    def __call__(self, record: Any) -> None: ...

    def end(self, summary: Any) -> None: ...


N = DATA.clients
TESTING = ClientDP(noise_multiplier=1.0, delta=1e-3, testing_only_seeded_noise=True)
IFCA = fk.IFCA(clusters=2, weighting="examples")


def simulate(
    privacy: ClientDP | None = TESTING, rounds: int = 4, method: Any = None, **options: Any
) -> fk.Run:
    asked: dict[str, Any] = {
        "rounds": rounds,
        "cohort": 4,
        "selection": "poisson",
        "checkpoint_every": 2,
        **options,
    }
    asked = simulate_arguments({"privacy": privacy, **asked})
    return fk.simulate(method or fk.FedAvg(), DATA, mclr(DATA), local=fk.SGD(lr=0.1), **asked)


def active(
    settings: ClientDP,
    clients: int = N,
    rounds: int = 1,
    journal: Journal | None = None,
    seed: int | None = None,
) -> ActivePrivacy:
    """Privacy as a run of FedAvg has it."""
    mechanism = settings.mechanism(clients, 4, rounds, "poisson")
    return ActivePrivacy(
        fk.FedAvg(), mechanism, journal or Journal(), planned_rounds=rounds, seed=seed
    )


def private_world(settings: ClientDP = TESTING, world: Any = None) -> PrivateWorld:
    """A world of the small federation that lets noisy sums out."""
    world = world or fk.SimulatedWorld(DATA, mclr(DATA), fk.SGD(lr=0.1))
    mechanism = settings.mechanism(N, 4, 1, "poisson")
    return PrivateWorld(
        world=world,
        mechanism=mechanism,
        journal=Journal(),
        randomness=SeededRandomness(np.random.default_rng(0)),
        round=1,
        cohort=EVERYONE,
    )


def test_a_method_gets_clipped_sums_by_a_fixed_number_and_no_losses() -> None:
    """All clients weigh the same, whatever their samples, and 4 expected clients over 2 clusters
    are 2 a cluster."""
    world = private_world(replace(TESTING, noise_multiplier=0.0, clip=0.3))
    models = np.stack([world.initial(Stream(0, 0, f"model{k}")) for k in range(2)])
    index = np.array([0, 1, 0, 0, 1, 1, 0])
    stream = Stream(0, 1, "train")
    single = train(
        fk.SimulatedWorld(DATA, mclr(DATA), fk.SGD(lr=0.1)), models, EVERYONE, index, stream=stream
    )
    norms = np.linalg.norm(single.update.astype(np.float64), axis=1)
    assert norms.min() < 0.3 < norms.max()
    rows = single.update * np.minimum(1, 0.3 / norms)[:, None]
    expected = np.stack([rows[index == k].sum(axis=0) / 2 for k in range(2)])
    reply = train(world, models, EVERYONE, index, reduce=True, stream=stream)
    np.testing.assert_allclose(reply.update, expected, atol=1e-6)
    assert not reply.loss.any()
    assert (reply.examples == 1).all()


def test_portions_and_weights_by_capped_examples() -> None:
    quiet = replace(TESTING, noise_multiplier=0.0, clip=1e6, divisor=1.0)
    models = private_world().initial(Stream(0))[None]
    stream = Stream(0, 1, "train")

    def update(
        settings: ClientDP, clients: np.ndarray = EVERYONE, memory: int | None = None
    ) -> np.ndarray:
        world = fk.SimulatedWorld(DATA, mclr(DATA), fk.SGD(lr=0.1))
        shown: Any = InstrumentedWorld(world, memory)
        index = np.zeros(len(clients), np.int64)
        return train(
            private_world(settings, shown), models, clients, index, reduce=True, stream=stream
        ).update

    np.testing.assert_array_equal(update(quiet), update(quiet, memory=100))
    capped = replace(quiet, examples_cap=10)
    each = [update(quiet, np.array([client])) * min(SIZES[client] / 10, 1) for client in EVERYONE]
    np.testing.assert_allclose(update(capped), np.sum(each, axis=0), atol=1e-6)


def test_a_round_without_clients_still_releases_noise() -> None:
    world = private_world()
    models = world.initial(Stream(0))[None]
    no_clients = np.zeros(0, np.int64)
    reply = train(world, models, no_clients, no_clients, reduce=True, stream=Stream(0, 1, "train"))
    assert reply.update.std() == pytest.approx(1.0 / 4, rel=0.4)


@pytest.mark.parametrize(
    "task",
    [
        Losses(np.zeros((1, 21), np.float32)),
        Train(np.zeros((1, 21), np.float32), fk.SGD(), np.zeros(7, np.int64)),
        Train(
            np.zeros((1, 21), np.float32), fk.SGD(), np.zeros(7, np.int64), reduce=True, test=True
        ),
        Train(
            np.zeros((1, 21), np.float32),
            fk.SGD(),
            np.zeros(7, np.int64),
            reduce=True,
            gradient=True,
        ),
    ],
)
def test_work_that_sends_more_than_sums_is_refused(task: Any) -> None:
    with pytest.raises(TaskError, match=f"task {task.name} would be sent without noise"):
        private_world().run(task, EVERYONE, Stream(0))


def test_a_client_adds_one_vector_in_a_round() -> None:
    world = private_world()
    models = world.initial(Stream(0))[None]
    twice = np.array([1, 1])
    with pytest.raises(TaskError, match="may add only one vector"):
        train(world, models, twice, np.zeros(2, np.int64), reduce=True, stream=Stream(0))


@dataclass(frozen=True)
class TrainsTwice(fk.FedAvg):
    """Two noisy sums in a round, which would cost two rounds."""

    def round(self, world: Any, state: State, cohort: np.ndarray, stream: Stream) -> State:
        return super().round(world, super().round(world, state, cohort, stream), cohort, stream)


def test_a_method_that_trains_twice_in_a_round_is_refused() -> None:
    with pytest.raises(TaskError, match="TrainsTwice asked for 2 noisy sums in round 1"):
        simulate(method=TrainsTwice())


def test_the_summary_and_the_folder_have_the_cost(tmp_path: Path) -> None:
    run = simulate(out=tmp_path / "run")
    said = run.summary()["privacy"]
    assert said == json.loads((tmp_path / "run" / "privacy.json").read_text())
    assert said["epsilon"] == pytest.approx(TESTING.mechanism(N, 4, 4, "poisson").epsilon(4))
    assert "nothing of this run is private" in said["warning"]
    assert said["rounds"] == {"released": 4, "planned": 4}
    assert {
        "delta",
        "unit",
        "neighbours",
        "sampling",
        "protects_from",
        "must_not_be_released",
    } <= said.keys()
    assert len((tmp_path / "run" / "privacy.jsonl").read_text().splitlines()) == 4


def test_results_read_from_the_folder_say_how_much_privacy_cost(tmp_path: Path) -> None:
    """The run, its report, and a comparison. All are made from folders."""
    private = [
        "privacy.name=client_dp",
        "privacy.noise_multiplier=1",
        "privacy.delta=1e-3",
        "secret.name=sums",
    ]
    asked = ["data.clients=12", "run.rounds=1", "run.cohort=12", "run.selection=uniform", *private]
    grid = ["--methods", "fedavg,fedprox", "--seeds", "2", "--jobs", "1"]
    compared = CliRunner().invoke(app, ["compare", *asked, *grid, "--out", str(tmp_path / "grid")])
    assert compared.exit_code == 0, compared.output
    folder = next((tmp_path / "grid").rglob("privacy.json")).parent
    said = json.loads((folder / "privacy.json").read_text())
    loaded = fk.Run.load(folder)
    assert loaded.final["privacy"] == said and loaded.summary() == json.loads(
        (folder / "summary.json").read_text()
    )
    assert loaded.final["secret"]["answered"] == 12
    total = (
        "all 4 finished private runs, on the same clients, cost up to epsilon "
        f"{4 * said['epsilon']:.3g}"
    )
    assert total in " ".join((tmp_path / "grid" / "comparison.md").read_text().split())
    assert CliRunner().invoke(app, ["report", str(folder)]).exit_code == 0
    page = (folder / "report.html").read_text()
    assert privacy_in_words(said) in page and "Secret sums" in page


def test_noise_of_the_system_is_not_repeated_by_the_seed() -> None:
    system = replace(TESTING, testing_only_seeded_noise=False)
    first, second = (simulate(system, 1) for _ in range(2))
    assert not np.array_equal(first.models, second.models)
    assert "warning" not in first.summary()["privacy"]
    np.testing.assert_array_equal(simulate().models, simulate().models)


def test_a_resumed_run_has_spent_its_released_sums(tmp_path: Path) -> None:
    """Round 3 was done by a process that was killed before its checkpoint: it counts twice."""
    whole = simulate()
    simulate(rounds=2, out=tmp_path / "run")
    with (tmp_path / "run" / "privacy.jsonl").open("a") as file:
        file.write('{"round": 3, "clip": 1.0, "next_clip": 1.0, "noise_multiplier": 1.0}\n')
    resumed = simulate(out=tmp_path / "run", resume=True)
    np.testing.assert_array_equal(resumed.models, whole.models)
    assert resumed.summary()["privacy"]["rounds"]["released"] == 5
    assert resumed.summary()["privacy"]["epsilon"] > whole.summary()["privacy"]["epsilon"]


def test_a_torn_line_of_the_journal_takes_no_other_with_it(tmp_path: Path) -> None:
    """A process was killed in the middle of a line. Sums released after it stay charged in all
    later resumes."""
    journal = tmp_path / "run" / "privacy.jsonl"
    simulate(rounds=2, out=tmp_path / "run")
    with journal.open("a") as file:
        file.write('{"round": 3, "clip": 1.0, "next')
    for rounds in (4, 6):
        said = simulate(rounds=rounds, out=tmp_path / "run", resume=True).summary()["privacy"]
        assert said["rounds"]["released"] == rounds
    assert [json.loads(line)["round"] for line in journal.read_text().splitlines()] == [
        1,
        2,
        3,
        4,
        5,
        6,
    ]


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ('{"round": 1, "clip"', "Expecting"),
        ("[]", "it names no round"),
        ('{"round": 1, "clip": 1.0}', "it has no noise_multiplier"),
    ],
)
def test_a_damaged_line_of_the_journal_is_named_and_nothing_is_charged_again(
    line: str, why: str, tmp_path: Path
) -> None:
    """A whole line that cannot be read is a release of unknown price: no later epsilon could be
    believed."""
    journal = tmp_path / "run" / "privacy.jsonl"
    simulate(rounds=3, out=tmp_path / "run")
    lines = journal.read_text().splitlines()
    journal.write_text("\n".join([lines[0], line, lines[2], ""]))
    with pytest.raises(
        fk.CheckpointError, match=rf"privacy\.jsonl, line 2 is damaged \({why}.*from a copy"
    ):
        simulate(rounds=4, out=tmp_path / "run", resume=True)
    assert len(journal.read_text().splitlines()) == 3


def test_a_budget_stops_the_run_and_a_resumed_one_does_not_go_on(tmp_path: Path) -> None:
    mechanism = TESTING.mechanism(N, 4, 4, "poisson")
    budget = replace(TESTING, epsilon=(mechanism.epsilon(2) + mechanism.epsilon(3)) / 2)
    run = simulate(budget, out=tmp_path / "run")
    assert run.summary()["rounds"] == 2
    assert "would exceed privacy.epsilon" in run.summary()["stopped"]["reason"]
    assert run.summary()["privacy"]["epsilon"] <= budget.epsilon
    again = simulate(budget, out=tmp_path / "run", resume=True)
    assert again.summary()["privacy"]["rounds"]["released"] == 2


def test_an_epsilon_alone_is_met_by_noise() -> None:
    settings = replace(TESTING, noise_multiplier=None, epsilon=3.0)
    run = simulate(settings, rounds=2, cohort=N, selection="uniform")
    said = run.summary()["privacy"]
    assert 2.9 < said["epsilon"] <= 3.0
    assert said["rounds"]["released"] == 2


def test_a_run_whose_noise_was_found_for_its_epsilon_is_not_extended(tmp_path: Path) -> None:
    """One round at epsilon 3 and three more of the noise of four would cost 4.25, and a statement
    would say 3."""
    asked = replace(TESTING, noise_multiplier=None, epsilon=3.0)
    with_everybody = partial(simulate, asked, cohort=N, selection="uniform", out=tmp_path / "run")
    first = with_everybody(rounds=1).summary()["privacy"]
    with pytest.raises(ConfigError, match=r"extend a run, start it with privacy\.noise_multiplier"):
        with_everybody(rounds=4, resume=True)
    again = with_everybody(rounds=1, resume=True).summary()["privacy"]
    assert again == first and again["epsilon"] <= 3.0


@pytest.mark.parametrize("settings", [TESTING, replace(TESTING, adaptive=True, epsilon=50.0)])
def test_a_run_whose_noise_was_given_is_extended_and_charged_in_full(
    settings: ClientDP, tmp_path: Path
) -> None:
    simulate(settings, rounds=2, out=tmp_path / "run")
    said = simulate(settings, rounds=4, out=tmp_path / "run", resume=True).summary()["privacy"]
    assert said["epsilon"] == pytest.approx(settings.mechanism(N, 4, 4, "poisson").epsilon(4))


def test_clients_may_choose_their_cluster_and_the_clip_may_adapt(tmp_path: Path) -> None:
    adaptive = replace(TESTING, adaptive=True, clip=0.05)
    run = simulate(adaptive, method=IFCA, out=tmp_path / "run", server_optimizer=fk.FedAvgM())
    lines = [
        json.loads(line) for line in (tmp_path / "run" / "privacy.jsonl").read_text().splitlines()
    ]
    assert [line["clip"] for line in lines[1:]] == [line["next_clip"] for line in lines[:-1]]
    assert lines[-1]["next_clip"] > 0.05
    assert run.models.shape[0] == 2
    assert np.isfinite(run.models).all()


def test_ifca_by_examples_is_unchanged() -> None:
    """Means are asked for in place of single updates; the bits are the same."""
    plain: dict[str, Any] = {"rounds": 3, "cohort": 5, "local": fk.SGD(lr=0.1)}
    means = fk.simulate(IFCA, DATA, mclr(DATA), **simulate_arguments(plain))

    @dataclass(frozen=True)
    class Single(fk.IFCA):
        """As it was, from single updates."""

        _reads_means = False  # type: ignore[assignment]

    single = fk.simulate(
        Single(clusters=2, weighting="examples"), DATA, mclr(DATA), **simulate_arguments(plain)
    )
    np.testing.assert_array_equal(means.models, single.models)
    np.testing.assert_array_equal(means.assignment, single.assignment)


@pytest.mark.parametrize(
    ("method", "why"),
    [
        (fk.IFCA(clusters=2), "single updates because of its option averaging, weighting"),
        (fk.FlexCFL(clusters=2), "single updates"),
        (fk.FedSim(clusters=2), "single updates"),
        (fk.IFCAMig(clusters=2, weighting="examples"), "asks all clients in every round"),
        (replace(IFCA, eta_g=0.1), "needs which clusters have clients"),
        (replace(IFCA, newcomers="loss"), "needs losses of all models"),
        (fk.PANM(), "no server"),
        (fk.SCAFFOLD(), "needs control variates from each client"),
    ],
)
def test_methods_that_read_more_than_sums_are_refused_by_name(method: Any, why: str) -> None:
    with pytest.raises(ConfigError, match=f"privacy: method: {type(method).__name__} .*{why}"):
        simulate(method=method)


@pytest.mark.parametrize("name", sorted(methods()))
def test_every_method_that_is_not_refused_sends_sums_only(name: str) -> None:
    """A method with a wrong declaration is still refused in its first round, with an error
    here."""
    method = methods()[name]()
    if name == "pfedme":
        # Its default strength diverges at this rate.
        method = replace(method, strength=1.0)
    if not refusal(method):
        run = simulate(method=method, rounds=2)
        assert run.summary()["privacy"]["rounds"]["released"] == 2


SCORED = replace(TESTING, scores=4.0)
EVERYBODY: dict[str, Any] = {"cohort": N, "selection": "uniform", "evaluate_every": 0}


def test_noisy_scores_of_the_released_models_are_charged_and_released(tmp_path: Path) -> None:
    import dp_accounting as da

    run = simulate(SCORED, out=tmp_path / "run", **EVERYBODY)
    said = run.summary()["privacy"]
    exact = da.get_epsilon_gaussian((4 / 1.0**2 + 1 / 4.0**2) ** -0.5, 1e-3)
    assert said["epsilon"] == pytest.approx(exact, rel=1e-3)
    assert said["scores"]["clients"] == N and said["scores"][
        "standard_deviation_of_noise"
    ] == pytest.approx(4 / N)
    assert said["charged"]["scores (evaluate)"] == "noisy sums of all clients' accuracies: 1"
    assert (
        json.loads((tmp_path / "run" / "release" / "privacy.json").read_text())["scores"]
        == said["scores"]
    )
    assert "released mean accuracy of clients" in privacy_in_words(said)
    quiet = simulate(replace(SCORED, scores=0.3), **EVERYBODY)
    noise = 0.3 * Stream(0, 4, "privacy/scores").rng().standard_normal(1)[0]
    expected = (quiet.clients["accuracy"].sum() + noise) / N
    assert (
        quiet.summary()["privacy"]["scores"]["mean_accuracy"] == pytest.approx(expected)
        and 0 < expected < 1
    )
    assert "scores" not in simulate(**EVERYBODY).summary()["privacy"]


def test_scores_are_released_once_for_a_round_and_again_where_a_run_goes_on(tmp_path: Path) -> None:
    first = simulate(SCORED, rounds=2, out=tmp_path / "run").summary()["privacy"]
    again = simulate(SCORED, rounds=2, out=tmp_path / "run", resume=True).summary()["privacy"]
    assert again == first
    longer = simulate(SCORED, rounds=4, out=tmp_path / "run", resume=True).summary()["privacy"]
    assert longer["epsilon"] == pytest.approx(
        SCORED.mechanism(N, 4, 4, "poisson").epsilon(4, score_sums=2)
    )
    assert longer["epsilon"] > simulate(SCORED).summary()["privacy"]["epsilon"]
    assert longer["charged"]["scores (evaluate)"].endswith("accuracies: 2")


def test_a_budget_covers_scores_and_none_are_released_beyond_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    asked = replace(SCORED, noise_multiplier=None, epsilon=3.0)
    said = simulate(asked, rounds=2).summary()["privacy"]
    assert 2.9 < said["epsilon"] <= 3.0 and "scores" in said
    with pytest.raises(
        ConfigError, match=r"sum of scores alone costs .* with noise 0\.5: raise privacy\.scores"
    ):
        simulate(replace(asked, scores=0.5), rounds=2)
    budget = replace(SCORED, epsilon=SCORED.mechanism(N, 4, 2, "poisson").epsilon(2) * 1.001)
    run = simulate(budget, rounds=2, out=tmp_path / "run")
    assert run.summary()["rounds"] == 2 and "scores" in run.summary()["privacy"]
    further = simulate(budget, rounds=4, out=tmp_path / "run", resume=True).summary()
    assert further["rounds"] == 2 and further["privacy"]["epsilon"] <= (budget.epsilon or 0)
    # Written by a process that was killed in round 3.
    with (tmp_path / "run" / "privacy.jsonl").open("a") as file:
        file.write('{"round": 3, "clip": 1.0, "next_clip": 1.0, "noise_multiplier": 1.0}\n')
    journal = Journal(tmp_path / "run" / "privacy.jsonl")
    active(budget, rounds=4, journal=journal).release_scores(3, np.ones(N))
    assert journal.score_sums == 1 and "they would exceed the epsilon" in caplog.text


@pytest.mark.parametrize(
    ("kind", "task"),
    [
        ("losses", Losses(np.zeros((1, 21), np.float32))),
        ("scores", Evaluate(np.zeros((1, 21), np.float32), np.zeros(N, np.int64))),
        ("counts", Classes()),
        ("cold start", Train(np.zeros((1, 21), np.float32), fk.SGD(), np.zeros(N, np.int64))),
        ("choices", Similarities(np.zeros(21, np.float32), np.ones((1, 21), np.float32), fk.SGD())),
    ],
)
def test_uncharged_tasks_are_refused_or_infinite(kind: str, task: Any) -> None:
    """By its task, whatever a method says that it needs. Charged tasks, and the best round, have
    tests above."""
    world = private_world()
    with pytest.raises(TaskError, match=f"task {task.name} would be sent without noise"):
        world.run(task, EVERYONE, Stream(0))
    assert not world._journal.entries
    insists = private_world(replace(TESTING, uncharged="infinite"))
    insists.run(task, EVERYONE, Stream(0))
    mechanism = insists._mechanism
    journal = insists._journal
    assert (
        journal.uncharged == [task.name] and mechanism.epsilon(1, bool(journal.uncharged)) == np.inf
    )


def test_the_ledger_has_a_line_for_each_kind_of_release(tmp_path: Path) -> None:
    """Models and scores have a price, choices and files that stay in the folder have none; tuning
    is marked as open."""
    said = simulate(SCORED, method=IFCA, out=tmp_path / "run").summary()["privacy"]
    charged = said["charged"]
    open_ones = " ".join(said["not_charged"])
    kept = " ".join(said["must_not_be_released"])
    assert charged["models (train)"].startswith("4 noisy sums") and charged[
        "scores (evaluate)"
    ].endswith(": 1")
    assert charged["choices of clusters"].startswith("nothing: each client chooses")
    assert charged["counts, losses, scores of single clients, the best round"].startswith(
        "nothing: they are not released"
    )
    assert "which settings were tried" in open_ones and "other runs" in open_ones
    assert all(
        word in kept
        for word in ("scores, losses and counts", "assignment", "best round", "checkpoints")
    )
    assert sorted(file.name for file in (tmp_path / "run" / "release").iterdir()) == [
        "models.safetensors",
        "privacy.json",
    ]


def test_allowing_unprotected_replies_gives_an_infinite_epsilon() -> None:
    run = simulate(
        replace(TESTING, uncharged="infinite"), method=fk.FlexCFL(clusters=2, alpha=3, steps=2)
    )
    said = run.summary()["privacy"]
    assert said["epsilon"] == "infinite"
    assert said["charged"]["other client work (train)"].startswith("infinite")
    assert refusal(fk.PANM(), "infinite")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"selection": "uniform"},
            r'the best known epsilon is .*run.selection="poisson", or run.cohort=',
        ),
        (
            {"privacy": SCORED, "sample_at_end": True, "evaluate_clients": 2},
            "privacy.scores needs the scores of all clients",
        ),
        ({"until": 0.9}, "run.until ends the run by clients' scores"),
        ({"personal": fk.PersonalHead()}, "personal heads send sums of bodies"),
        ({"track": [Elsewhere()]}, "the tracker Elsewhere would send clients' scores"),
        (
            {"track": [Elsewhere()], "privacy": replace(TESTING, uncharged="infinite")},
            "the tracker Elsewhere would send",
        ),
    ],
)
def test_tasks_that_would_leak_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        simulate(**options)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, "set noise_multiplier"),
        ({"epsilon": 0.0}, "epsilon must be a number above 0"),
        ({"epsilon": -1.0}, "epsilon must be a number"),
        ({"noise_multiplier": 1.0, "scores": 0.0}, "scores must be a number above 0"),
        ({"noise_multiplier": 1.0, "clip": 0.0}, "clip must be a number above 0"),
        ({"noise_multiplier": 1.0, "delta": 0.0}, "delta must be"),
        ({"noise_multiplier": -1.0}, "noise_multiplier must be"),
    ],
)
def test_settings_that_cannot_be_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises((ConfigError, MethodError), match=message):
        ClientDP(**settings)


def test_several_seeds_have_a_total_cost_and_seeded_noise_is_no_protection() -> None:
    def run(seed: int, privacy: Any = TESTING) -> fk.Run:
        return simulate(privacy, rounds=1, seed=seed)

    epsilon = run(0).summary()["privacy"]["epsilon"]
    shown = str(seeds_table(fk.repeat(run, 2).summary()).caption)
    assert (
        f"all 2 finished private runs, on the same clients, cost up to epsilon {2 * epsilon:.3g}"
        in shown
    )
    assert NOT_PRIVATE in shown
    plain = fk.repeat(lambda seed: run(seed, None), 2).summary()
    assert "privacy_notes" not in plain and "Privacy" not in str(seeds_table(plain).caption)


def test_a_private_run_does_not_stop_because_of_clients_replies(tmp_path: Path) -> None:
    """Neither by a callback on their scores, nor where no reply is usable: the last round is
    planned."""
    with pytest.raises(ConfigError, match=r"a callback returned STOP.*set run.rounds"):
        simulate(out=tmp_path / "run", callbacks=lambda record: fk.STOP)
    assert not (tmp_path / "run" / "release").exists()
    unusable = {"train_loss": None, "nonfinite": 4, "accuracy": None, "partial": None}
    records = [{"round": round, **unusable} for round in range(5)]
    private = ActiveOptions((active(TESTING, rounds=9, seed=0),))
    assert stop_after_round(Plan(rounds=9, cohort=4), records, NO_OPTIONS) is not None
    assert stop_after_round(Plan(rounds=9, cohort=4), records, private) is None
    said = simulate(rounds=1).summary()["privacy"]
    assert any("ended or extended after" in each for each in said["not_charged"])


def test_a_new_run_does_not_begin_on_another_runs_journal(tmp_path: Path) -> None:
    (tmp_path / "privacy.jsonl").write_text("")
    with pytest.raises(fk.StorageError, match=r"privacy\.jsonl"):
        simulate(rounds=1, out=tmp_path)


def test_a_budget_below_one_round_is_refused() -> None:
    with pytest.raises(ConfigError, match="allows no round: one round costs"):
        simulate(replace(TESTING, epsilon=0.01))


def test_a_delta_of_a_client_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    simulate(replace(TESTING, delta=0.5), rounds=1)
    assert "permits publishing the whole data of one" in caplog.text


def test_a_configuration_has_it(tmp_path: Path) -> None:
    asked = [
        "data.name=digits",
        "method.name=fedavg",
        "run.against=[]",
        "run.rounds=1",
        "run.selection=poisson",
    ]
    asked += ["privacy.name=client_dp", "privacy.noise_multiplier=1.0", "privacy.delta=0.001"]
    config = load(None, asked)
    assert config.description().section("privacy")["noise_multiplier"] == 1.0
    assert execute(config, out=None).summary()["privacy"]["rounds"]["released"] == 1


def test_poisson_cohorts_have_random_sizes() -> None:
    plan = Plan(1, 50, selection="poisson")
    sizes = [
        len(select_cohort(np.arange(1000), 1000, plan, Stream(0, r, "cohort")))
        for r in range(1, 200)
    ]
    assert np.mean(sizes) == pytest.approx(50, abs=2)
    assert 40 < np.var(sizes) < 56  # N q (1 - q) = 47.5


def test_cohorts_with_a_cap() -> None:
    private = active(replace(TESTING, cap=3), clients=8, seed=0)
    sizes = [len(private.select_cohort(np.arange(8), round)) for round in range(50)]
    assert max(sizes) == 3
    assert min(sizes) < 3


def test_sums_of_capped_cohorts_are_divided_by_at_most_the_cap() -> None:
    """Otherwise each step would be cohort / cap times too small."""
    settings = replace(TESTING, cap=3)
    capped, whole = (
        one.mechanism(clients=20, cohort=8, rounds=2, selection="poisson")
        for one in (settings, replace(TESTING, cap=None))
    )
    assert (capped.divisor(1), capped.divisor(3)) == (3, 1)
    assert (whole.divisor(1), whole.divisor(2)) == (8, 4)


def test_the_audit_of_a_configuration() -> None:
    private = ["privacy.name=client_dp", "privacy.noise_multiplier=5", "privacy.delta=1e-5"]
    whole = ["data.clients=50", "method.name=fedavg", "run.cohort=50", "run.rounds=10", *private]
    result = CliRunner().invoke(app, ["audit", *whole, "--json"])
    said = json.loads(result.stdout)
    assert result.exit_code == 0 and said["claim"] == pytest.approx(2.59, abs=0.01)
    assert 0 <= said["lower_bound"] <= said["claim"] and said["rounds"] == 10
    masked = json.loads(
        CliRunner().invoke(app, ["audit", *whole, "secret.name=sums", "--json"]).stdout
    )
    assert masked["claim"] == said["claim"] and 0 <= masked["lower_bound"] <= masked["claim"]
    shown = CliRunner().invoke(app, ["audit", *whole])
    assert (
        "claimed: epsilon 2.59 after 10 rounds" in shown.stdout
        and "is not contradicted" in shown.stdout
    )
    for more, why in (
        (
            ["method.name=flexcfl", "method.clusters=2", "privacy.uncharged=infinite"],
            "there is no finite epsilon to audit: FlexCFL",
        ),
        (
            ["method.name=private_clusters", "method.clusters=2", "secret.name=sums"],
            "begins with sums of sketches",
        ),
        (["secret.name=sums", "secret.least=60"], "are too small for a secret sum"),
    ):
        other = CliRunner().invoke(app, ["audit", *whole, *more])
        assert other.exit_code == 2 and why in " ".join(other.stderr.split()), other.stderr
    refused = CliRunner().invoke(app, ["audit", "data.clients=50"])
    assert refused.exit_code == 2 and "there is nothing to audit" in refused.stderr
