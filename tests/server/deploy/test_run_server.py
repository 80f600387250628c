"""The server of a real federation, with an engine in memory: it resumes, refuses, takes newcomers
in, and gets along with nodes that fail."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dp_accounting
import numpy as np
import pytest

from fedkin.config.server import load_server
from fedkin.core.errors import CheckpointError, ConfigError, DataError, ModelError
from fedkin.core.progress import Progress
from fedkin.core.training import LocalTraining
from fedkin.export import load as load_export
from fedkin.methods.fedavg import FedAvg
from fedkin.options.privacy.client_dp import ClientDP
from fedkin.options.robust.robust import RobustAggregation
from fedkin.options.secret.secret_sums import SecretSums
from fedkin.run.folder import checkpoint
from fedkin.run.run import Run
from fedkin.run.simulate import simulate
from fedkin.server.deploy import run_server as serving
from fedkin.server.message import RpcMessage
from tests.docs.code_blocks import ROOT
from tests.mappings import merged
from tests.option_lists import simulate_arguments
from tests.server.memory_transport import MemoryTransport
from tests.server.small_federations import clustered_data, model_of, node_of

CLIENTS = 6
FILE = """
[federation]
capacity = {capacity}
wait_for = {wait_for}
deadline = 90.0
[samples]
shape = [6]
classes = 6
[model]
name = "mclr"
[method]
{method}
[local]
epochs = 2
batch_size = 5
lr = 0.1
[run]
rounds = {rounds}
cohort = {cohort}
{more}
"""
FLEXCFL = 'name = "flexcfl"\nclusters = 2\nalpha = 2'
FEDAVG = 'name = "fedavg"'


class Lab:
    """A server's file, an engine and its nodes."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self.monkeypatch = monkeypatch
        self.removed: set[str] = set()  # names of sites that were removed for good
        self.engine(MemoryTransport())

    def engine(self, transport: MemoryTransport) -> None:
        self.transport = transport

    def join(self, *clients: int, node: int | None = None, **how: Any) -> None:
        for client in clients:
            site = node_of(f"site-{client}", [client], clustered_data(), model_of())
            self.transport.join(100 - client if node is None else node, site, **how)

    def write(self, **values: Any) -> Path:
        known = {
            "capacity": CLIENTS,
            "wait_for": CLIENTS,
            "method": FLEXCFL,
            "rounds": 4,
            "cohort": CLIENTS,
            "more": "",
        }
        path = self.folder / "server.toml"
        self.folder.mkdir(exist_ok=True)
        path.write_text(FILE.format(**merged(known, values)))
        return path

    def serve(self, **values: Any) -> Run:
        clock = self.transport.clock
        return serving.serve(
            config=load_server(self.write(**values)),
            transport=self.transport,
            clock=clock.time,
            sleep=clock.sleep,
            removed=lambda: self.removed,
        )


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lab:
    return Lab(tmp_path / "one", monkeypatch)


def stopping(round: int, operation: str) -> Callable[[RpcMessage], Any]:
    """A client whose requests of a round bring the server down."""

    def replies(request: RpcMessage, reply: RpcMessage) -> RpcMessage:
        if (
            request.header["operation"] == operation
            and request.header.get("stream", [0, -1])[1] == round
        ):
            raise KeyboardInterrupt
        return reply

    return replies  # type: ignore[return-value]


def same(one: Run, two: Run) -> None:
    np.testing.assert_array_equal(one.models, two.models)
    np.testing.assert_array_equal(one.assignment, two.assignment)
    assert one.records == two.records
    assert one.clients["name"].tolist() == two.clients["name"].tolist()


def test_a_deployed_run_has_trackers(lab: Lab) -> None:
    lab.join(*range(CLIENTS))
    lab.serve(capacity=f'{CLIENTS}\ntrack = ["tensorboard"]', rounds=2)
    assert list((lab.folder / "run").glob("events.out.tfevents.*"))
    assert (lab.folder / "run/tracked/TensorBoard.rounds").read_text().split() == ["0", "1", "2"]
    with pytest.raises(ConfigError, match="unknown tracker 'tensorbord'"):
        lab.serve(capacity=f'{CLIENTS}\ntrack = ["tensorbord"]', rounds=2)


def test_a_deployed_run_predicts_places_and_is_exported(lab: Lab, tmp_path: Path) -> None:
    """From memory, and from the server's run folder. Functions that need the clients' data say
    where these are."""
    lab.join(*range(CLIENTS))
    run = lab.serve(rounds=2)
    data = clustered_data()
    loaded = Run.load(lab.folder / "run")
    for client in (0, 3):
        x = data.x[data.train[client]]
        y = data.y[data.train[client]]
        scores = run.model_for(f"site-{client}")(x)
        np.testing.assert_array_equal(loaded.model_for(f"site-{client}")(x), scores)
        assert run.place(x, y).cluster == loaded.place(x, y).cluster == run.assignment[client]
        exported = load_export(run.export(tmp_path / f"{client}").parent)
        np.testing.assert_allclose(exported.model(client=f"site-{client}")(x), scores, atol=1e-5)
    for refused in (lambda: run.fine_tune(0, 1), run.evaluate):
        with pytest.raises(DataError, match="are on its clients' machines"):
            refused()


@dataclass(frozen=True)
class OwnMethod(FedAvg):
    """A method of the user's own, whose name no file can have."""


def test_a_method_of_the_users_own_is_deployed(lab: Lab) -> None:
    lab.join(*range(CLIENTS))
    run = lab.serve(rounds=2, method='name = "tests.server.deploy.test_run_server:OwnMethod"')
    assert [record["missing"] for record in run.records] == [0, 0, 0] and run.final[
        "accuracy_all_clients"
    ] > 0


# --- resume


def test_a_server_optimizer_goes_on_where_it_stopped(
    lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its moments are the server's own, and part of the checkpoint; clients know nothing of it."""
    adam = '[server_optimizer]\nname = "fedadam"\nlr = 0.05'
    whole = Lab(tmp_path / "whole", monkeypatch)
    whole.join(*range(CLIENTS))
    expected = whole.serve(more=adam)
    plain = Lab(tmp_path / "plain", monkeypatch)
    plain.join(*range(CLIENTS))
    lab.join(*range(CLIENTS))
    lab.serve(more=adam, rounds=2)
    resumed = lab.serve(more=adam)
    np.testing.assert_array_equal(resumed.models, expected.models)
    assert resumed.summary()["method"] == "flexcfl+fedadam"
    assert np.abs(plain.serve().models - expected.models).max() > 0.01


def test_a_robust_rule_equals_the_simulator(lab: Lab) -> None:
    lab.join(*range(CLIENTS))
    median = RobustAggregation("median", byzantine=0.3)
    work = LocalTraining(epochs=2, batch_size=5, lr=0.1)
    run = lab.serve(
        method=FEDAVG,
        rounds=2,
        more='[robust]\nname = "aggregation"\nrule = "median"\nbyzantine = 0.3',
    )
    options = {"rounds": 2, "cohort": CLIENTS, "local": work, "progress": False}
    robust = simulate(
        FedAvg(), clustered_data(), model_of(), options=[median], **simulate_arguments(options)
    )
    mean = simulate(FedAvg(), clustered_data(), model_of(), **simulate_arguments(options))
    np.testing.assert_allclose(run.models, robust.models, rtol=1e-4, atol=1e-6)
    assert np.abs(run.models - mean.models).max() > 0.01
    with pytest.raises(ConfigError, match="a robust rule compares the replies of one round"):
        lab.serve(more='[late]\nname = "replies"\n[robust]\nname = "aggregation"')


def test_a_users_option_equals_the_simulator(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    page = (ROOT / "docs" / "write-an-option.md").read_text()
    code = page.split("```python\n", 1)[1].split("\ndata = fk.data", 1)[0]
    lab.folder.mkdir(exist_ok=True)
    (lab.folder / "deployed_decay.py").write_text(code)
    monkeypatch.syspath_prepend(lab.folder)
    lab.join(*range(CLIENTS))
    run = lab.serve(
        method=FEDAVG,
        rounds=2,
        more='[server_decay]\nname = "deployed_decay:ServerDecay"\nrate = 0.5',
    )
    option = importlib.import_module("deployed_decay").ServerDecay(rate=0.5)
    near = simulate(
        FedAvg(),
        clustered_data(),
        model_of(),
        rounds=2,
        cohort=CLIENTS,
        local=LocalTraining(epochs=2, batch_size=5, lr=0.1),
        options=[option],
        callbacks=Progress(False),
    )
    np.testing.assert_allclose(run.models, near.models, rtol=1e-4, atol=1e-6)


def test_late_replies_are_an_option_of_a_server(lab: Lab) -> None:
    lab.join(*range(CLIENTS))
    run = lab.serve(rounds=2, more='[late]\nname = "replies"\nmax_age = 2')
    assert run.config.section("late")["max_age"] == 2 and run.records[-1]["late_used"] == 0
    for wrong, message in (
        ("share = 0.2", "late.share: this option makes simulated clients late"),
        ("max_aeg = 2", "did you mean 'max_age'"),
    ):
        with pytest.raises(ConfigError, match=message):
            lab.serve(rounds=2, more=f'[late]\nname = "replies"\n{wrong}')


def test_a_server_waits_for_the_first_replies(lab: Lab) -> None:
    lab.join(*range(CLIENTS))
    section = '[asynchronous]\nname = "first_replies"\n'
    run = lab.serve(rounds=2, more=f"{section}share = 0.5")
    assert run.config.section("asynchronous")["share"] == 0.5
    assert run.records[-1]["simulated_seconds"] is None
    for wrong, message in (
        ("slow_share = 0.1", "asynchronous.slow_share: this setting is for simulated clients"),
        ("deadline = 9.0", r"asynchronous.deadline: .* real ones, which have federation.deadline"),
        (f"count = {CLIENTS + 1}", "replies can never come"),
    ):
        with pytest.raises(ConfigError, match=message):
            lab.serve(rounds=2, more=f"{section}{wrong}")


def test_a_server_keeps_buffers(lab: Lab) -> None:
    """Every client is asked in the first step, and every reply is in the records."""
    lab.join(*range(CLIENTS))
    section = '[asynchronous]\nname = "buffered"\nbuffer = 2\n'
    run = lab.serve(rounds=4, method=FEDAVG, more=section)
    assert run.records[1]["asked"] == list(range(CLIENTS))
    assert [len(record["arrivals"]) for record in run.records] == [0, 2, 2, 2, 2]
    assert run.records[-1]["replies_used"] == 8
    with pytest.raises(ConfigError, match=r"asynchronous\.replay: this setting is for simulated"):
        lab.serve(rounds=2, method=FEDAVG, more=f'{section}replay = "run"')


def test_secret_sums_are_an_option_of_a_server(lab: Lab) -> None:
    lab.join(*range(CLIENTS))
    run = lab.serve(method=FEDAVG, rounds=2, more='[secret]\nname = "sums"\nexamples_cap = 20')
    assert (
        run.summary()["secret"]["answered"] == 2 * CLIENTS
        and run.config.section("secret")["examples_cap"] == 20
    )
    with pytest.raises(
        ConfigError, match=r"secret\.dropout: this option makes simulated clients drop out"
    ):
        lab.serve(method=FEDAVG, more='[secret]\nname = "sums"\ndropout = 0.1')


PRIVATE = '[secret]\nname = "sums"\n[privacy]\nname = "client_dp"\ndelta = 1e-3\nclip = 0.3\n'


def test_privacy_of_real_sites_is_secret_sums_in_which_sites_add_the_noise(
    lab: Lab, tmp_path: Path
) -> None:
    """Charged as in a simulation. Without noise the models equal the simulator's; with noise they
    differ."""
    lab.join(*range(CLIENTS))
    run = lab.serve(method=FEDAVG, rounds=2, more=PRIVATE + "noise_multiplier = 1.0")
    said = run.summary()["privacy"]
    assert said["epsilon"] == pytest.approx(
        dp_accounting.get_epsilon_gaussian(2**-0.5, 1e-3), rel=1e-3
    )
    assert "each client to add its noise" in said["trusted"] and said["rounds"] == {
        "released": 2,
        "planned": 2,
    }
    assert (lab.folder / "run" / "release" / "models.safetensors").exists()
    asked = {
        request.header["operation"]
        for station in lab.transport.stations.values()
        for request in station.requests
    }
    assert "secret_train" in asked and "train" not in asked
    longer = lab.serve(method=FEDAVG, rounds=3, more=PRIVATE + "noise_multiplier = 1.0").summary()[
        "privacy"
    ]
    assert longer["rounds"]["released"] == 3 and longer["epsilon"] > said["epsilon"]
    quiet = Lab(tmp_path / "quiet", lab.monkeypatch)
    quiet.join(*range(CLIENTS))
    exact = quiet.serve(method=FEDAVG, rounds=2, more=PRIVATE + "noise_multiplier = 0.0")
    privacy = ClientDP(noise_multiplier=0.0, delta=1e-3, clip=0.3)
    local = LocalTraining(2, batch_size=5, lr=0.1)
    near = simulate(
        FedAvg(),
        clustered_data(),
        model_of(),
        rounds=2,
        cohort=CLIENTS,
        local=local,
        options=[privacy, SecretSums()],
    )
    np.testing.assert_allclose(exact.models, near.models, rtol=1e-4, atol=1e-6)
    assert exact.summary()["privacy"]["epsilon"] == "infinite"
    # Noise of two rounds, each 0.3 sqrt(6 / 3) / 6, and the effect of the first on the second.
    noise = (run.models - exact.models).std()
    assert 0.05 < noise < 0.3


def test_private_cohorts_of_real_sites_may_be_few_or_none(lab: Lab) -> None:
    """A cohort below ``least`` has no sum, is charged, and the run goes on; one that always is
    below is refused."""
    lab.join(*range(CLIENTS))
    section = 'selection = "poisson"\n' + PRIVATE + "noise_multiplier = 2.0"
    said = lab.serve(method=FEDAVG, rounds=5, cohort=3, more=section).summary()
    assert said["privacy"]["rounds"]["released"] == 5 and said["rounds"] == 5
    with pytest.raises(
        ConfigError, match=r"cohorts of run\.cohort = 2 are too small for a secret sum"
    ):
        lab.serve(method=FEDAVG, rounds=5, cohort=2, more=section)


@pytest.mark.parametrize(
    ("section", "message"),
    [
        (
            PRIVATE.split("\n", 2)[2] + "epsilon = 2",
            r"privacy: without secret sums the server .* add \[secret\]",
        ),
        (
            PRIVATE + "epsilon = 2\ntesting_only_seeded_noise = true",
            r"seeded noise is for tests of simulations",
        ),
        (PRIVATE + "epsilon = 2\nscores = 5", r"leave out privacy\.scores"),
        (PRIVATE + "epsilon = 2\nadaptive = true", r"leave out privacy\.adaptive"),
        (PRIVATE + "epsilon = 0", r"epsilon must be a number above 0"),
    ],
)
def test_noise_of_real_sites_that_cannot_be_trusted_is_refused(
    section: str, message: str, lab: Lab
) -> None:
    with pytest.raises(ConfigError, match=message):
        lab.serve(method=FEDAVG, more=section)
    assert not (lab.folder / "run").exists()


@pytest.mark.parametrize("round", [1, 3])
def test_a_stopped_server_resumes_to_the_same_result(
    round: int, lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = Lab(tmp_path / "whole", monkeypatch)
    whole.join(*range(CLIENTS))
    expected = whole.serve(more="checkpoint_every = 1")
    lab.engine(MemoryTransport())
    lab.join(*range(CLIENTS))
    nodes = {node: station.handle for node, station in lab.transport.stations.items()}
    lab.transport.stations[98].tamper = stopping(round, "train")  # type: ignore[assignment]
    with pytest.raises(KeyboardInterrupt):
        lab.serve(more="checkpoint_every = 1")
    lab.engine(MemoryTransport())
    for number, replies in enumerate(nodes.values()):  # the same nodes, with other numbers
        lab.transport.join(700 + 13 * number, replies)
    found = lab.serve(more="checkpoint_every = 1")
    np.testing.assert_array_equal(found.models, expected.models)
    np.testing.assert_array_equal(found.assignment, expected.assignment)
    assert found.clients["name"].tolist() == expected.clients["name"].tolist()
    for mine, other in zip(found.records, expected.records, strict=True):
        assert (
            mine["accuracy"] == other["accuracy"]
            and mine["cluster_sizes"] == other["cluster_sizes"]
        )
        assert mine["bytes_by_operation"] == other["bytes_by_operation"]
        # Handshakes and reports of shifts came twice.
        for operation in (
            "train",
            "similarities",
            "scoring.evaluate",
        ):
            weight = mine["messages_by_operation"].get(operation)
            assert weight == other["messages_by_operation"].get(operation), (
                mine["round"],
                operation,
            )
    summary = found.summary()
    assert (summary["messages_down"], summary["messages_up"]) == tuple(
        sum(
            w[side]
            for name, w in found.records[-1]["messages_by_operation"].items()
            if "scoring" not in name
        )
        for side in (0, 1)
    )
    again = found.save(tmp_path / "again")  # written from the records
    kept, _ = checkpoint.newest(again / "checkpoints")
    assert kept.measured_down["train"] == found.records[-1]["messages_by_operation"]["train"][0]


def test_a_finished_run_is_read_and_not_run_again(lab: Lab) -> None:
    lab.join(*range(CLIENTS))
    first = lab.serve()
    before = lab.transport.operations().count("train")
    second = lab.serve()
    assert lab.transport.operations().count("train") == before
    same(first, second)


def test_a_changed_configuration_is_refused(lab: Lab) -> None:
    lab.join(*range(CLIENTS))
    lab.serve(rounds=2)
    with pytest.raises(CheckpointError, match=r"cohort is 6 there and 3 here"):
        lab.serve(rounds=2, cohort=3)
    with pytest.raises(CheckpointError, match="configuration"):
        lab.serve(rounds=2, method=FEDAVG)
    assert lab.serve(rounds=3).records[-1]["round"] == 3  # longer is the same run


def test_invalid_settings_are_refused_before_anything_is_written(lab: Lab) -> None:
    for values in (
        {"cohort": 7},
        {"method": 'name = "flexcfl"\nclusters = 7'},
        {"more": 'against = ["athena"]'},
    ):
        with pytest.raises((ConfigError, ModelError)):
            lab.serve(**values)
    assert not (lab.folder / "run").exists()


def test_a_model_that_a_later_method_cannot_train_is_refused_before_the_first_one_runs(
    lab: Lab,
) -> None:
    lab.join(*range(CLIENTS))
    with pytest.raises(
        ConfigError, match=r"FedPer needs layers before the model's last one.*model\.name=mlp"
    ):
        lab.serve(method=FEDAVG, more='against = ["fedper"]')
    assert not lab.transport.pushed and not (lab.folder / "run").exists()


# --- methods side by side


def test_methods_run_one_after_another_with_the_same_clients(lab: Lab) -> None:
    lab.join(*range(CLIENTS))
    found = lab.serve(rounds=2, more='against = ["fedavg"]')
    assert [*found.against] == ["fedavg"]
    assert found.against["fedavg"].clients["name"].tolist() == found.clients["name"].tolist()
    assert (lab.folder / "run" / "against" / "fedavg" / "summary.json").is_file()
    hellos = [node for _, node, operation, _ in lab.transport.pushed if operation == "hello"]
    assert len(hellos) == CLIENTS


def test_nodes_that_came_during_another_method_do_not_prevent_resuming(lab: Lab) -> None:
    """They have their ids from the second run; the first one knows nothing of them."""
    lab.join(0, 1)
    values = {
        "wait_for": 2,
        "cohort": 2,
        "rounds": 2,
        "method": FEDAVG,
        "more": 'against = ["fedprox"]',
    }
    values["more"] += "\ncheckpoint_every = 1"
    lab.serve(**merged(values, {"rounds": 1}))
    lab.engine(MemoryTransport())
    lab.join(0, 1)

    def come(request: RpcMessage, reply: RpcMessage) -> RpcMessage:  # site-5 first, and then site-3
        if request.header["operation"] == "train" and "fedprox" in request.header["run"]:
            lab.join(5 if 95 not in lab.transport.stations else 3)
        return reply

    lab.transport.stations[100].tamper = come
    lab.serve(**merged(values, {"rounds": 4}))
    lab.transport.stations[100].tamper = lambda request, reply: reply
    stations = dict(lab.transport.stations)
    lab.engine(MemoryTransport())
    for number, station in enumerate(stations.values()):
        lab.transport.join(number, station.handle)
    found = lab.serve(**merged(values, {"rounds": 5, "wait_for": 2}))
    assert found.against["fedprox"].clients["name"].tolist()[:4] == [
        "site-0",
        "site-1",
        "site-5",
        "site-3",
    ]


# --- scores


def test_training_reports_accuracy_before_local_training(lab: Lab) -> None:
    lab.join(*range(CLIENTS))
    records = lab.serve(method=FEDAVG, rounds=3).records
    for before, now in zip(records, records[1:], strict=False):
        assert now["accuracy_before_training"] == before["accuracy"]


# --- nodes that come and go


def test_ids_without_a_client_are_left_out(lab: Lab) -> None:
    lab.join(0, 1, 2)
    found = lab.serve(wait_for=3, cohort=3, capacity=20)
    assert (
        found.assignment.shape == (20,)
        and (found.assignment[3:] == -1).all()
        and (found.assignment[:3] >= 0).all()
    )
    assert found.clients["name"].tolist()[:3] == ["site-0", "site-1", "site-2"]


def test_a_new_node_is_assigned_and_scored_in_the_next_round(lab: Lab) -> None:
    lab.join(0, 1, 2, 3)

    def come(request: RpcMessage, reply: RpcMessage) -> RpcMessage:
        if (
            request.header["operation"] == "train"
            and request.header["stream"][1] == 1
            and 95 not in lab.transport.stations
        ):
            lab.join(5)
        return reply

    lab.transport.stations[100].tamper = come
    found = lab.serve(wait_for=4)
    assert [sum(record["cluster_sizes"]) for record in found.records[1:]] == [4, 5, 5, 5]
    assert found.clients["name"].tolist()[:5] == ["site-0", "site-1", "site-2", "site-3", "site-5"]
    assert found.assignment[4] >= 0
    hello = next(when for when, node, operation, _ in lab.transport.pushed if node == 95)
    assert hello == 2  # it came during round 1, and replies at once


def test_a_node_that_leaves_is_missing_and_has_its_cluster_when_it_comes_back(lab: Lab) -> None:
    lab.join(*range(CLIENTS))
    gone: list[Any] = []

    def go(request: RpcMessage, reply: RpcMessage) -> RpcMessage:
        if request.header["operation"] == "evaluate" and 98 in lab.transport.stations and not gone:
            gone.append(lab.transport.leave(98))
        if (
            request.header["operation"] == "train"
            and request.header["stream"][1] == 3
            and 998 not in lab.transport.stations
        ):
            lab.transport.join(998, gone[0].handle)
        return reply

    lab.transport.stations[100].tamper = go
    found = lab.serve(rounds=6)
    there = [sum(record["cluster_sizes"]) for record in found.records[1:]]
    assert there == [5, 5, 5, 6, 6, 6]
    assert found.clients["name"].tolist() == [f"site-{k}" for k in range(CLIENTS)]
    assert (found.assignment >= 0).all()


def test_a_nonfinite_reply_is_counted_in_the_record(lab: Lab) -> None:
    lab.join(*range(CLIENTS))

    def poison(request: RpcMessage, reply: RpcMessage) -> RpcMessage:
        if request.header["operation"] != "train":
            return reply
        return RpcMessage(
            reply.header, {**reply.arrays, "update": np.full_like(reply.arrays["update"], np.nan)}
        )

    lab.transport.stations[98].tamper = poison
    found = lab.serve(method=FEDAVG, rounds=2)
    assert [(record["nonfinite"], record["missing"]) for record in found.records[1:]] == [
        (1, 0),
        (1, 0),
    ]
    assert np.isfinite(found.models).all()


@pytest.mark.parametrize(
    "method", [FEDAVG, FLEXCFL, 'name = "fedsim"\nclusters = 2', 'name = "ifca"\nclusters = 2']
)
def test_no_round_is_longer_than_its_deadline_with_one_of_four_dead(method: str, lab: Lab) -> None:
    """The dead node is missing once, and then left out."""
    lab.join(0, 1, 2, 3)
    for station in lab.transport.stations.values():
        station.delay = 6.0
    times: list[float] = []
    lab.monkeypatch.setattr(
        serving, "log_round", lambda record, rounds: times.append(lab.transport.clock.now)
    )
    lab.transport.clock.at(20.0, lambda: lab.transport.kill(98))
    found = lab.serve(method=method, capacity=4, wait_for=4, cohort=4, rounds=5)
    lengths = np.diff([0.0, *times])
    assert lengths.max() <= 90 + 5
    assert (lengths[-2:] < 60).all()
    assert len(found.records) == 6
