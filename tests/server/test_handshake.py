"""The handshake: values that must be equal on both sides, and who logs a difference."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fedkin import __version__
from fedkin.core.model_spec import ModelSpec
from fedkin.server.handshake import Handshake, check, make_handshake, model_digest
from fedkin.server.message import InvalidMessageError, RpcMessage
from tests.server.small_federations import ABOUT, fake_node

OTHERS: list[tuple[dict[str, Any], tuple[str, ...]]] = [
    ({"federation": "night"}, ("'trial' at the site", "'night' at the server")),
    ({"version": "0.0.1"}, (f"'{__version__}' at the site", "'0.0.1' at the server")),
    ({"parameters": 7850}, ("parameters", "4 at the site", "7850 at the server")),
    ({"layout": "abc"}, ("layers", "'abc' at the server")),
    ({"samples": "[3] -> 2"}, ("[4] -> 3", "[3] -> 2")),
    ({"backbone": "b1"}, ("backbone's weights", "'' at the site", "'b1' at the server")),
    ({"config": "x1"}, ("hash 'c0' at the site", "'x1' at the server")),
]
FULL = replace(ABOUT, config="c0")


@pytest.mark.parametrize(("changes", "words"), OTHERS)
def test_a_difference_is_named_with_both_values(
    changes: dict[str, Any], words: tuple[str, ...]
) -> None:
    with pytest.raises(InvalidMessageError) as refused:
        check(FULL, replace(FULL, **changes), "at the site", "at the server")
    for word in words:
        assert word in str(refused.value)


def test_a_difference_names_both_sides_and_its_cure() -> None:
    cures = {
        "federation": "client.federation",
        "version": "same version",
        "config": "[samples] and [model]",
    }
    for name, cure in cures.items():
        with pytest.raises(InvalidMessageError) as refused:
            check(FULL, replace(FULL, **{name: "another"}), "at the site", "at the server")
        assert "'another' at the server" in str(refused.value) and cure in str(refused.value)


def test_equal_handshakes_pass() -> None:
    check(FULL, FULL, "at the site", "at the server")
    # A node that makes another start is sent the server's.
    check(FULL, replace(FULL, start="another"), "at the site", "at the server")


@pytest.mark.parametrize("missing", ["federation", "config"])
def test_optional_fields_may_be_empty(missing: str) -> None:
    check(FULL, replace(FULL, **{missing: ""}), "at the site", "at the server")
    check(replace(FULL, **{missing: ""}), FULL, "at the site", "at the server")


def test_a_handshake_comes_through_a_header() -> None:
    assert Handshake.of(RpcMessage({"operation": "hello", "name": "a", **FULL.header()})) == FULL


def test_labels_are_an_entry_unless_they_are_classes() -> None:
    assert "labels" not in FULL.header()
    counts = replace(FULL, labels="count, poisson")
    assert counts.header()["labels"] == "count, poisson"
    assert (
        Handshake.of(RpcMessage({"operation": "hello", "name": "a", **counts.header()})) == counts
    )


@pytest.mark.parametrize("name", [*Handshake.__dataclass_fields__])
@pytest.mark.parametrize("value", [None, [], 1.5])
def test_a_field_of_another_type_is_refused_by_name(name: str, value: Any) -> None:
    with pytest.raises(InvalidMessageError, match=f"expected the header entry {name}"):
        Handshake.of(RpcMessage({**FULL.header(), name: value}))


def spec(**slices: slice) -> ModelSpec:
    return ModelSpec(6, slices)


def made(model: ModelSpec, shape: tuple[int, ...] = (2,), start: Any = 0.0) -> Handshake:
    return replace(
        make_handshake(federation="trial", version=__version__, spec=model, shape=shape, classes=2),
        start=model_digest(np.full(6, start, np.float32)),
    )


def test_layers_of_other_names_sizes_or_order_are_another_model() -> None:
    own = made(spec(a=slice(0, 4), b=slice(4, 6)))
    others = (
        spec(a=slice(0, 2), b=slice(2, 6)),
        spec(b=slice(0, 4), a=slice(4, 6)),
        spec(a=slice(0, 6)),
        spec(),
    )
    for other in (*others, replace(spec(a=slice(0, 4), b=slice(4, 6)), detects=True)):
        with pytest.raises(InvalidMessageError, match="layers"):
            check(own, made(other), "at the site", "at the server")


def test_equal_models_have_equal_handshakes() -> None:
    assert made(spec(a=slice(0, 6))) == made(spec(a=slice(0, 6)))
    assert made(spec(), start=0.0).start != made(spec(), start=1.0).start


def test_samples_of_another_shape_are_refused() -> None:
    with pytest.raises(InvalidMessageError, match="shape"):
        check(made(spec(), (2,)), made(spec(), (1, 2)), "at the site", "at the server")


# --- the node's side


def hello(**changes: Any) -> RpcMessage:
    return RpcMessage({"operation": "hello", **replace(FULL, **changes).header()})


def test_a_node_replies_with_its_name_and_its_samples() -> None:
    reply = fake_node("berlin", (3, 5), FULL).handle(hello())
    assert reply.header["name"] == "berlin" and Handshake.of(reply) == FULL
    np.testing.assert_array_equal(reply.arrays["samples"], [13, 15])


@pytest.mark.parametrize(("changes", "words"), OTHERS)
def test_a_node_that_cannot_take_part_logs_the_difference(
    changes: dict[str, Any], words: tuple[str, ...], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.ERROR, "fedkin"):
        reply = fake_node("berlin", about=FULL).handle(hello(**changes))
    assert "refused" in reply.header and reply.header["name"] == "berlin" and not reply.arrays
    assert "berlin cannot take part" in caplog.text
    for word in words:
        assert word in caplog.text and word in reply.header["refused"]


def test_an_empty_handshake_is_refused_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR, "fedkin"):
        reply = fake_node("berlin").handle(RpcMessage({"operation": "hello"}))
    assert (
        "expected the header entry federation" in reply.header["refused"]
        and "berlin cannot take part" in caplog.text
    )


@pytest.mark.parametrize(
    ("samples", "sizes"),
    [("[28, 28] -> 10 classes", {"d": 784}), ("[] -> 2 classes", {"d": 1}), ("text", {})],
)
def test_the_size_of_a_sample_is_read_from_its_description(
    samples: str, sizes: dict[str, int]
) -> None:
    assert replace(ABOUT, samples=samples).sizes() == sizes


def test_the_size_of_a_patient_in_a_risk_set_leaves_out_the_weight() -> None:
    patients = replace(ABOUT, samples="[20, 7] -> survival", labels="survival")
    assert patients.sizes() == {"d": 6}
    # A plain vector of survival data, without risk sets, has no weight.
    assert replace(patients, samples="[7] -> survival").sizes() == {"d": 7}


def test_a_backbone_is_an_entry_if_there_is_one() -> None:
    assert "backbone" not in FULL.header()
    adapters = replace(FULL, backbone="b0")
    message = RpcMessage({"operation": "hello", "name": "a", **adapters.header()})
    assert Handshake.of(message) == adapters
    # A resumed run must have the same backbone, too.
    assert adapters.identity() == (*FULL.identity(), "b0")


def test_a_site_with_another_backbone_is_refused_by_name() -> None:
    model = replace(spec(a=slice(0, 6)), frozen="a" * 64)
    with pytest.raises(InvalidMessageError) as refused:
        check(made(model), made(replace(model, frozen="b" * 64)), "at the site", "at the server")
    for words in ("the backbone's weights have the digest 'aaaa", "'bbbb", "model.backbone"):
        assert words in str(refused.value)
    # A site without a backbone trains another model.
    with pytest.raises(InvalidMessageError, match="backbone"):
        check(made(replace(model, frozen="")), made(model), "at the site", "at the server")
