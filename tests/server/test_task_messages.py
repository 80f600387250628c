"""Tasks and replies as messages: how each kind of field is sent, and that it comes back as it
was."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from fedkin.core.errors import TaskError
from fedkin.core.model_spec import ModelSpec
from fedkin.core.randomness import Stream
from fedkin.core.replies import Reply
from fedkin.core.schedule import Schedule
from fedkin.core.schema import Rows
from fedkin.core.task import Task, chosen, each, fields_down, initial, kept, setting, shared, stays
from fedkin.core.training import LocalTraining
from fedkin.server.handshake import model_digest
from fedkin.server.message import InvalidMessageError, RpcMessage
from fedkin.server.task_messages import (
    Known,
    array_digest,
    decode_task,
    encode_reply,
    encode_task,
    plain_settings,
    plain_stream,
    read_stream,
    used_models,
)
from fedkin.tasks.evaluate import Evaluate
from fedkin.tasks.shift import Shifted
from fedkin.tasks.train import Train
from tests.mappings import merged
from tests.server.memory_transport import transmitted
from tests.tasks.test_conformance import EXAMPLES, PAIRS, given, model_of

START = Stream(1, 0, "init")
MODEL = np.arange(4, dtype=np.float32)
MODELS = np.arange(20, dtype=np.float32).reshape(5, 4)
WORK = LocalTraining(epochs=np.array([1, 4, 2]), lr=0.25, mu=0.5, momentum=0.9)
INDEX = np.array([4, 1, 4])


@dataclass(frozen=True)
class AllKinds(Task):
    """A field of every kind."""

    whole: np.ndarray = shared("K P")
    some: np.ndarray = chosen("K P", by="own_model")
    own_model: np.ndarray = each()
    start: np.ndarray = initial("P")
    table: np.ndarray = kept("T P")
    work: LocalTraining = setting()
    names: tuple[str, ...] = ("a", "b")
    part: slice | None = None
    parts: tuple[slice, ...] = ()
    limit: float = 1.5
    times: int = 3
    flag: bool = True
    secret: str = stays(default="of the server")

    up = Rows()


TASK = AllKinds(
    MODELS,
    MODELS,
    INDEX,
    MODEL,
    MODELS[:2],
    WORK,
    ("x",),
    slice(1, 3),
    (slice(0, 2), slice(4, None, 2)),
    0.5,
    7,
    False,
    "no task's value",
)


def sent(task: Task, rows: Any, known: Known = Known()) -> RpcMessage:  # noqa: B008 - it is frozen
    """The request as it arrives."""
    return transmitted(encode_task(task, np.array(rows), known))[0]


def received(
    kind: type[Task], message: RpcMessage, stored: dict[str, np.ndarray] | None = None
) -> Any:
    return decode_task(kind, message, lambda stream: MODEL + stream.seed, stored or {})


def assert_equal(one: Any, two: Any) -> None:
    if isinstance(two, LocalTraining):
        one = dataclasses.asdict(one)
        two = dataclasses.asdict(two)
        assert one.keys() == two.keys()
        for name, value in two.items():
            assert_equal(one[name], value)
    elif isinstance(two, np.ndarray):
        np.testing.assert_array_equal(one, two)
    else:
        assert one == two and type(one) is type(two)


# --- requests


def test_every_kind_of_field_arrives() -> None:
    found = received(AllKinds, sent(TASK, [0, 2, 1]))
    for name in ("whole", "start", "table", "names", "part", "parts", "limit", "times", "flag"):
        assert_equal(getattr(found, name), getattr(TASK, name))
    assert_equal(found.work, replace(WORK, epochs=np.array([1, 2, 4])))
    np.testing.assert_array_equal(found.some, MODELS[[1, 4]])
    np.testing.assert_array_equal(found.some[found.own_model], MODELS[[4, 4, 1]])


def test_every_setting_of_local_training_arrives() -> None:
    """Schedules and class weights, which are no plain values; options that are not used are not
    sent."""
    options = {"weight_decay": 0.1, "clip_norm": 2.0, "nesterov": True, "label_smoothing": 0.1}
    schedules = {
        "schedule": Schedule("cosine", length=9, warmup=2),
        "step_schedule": Schedule("linear"),
    }
    work = replace(WORK, class_weights=(0.5, 2.0), **options, **schedules)
    assert_equal(received(AllKinds, sent(replace(TASK, work=work), [0, 1, 2])).work, work)
    assert not {*options, *schedules, "class_weights"} & sent(TASK, [0]).header["work"].keys()


def test_values_that_stay_are_not_sent() -> None:
    message = sent(TASK, [0])
    assert "secret" not in message.header and "secret" not in message.arrays
    assert received(AllKinds, message).secret == "of the server"


def test_a_node_gets_the_models_of_its_rows() -> None:
    for rows, models in (([0], [4]), ([1], [1]), ([2, 1], [1, 4])):
        np.testing.assert_array_equal(sent(TASK, rows).arrays["some"], MODELS[models])
        used = used_models(TASK, np.array(rows))
        assert {by: own.tolist() for by, own in used.items()} == {"own_model": models}


def test_no_detector_is_minus_one() -> None:
    index = np.array([[0, -1], [3, 0], [-1, -1]])
    found = received(Evaluate, sent(Evaluate(MODELS, index), [2, 1]))
    np.testing.assert_array_equal(found.models, MODELS[[0, 3]])
    np.testing.assert_array_equal(found.model_index, [[-1, -1], [1, 0]])


def test_clients_that_choose_get_all_models() -> None:
    task = Train(MODELS, WORK)
    found = received(Train, sent(task, [1]))
    assert found.model_index is None and used_models(task, np.array([1])) == {}
    np.testing.assert_array_equal(found.models, MODELS)


def test_kept_arrays_are_sent_where_the_node_has_others() -> None:
    stored = {"table": MODELS[:2]}
    message = sent(TASK, [0], Known({"table": array_digest(MODELS[:2])}))
    assert "table" not in message.arrays
    np.testing.assert_array_equal(received(AllKinds, message, stored).table, MODELS[:2])
    with pytest.raises(InvalidMessageError, match="the request lacks the array table"):
        received(AllKinds, message)
    other = sent(TASK, [0], Known({"table": array_digest(MODELS[1:3])}))
    np.testing.assert_array_equal(received(AllKinds, other, stored).table, MODELS[:2])


def test_digests_tell_shapes_and_types_apart() -> None:
    arrays = [
        MODELS,
        MODELS.T.copy(),
        MODELS.ravel(),
        MODELS.astype(np.float64),
        MODELS.view(np.int32),
        MODELS + 1,
    ]
    assert len({array_digest(array) for array in arrays}) == len(arrays)
    assert array_digest(MODELS) == array_digest(np.asfortranarray(MODELS))


def test_an_initial_model_is_its_randomness_where_both_make_the_same() -> None:
    known = Known(start=START, start_digest=model_digest(MODEL))
    message = sent(TASK, [0], known)
    assert "start" not in message.arrays and message.header["start"] == [1, 0, "init"]
    np.testing.assert_array_equal(received(AllKinds, message).start, MODEL + START.seed)
    another = sent(replace(TASK, start=MODEL * 2), [0], known)
    np.testing.assert_array_equal(received(AllKinds, another).start, MODEL * 2)


def test_an_array_that_no_declaration_sends_is_refused() -> None:
    with pytest.raises(
        TaskError,
        match=r"all_kinds: limit = .* cannot be sent as a setting; declare how it travels",
    ):
        limited = replace(TASK, limit=np.ones(3))  # type: ignore[arg-type]
        encode_task(limited, np.array([0]), Known())


def test_requests_with_something_missing_are_refused() -> None:
    message = sent(TASK, [0])
    for name in message.arrays:
        if name != "work.epochs":
            with pytest.raises(InvalidMessageError, match=name):
                received(
                    AllKinds,
                    RpcMessage(
                        message.header, {n: a for n, a in message.arrays.items() if n != name}
                    ),
                )
    for name in ("flag", "part", "work", "limit"):
        with pytest.raises(InvalidMessageError, match=name):
            received(
                AllKinds,
                RpcMessage({n: v for n, v in message.header.items() if n != name}, message.arrays),
            )
    with pytest.raises(InvalidMessageError, match="flag"):
        received(AllKinds, RpcMessage({**message.header, "flag": 1}, message.arrays))


def test_settings_that_a_task_cannot_have_are_refused() -> None:
    @dataclass(frozen=True)
    class Rated(Task):
        rate: float = 0.5
        up = Rows()

        def __post_init__(self) -> None:
            if self.rate > 1:
                raise TaskError(f"rate is at most 1, got {self.rate}")
            if self.rate <= 0:
                raise ValueError("a rate of nothing")

    for rate, reason in (
        (2, "^rate is at most 1, got 2$"),
        (0, "the task rated does not accept these settings: a rate of nothing"),
        ("x", "rated"),
    ):
        with pytest.raises(InvalidMessageError, match=reason):
            received(Rated, RpcMessage({"rate": rate}))
    assert received(Rated, RpcMessage({"rate": 0.25})).rate == 0.25


@pytest.mark.parametrize("stream", [None, START, Stream(7, 12, "method/round/cohort")])
def test_a_stream_comes_back(stream: Stream | None) -> None:
    header = transmitted(RpcMessage({"stream": plain_stream(stream)}))[0].header
    _ = None
    assert header["stream"] is None if stream is None else read_stream(header["stream"]) == stream


@pytest.mark.parametrize(
    "value", [None, 5, [1, 2], [1, 2, 3], [1.0, 2, "x"], [True, 2, "x"], ["a", 1, "x"]]
)
def test_anything_else_is_no_stream(value: Any) -> None:
    with pytest.raises(InvalidMessageError, match="expected a stream"):
        read_stream(value)


def test_the_settings_of_a_standing_task() -> None:
    assert plain_settings(Shifted("label_aware", 1.0)) == {"test": "label_aware", "threshold": 1.0}


@pytest.mark.parametrize(
    ("name", "model"), [pair for pair in PAIRS if pair[1] in ("dense", "small")]
)
def test_every_task_of_fedkin_arrives(name: str, model: str) -> None:
    g = given(name, model)
    spec: ModelSpec = model_of(name, model).spec
    task = EXAMPLES[name].make(g).for_messages(spec)
    rows = np.array([2, 0])
    found = received(type(task), sent(task, rows))
    expected = task.select(rows)
    used = used_models(task, rows)
    for field, down in fields_down(task):
        value = getattr(expected, field)
        mine = getattr(found, field)
        if down.kind == "chosen" and down.by in used:
            np.testing.assert_array_equal(mine, value[used[down.by]])
        elif field in used:
            np.testing.assert_array_equal(np.where(mine < 0, -1, used[field][mine]), value)
        elif down.kind != "stays":
            assert_equal(mine, value)


# --- replies


def reply(**arrays: Any) -> Reply:
    return Reply(
        arrays,
        np.array([True, False]),
        np.array([False, True]),
        np.array([0.0, 7.0, 0.0, 0.0, 0.0]),
    )


ARRAYS = {
    "update": MODELS + 1,
    "loss": np.arange(5.0),
    "first_loss": np.arange(5.0) + 10,
    "examples": np.array([7, 5]),
    "model_index": np.array([1, 0]),
}


def test_means_are_of_the_models_that_were_trained() -> None:
    told = encode_reply(Train(MODELS, WORK, np.array([1, 1]), reduce=True), reply(**ARRAYS))
    assert told.keys() == {
        "update",
        "loss",
        "first_loss",
        "arrived",
        "nonfinite",
        "weight",
        "trained_models",
    }
    np.testing.assert_array_equal(told["update"], MODELS[[1]] + 1)
    assert (
        told["trained_models"].tolist() == [1]
        and told["weight"].tolist() == [7.0]
        and told["loss"].tolist() == [1]
    )


def test_clients_that_chose_say_which() -> None:
    told = encode_reply(Train(MODELS, WORK, reduce=True), reply(**ARRAYS))
    # Samples are registered.
    assert told["model_index"].tolist() == [1, 0] and "examples" not in told


def test_rows_are_flagged_even_where_they_hold_numbers() -> None:
    rows = reply(
        **merged(ARRAYS, {"update": MODELS[:2], "loss": np.zeros(2), "first_loss": np.zeros(2)})
    )
    single = replace(rows, weight=None)
    told = encode_reply(Train(MODELS, WORK, np.array([1, 1])), single)
    assert told.keys() == {*ARRAYS, "arrived", "nonfinite"} and told["arrived"].tolist() == [
        True,
        False,
    ]
    scores = replace(reply(sums=np.ones((2, 1)), examples=INDEX[:2], loss=np.zeros(2)), weight=None)
    told = encode_reply(Evaluate(MODELS, INDEX[:2]), scores)
    assert told.keys() == {"sums", "examples", "loss", "arrived", "nonfinite"}
    whole = replace(scores, arrived=np.ones(2, bool), nonfinite=np.zeros(2, bool))
    assert encode_reply(Evaluate(MODELS, INDEX[:2]), whole).keys() == {
        "sums",
        "examples",
        "loss",
    }
