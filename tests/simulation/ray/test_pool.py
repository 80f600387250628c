"""The deal of rows to actors where actors fail, on a stand-in for Ray: the failed rows are named,
with the way on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import equinox as eqx
import jax
import numpy as np
import pytest

import fedkin as fk
from fedkin.config.run import load
from fedkin.core.errors import ConfigError, DataError, ModelError, TaskError, WorkerError
from fedkin.core.randomness import Stream
from fedkin.scenarios.population import Population
from fedkin.simulation import run_rows
from fedkin.simulation.engine import SimulatedWorld
from fedkin.simulation.ray import pool as ray_pool
from fedkin.simulation.ray.pool import ActorPool, Cluster, _Actor, _PackedData, versions
from fedkin.tasks.train import Train

exceptions = pytest.importorskip("ray.exceptions")


class Ray:
    """Ray in this process: a future is a function. ``computed`` is the work of actors on a part of
    a call."""

    def __init__(
        self, computed: Callable[..., Any], resources: dict[str, float] | None = None
    ) -> None:
        self.exceptions = exceptions
        self.computed = computed
        self.options = {}
        self.started = 0
        self.resources = resources or {"CPU": 2}
        self.machines = 1
        self.cores: Sequence[float] = ()  # of the machines; by default alike
        self.digest: str | None = None  # of the packed data that actors have opened
        self.before_ready: Callable[[], Any] = lambda: None  # raises if an actor cannot start

    def is_initialized(self) -> bool:
        return True

    def nodes(self) -> list[dict[str, Any]]:
        cores = self.cores or [self.resources["CPU"] / self.machines] * self.machines
        return [{"Alive": True, "Resources": {"CPU": number}} for number in cores]

    def cluster_resources(self) -> dict[str, float]:
        return self.resources

    def put(self, value: Any) -> Any:
        return value

    def get(self, future: Callable[[], Any]) -> Any:
        return future()

    def wait(self, futures: list[Any], timeout: float) -> tuple[list[Any], list[Any]]:
        return futures, []

    def kill(self, actor: Any) -> None: ...

    def _ready(self) -> tuple[str, dict[str, str], str | None]:
        self.before_ready()
        return "machine", versions(), self.digest

    def remote(self, **options: Any) -> Any:
        self.options = options

        def actor(_: Any) -> Any:
            self.started += 1
            # Each actor has another future.
            ready = SimpleNamespace(remote=lambda: lambda: self._ready())
            compute = SimpleNamespace(remote=lambda *call: lambda: self.computed(*call))
            return _Handle(ready=ready, compute=compute)

        return lambda _: SimpleNamespace(remote=actor)


class _Handle(SimpleNamespace):
    __hash__ = object.__hash__  # type: ignore[assignment]


def pool(ray: Ray, monkeypatch: pytest.MonkeyPatch, folder: Path | None = None) -> ActorPool:
    monkeypatch.setattr(ray_pool, "_import_ray", lambda: ray)
    data = fk.data.synthetic(clients=4, samples=5)
    data = data if folder is None else fk.data.pack(data, folder)
    made = ActorPool(
        cluster=lambda: Cluster("ray", None),
        data=data,
        model=fk.models.mclr(data),
        ids=np.arange(4),
        clients_per_batch=None,
    )
    made.deal(np.arange(4), np.ones(4, np.int64))
    return made


def fails(error: Exception) -> Callable[..., Any]:
    def compute(*_: Any, **__: Any) -> Any:
        raise error

    return compute


def test_actors_that_run_out_of_memory_are_replaced_and_at_last_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ray = Ray(fails(exceptions.OutOfMemoryError("killed")))
    words = (
        r"5 Ray actors, one after another.*ran out of memory: "
        r"use fewer actors \(run\.actors\)"
    )
    with pytest.raises(WorkerError, match=words):
        pool(ray, monkeypatch).compute("trainer.train", (), [(), ()])
    assert ray.started == 2 * (1 + 5)


def test_an_actor_that_cannot_start_is_replaced_a_few_times(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    ray = Ray(lambda *_, **__: 1)
    failing = [exceptions.ActorDiedError] * 2
    ray.before_ready = lambda: fails(failing.pop())() if failing else None
    assert pool(ray, monkeypatch).compute("trainer.train", (), [(0,), (1,)]) == [1, 1]
    assert ray.started == 4 and caplog.text.count("could not be started") == 2

    ray = Ray(lambda *_, **__: 1)
    ray.before_ready = fails(exceptions.ActorDiedError())
    with pytest.raises(WorkerError, match="no Ray actor could be started"):
        pool(ray, monkeypatch)
    assert ray.started < 10


def test_rows_of_an_actor_that_dies_are_dealt_again(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def compute(method: str, shared: tuple, part: tuple[int]) -> int:
        calls.append(part[0])
        if calls == [0, 1]:
            raise exceptions.ActorDiedError
        return 10 * part[0]

    ray = Ray(compute)
    assert pool(ray, monkeypatch).compute("trainer.train", (), [(0,), (1,)]) == [0, 10]
    assert calls == [0, 1, 1] and ray.started == 3


def test_an_array_that_an_actor_cannot_allocate_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    error = exceptions.RayTaskError("compute", "traceback", MemoryError("Unable to allocate 9 GiB"))
    with pytest.raises(WorkerError, match=r"could not allocate an array: use fewer actors"):
        pool(Ray(fails(error)), monkeypatch).compute("trainer.train", (), [()])


def test_a_machine_with_other_samples_under_the_same_path_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    ray = Ray(lambda *_, **__: 1)
    with pytest.raises(
        DataError,
        match=rf"machine machine of the cluster has different packed data in {tmp_path}/one: ",
    ):
        pool(ray, monkeypatch, Path("one"))
    data = fk.data.load(tmp_path / "one")
    held = _PackedData(tmp_path / "one", data.task_type)
    actor = _Actor((held, fk.models.mclr(data), np.arange(4), None, 1))
    ray.digest = actor.ready()[2]
    assert ray.digest is not None
    assert pool(ray, monkeypatch, Path("two")).compute("trainer.train", (), [()]) == [1]


@pytest.mark.parametrize(
    ("resources", "machines", "actors", "cores", "gpus"),
    [
        ({"CPU": 4}, 1, 4, 1, 0),
        ({"CPU": 8}, 2, 2, 4, 0),
        ({"CPU": 16, "GPU": 2}, 1, 2, 8, 1),
        ({"CPU": 64, "GPU": 8}, 4, 8, 8, 1),
    ],
)
def test_actors_take_the_gpus_of_a_cluster(
    resources: dict[str, float],
    machines: int,
    actors: int,
    cores: int,
    gpus: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ray = Ray(lambda *_, **__: 1, resources)
    ray.machines = machines
    own = pool(ray, monkeypatch)
    assert own.compute("trainer.train", (), [()]) == [1]
    assert (ray.started, ray.options["num_cpus"], ray.options.get("num_gpus", 0)) == (
        actors,
        cores,
        gpus,
    )
    assert ("runtime_env" in ray.options) == (cores == 1)


def test_actors_that_find_no_room_are_named(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Two actors of ten cores each: one machine has sixteen, and the other four."""
    ray = Ray(lambda *_, **__: 1, {"CPU": 20})
    ray.machines = 2
    ray.cores = (16, 4)
    monkeypatch.setattr(ray_pool, "_import_ray", lambda: ray)
    Cluster("ray", None)
    assert "room for 1 of 2 actors of 10 cores each" in caplog.text
    caplog.clear()
    Cluster("ray", 5)
    assert not caplog.text


def test_actors_share_gpus_where_more_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        ray_pool, "_import_ray", lambda: Ray(lambda *_, **__: 1, {"CPU": 16, "GPU": 2})
    )
    assert Cluster("ray", 4).gpus == 0.5
    assert Cluster("ray", 1).gpus == 2


@pytest.mark.parametrize("compiled", [True, False])
def test_actors_that_sum_send_sums_and_the_same_means(
    compiled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nine clients of different sizes train two models on three actors. Some clients drop out."""
    data = fk.data.synthetic(clients=9, samples=6, seed=1)
    model = fk.models.mclr(data)
    work = fk.SGD(epochs=1, batch_size=4, lr=0.1)
    actor = _Actor((data, model, np.arange(9), None, 1))
    sent = []

    def compute(*call: Any) -> Any:
        sent.append((call[0], actor.compute(*call)))
        return sent[-1][1]

    monkeypatch.setattr(ray_pool, "_import_ray", lambda: Ray(compute))
    make_world = partial(
        SimulatedWorld,
        data,
        model,
        work,
        population=Population(dropout=0.3),
        compiled=compiled,
    )
    plain = make_world()
    spread = make_world(engine="ray", actors=3, sum_by_actor=True)
    models = np.stack([plain.initial(Stream(seed)) for seed in (1, 2)])
    task = Train(models, work, np.arange(9) % 2, reduce=True)
    expected, reply = (world.run(task, np.arange(9), Stream(3, 1)) for world in (plain, spread))
    assert (
        0 < expected.arrived.sum() < 9 and expected.weight is not None and reply.weight is not None
    )
    np.testing.assert_array_equal(reply.arrived, expected.arrived)
    np.testing.assert_array_equal(reply.examples, expected.examples)
    np.testing.assert_array_equal(reply.weight, expected.weight)
    np.testing.assert_allclose(reply.update, expected.update, atol=1e-6)
    np.testing.assert_allclose(reply.loss, expected.loss, atol=1e-6)
    assert np.abs(expected.update).max() > 1e-3
    assert (spread.ledger.down, spread.ledger.up) == (plain.ledger.down, plain.ledger.up)
    assert [method for method, _ in sent] == ["replies.partial"] * 3
    assert all(set(part.arrays) == {"examples", "model_index"} for _, part in sent)


def test_rows_that_are_wanted_one_by_one_are_not_summed(monkeypatch: pytest.MonkeyPatch) -> None:
    data = fk.data.synthetic(clients=4, samples=5)
    model = fk.models.mclr(data)
    work = fk.SGD(epochs=1)
    actor = _Actor((data, model, np.arange(4), None, 1))
    monkeypatch.setattr(ray_pool, "_import_ray", lambda: Ray(actor.compute))
    plain = SimulatedWorld(data, model, work)
    spread = SimulatedWorld(data, model, work, engine="ray", actors=2, sum_by_actor=True)
    task = Train(plain.initial(Stream(0))[None], work, np.zeros(4, np.int64))
    expected, reply = (world.run(task, np.arange(4), Stream(0, 1)) for world in (plain, spread))
    np.testing.assert_array_equal(reply.update, expected.update)


def test_summing_without_actors_is_refused() -> None:
    data = fk.data.synthetic(clients=4, samples=5)
    with pytest.raises(
        ConfigError, match=r"compute\.sum_by_actor: needs the actors of Ray; set engine"
    ):
        fk.simulate(
            fk.FedAvg(),
            data,
            fk.models.mclr(data),
            rounds=1,
            cohort=2,
            compute=fk.Compute(sum_by_actor=True),
        )
    with pytest.raises(ConfigError, match=r"run\.sum_by_actor: needs the actors of Ray"):
        load(None, ["run.sum_by_actor=true"])


def test_a_part_of_the_samples_is_not_for_actors_that_sum() -> None:
    with pytest.raises(
        TaskError, match=r"cannot be summed by actors; set run\.sum_by_actor = false"
    ):
        run_rows._refuse_part(np.zeros(1), [np.zeros(1)])


def test_actors_open_packed_data_with_the_task_type_of_the_run(tmp_path: Path) -> None:
    """A private run has no constant model of training labels, which the files have."""
    x = np.random.default_rng(0).normal(size=(12, 2)).astype(np.float32)
    given = {"mean": 100.0, "scale": 25.0}
    data = fk.data.from_arrays(
        x, x[:, 0].astype(float), clients=[0, 1] * 6, task="regression", label_scale_from=given
    )
    packed = fk.data.pack(data, tmp_path / "packed")
    private = packed.with_task_type(packed.task_type.as_given())
    assert packed.task_type.centre != private.task_type.centre == 0
    assert private.packed is not None
    found = _PackedData(private.packed.folder, private.task_type).opened()
    assert found.task_type.centre == 0 and found.packed == packed.packed


class AtTopLevel(eqx.Module):
    """A module whose class other processes can import."""

    layer: eqx.nn.Linear

    def __call__(self, x: Any) -> Any:
        return self.layer(x)


@pytest.mark.parametrize("lora", [False, True])
def test_modules_whose_class_actors_cannot_import_are_named(lora: bool) -> None:
    """Otherwise their layers would be lost on the way."""
    from fedkin.simulation.ray.script_classes import check_classes

    class Local(AtTopLevel):
        pass

    data = fk.data.digits(clients=3)
    layer = eqx.nn.Linear(64, 10, key=jax.random.key(0))

    def model_of(net: Any) -> Any:
        return (
            fk.lora(data, net, rank=2, targets=("layer",), head=False) if lora else fk.as_model(net)
        )

    check_classes(model_of(AtTopLevel(layer)))
    with pytest.raises(ModelError, match=r"class Local .* within a function, .* top level of a"):
        check_classes(model_of(Local(layer)))
