"""One right example for each key of a configuration, by rule from the key's declaration.

The reference of keys shows it, and an error about a value ends with it.
"""

from __future__ import annotations

import inspect
import json
import re
import shlex
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from pydantic import ConfigDict, TypeAdapter
from pydantic.fields import FieldInfo

from fedkin.config.key_meanings import meaning
from fedkin.core.errors import FedkinError
from fedkin.core.plain import plain_lists

# Examples of keys whose declarations have neither choices nor a default, or one that switches
# something off. A name that stands for different things has several examples, and the first one of
# a valid type is taken; or it has an entry for one class or function, ``goodreads.path``.
EXAMPLES: dict[str, tuple[Any, ...]] = {
    "actors": (4,),
    "against": (["fedavg", "ifca"],),
    "arrivals": ({5: 3},),
    "assignment": ([0, 0, 1, 1],),
    "texts.length": (32,),
    "augment": (["flip"],),
    "backbone": ("all-MiniLM-L6-v2",),
    "backbone_digest": ("d6c5eb1c0b7e",),
    "batches": (2,),
    "ca": ("ca.pem",),
    "calibrate": (10,),
    "cap": (20,),
    "certificate": ("peer-0.pem",),
    "categories": (["month", "weekday"],),
    "changes": (["000", "010"],),
    "class_weights": ("balanced",),
    "classes": (10,),
    "client": ("hospital", 1),
    "clients": (20, "0:5000", [0, 3]),
    "clients_per_batch": (4,),
    "client_columns": (["sector", "region"],),
    "clip_norm": (1.0,),
    "clusters": (3,),
    "connect": (["tcp/127.0.0.1:7451"],),
    "data": ([{"alpha": 0.1}, {"alpha": 1.0}],),
    "delta_merge": (0.1,),
    "departures": ({5: 3},),
    "devices": (1,),
    "distance": (10.0,),
    "divisor": (10.0,),
    "drop": (["row_id", "name"],),
    "dropout": (0.1,),
    "engine": ("ray",),
    "epsilon": (8.0,),
    "file": ("metrics.prom",),
    "event": ("status",),
    "evaluate_clients": (100,),
    "examples_cap": (100,),
    "exposure": ("years",),
    "features": (["age", "weight"],),
    "frequency": ("month",),
    "gamma_max": (1.0,),
    "glove": ("glove.6B.300d.txt",),
    "goodreads.path": ("goodreads_reviews_spoiler.json.gz",),
    "grid": ({"local.lr": [0.01, 0.1]},),
    "groups": ({"site-1": "north", "site-2": "south"},),
    "head_epochs": (10,),
    "hidden": ([64, 32],),
    "key": ("peer-0.key",),
    "l2": (0.001,),
    "label": ("diagnosis",),
    "label_names": (["healthy", "ill"],),
    "label_scale": ("pooled",),
    "label_smoothing": (0.1,),
    "label_scale_from": ({"mean": 50.0, "scale": 12.0},),
    "labels": (["healthy", "ill"],),
    "lags": ([1, 2, 12],),
    "listen": (["tcp/127.0.0.1:7450"],),
    "measures": (["mymodule:Measure"],),
    "loss": ("poisson",),
    "loss_options": ({"delta": 1.0},),
    "memory": (10,),
    "methods": (["fedavg", "ifca"],),
    "mex.path": ("MEx",),
    "min_clients": (2,),
    "min_frequency": (10,),
    "momentum": (0.9,),
    "most": (10000,),
    "mute": (0.1,),
    "name": ("site-1",),
    "noise_multiplier": (1.0,),
    "optimizer": ("mymodule:make_optimizer",),
    "own": ({0: {"lr": 0.01}},),
    "own_epochs": (5,),
    "own_lr": (0.01,),
    "pad": ("end",),
    "part": ("published",),
    "partition": ("dirichlet",),
    "path": ("data.csv",),
    "patience": (10,),
    "pause": (1.0,),
    "peers": (["peer-0", "peer-1"],),
    "precision": ("bfloat16",),
    "quantiles": ([0.1, 0.5, 0.9],),
    "rename": ({"years": "age"},),
    "reviews": (10000,),
    "rounds": (20,),
    "samples": (1000,),
    "scenarios": ([{"dropout": 0.1}, {"dropout": 0.5}],),
    "scale_from": ("transform.json", {"mean": {"age": 50.0}, "scale": {"age": 10.0}}),
    "schedule": ({"name": "cosine", "length": 50},),
    "scores": (10.0,),
    "season": (12,),
    "seed": (1,),
    "port": (9109,),
    "seeds": (3,),
    "selected": (5,),
    "sent140.path": ("training.1600000.processed.noemoticon.csv",),
    "shakespeare.path": ("shakespeare_roles.json.gz",),
    "set": ("azpro",),
    "shape": ([28, 28],),
    "share": (0.2,),
    "share_lr": (0.01,),
    "sign_ca": ("ca.pem",),
    "sign_certificate": ("site-1.pem",),
    "sign_key": ("site-1.key",),
    "size": (16,),
    "split_after": (5,),
    "start": (10,),
    "start_deadline": (60.0,),
    "start_noise": (4.0,),
    "step_schedule": ("linear",),
    "stragglers": (0.3,),
    "suspicious": (1.0,),
    "target": (0.8,),
    "task": ("regression",),
    "test_from": ("2018-01",),
    "time": ("date",),
    "tls": ({"ca": "ca.pem", "certificate": "peer-0.pem", "key": "peer-0.key"},),
    "unit": ("patient",),
    "torch": ("mymodule:make_model",),
    "track": (["tensorboard"],),
    "train_fraction": (0.8,),
    "until": (0.9,),
    "validation": (0.1,),
    "validation_from": ("2017-01",),
    "weight": ("size",),
    "weight_decay": (0.0001,),
    "words": (10000,),
    "zenoh": ("zenoh.json5",),
}
# Writes an example: from the key's name in the message, the key and a value.
Form = Callable[[str, str, Any], str]
# By type, where nothing else says an example.
_BY_TYPE: tuple[Any, ...] = (1, 0.5, "text", True, [1], ["a"], {"key": 1})
# The value of a key that is not set, in its meaning: "not set: 0.5".
_NOT_SET = re.compile(r"[Nn]ot set: (?:`([\w.-]+)`|(\d[\d,]*(?:\.\d+)?))(?= |$|[.;,)](?:\s|$))")
_ONLY_KEY = re.compile(r"[\w.-]+")
_BARE = re.compile(r"[A-Za-z0-9_-]+")
_PLAIN_WORD = re.compile(r"[A-Za-z_][\w.:/+-]*")
# Words that introduce an example. A message that has some needs no second example.
_HAS_EXAMPLE = ("for example", "such as", "did you mean", "known: ")


def accepts(annotation: Any, value: Any) -> bool:
    """Whether a value of a configuration is valid for an annotation of a key.

    Args:
        annotation: the annotation, such as ``list[str] | None``.
        value: the value, as TOML has it.
    """
    config = ConfigDict(strict=True, arbitrary_types_allowed=True)
    try:
        if getattr(annotation, "__pydantic_fields__", None) is not None:
            adapter = TypeAdapter(annotation)
        else:
            adapter = TypeAdapter(annotation, config=config)
        adapter.validate_json(json.dumps(plain_lists(value), default=str))
    except Exception:  # a user's annotation may be anything
        return False
    return True


def annotation_of(field: FieldInfo) -> Any:
    """The annotation of a field, with its range and its checks."""
    if field.metadata:
        return typing.Annotated[(field.annotation, *field.metadata)]
    return field.annotation


def example(kind: Callable[..., Any], name: str, field: FieldInfo) -> Any:
    """A right value of a key, by the first rule that gives a valid one: the opposite of a default
    that is true or false, a default that is not 0 or empty, an entry of ``EXAMPLES``, the default
    0, the value that stands for "not set", the first choice, a value of the type.

    Args:
        kind: class or function that declares the key.
        name: of the key.
        field: the key's declaration.
    """
    default = plain_lists(field.get_default(call_default_factory=True))
    if isinstance(default, bool):
        return not default
    if not field.is_required() and default not in (None, 0, "", [], {}):
        return default
    annotation = annotation_of(field)
    candidates = [
        *EXAMPLES.get(f"{getattr(kind, '__name__', '')}.{name}", ()),
        *EXAMPLES.get(name, ()),
        *([default] if default == 0 else []),
        *_not_set(kind, name),
        *_choices(field.annotation),
        *_BY_TYPE,
    ]
    return next((value for value in candidates if accepts(annotation, value)), "...")


def _not_set(kind: Callable[..., Any], name: str) -> list[Any]:
    """The value that stands for "not set", if the key's meaning says it."""
    found = _NOT_SET.search(meaning((kind,), name))
    if not found:
        return []
    if found[1]:
        return [found[1]]
    number = found[2].replace(",", "")
    return [float(number)] if "." in number else [int(number), float(number)]


def _choices(annotation: Any) -> list[Any]:
    """The choices of an annotation, also within a union or a list."""
    if typing.get_origin(annotation) is typing.Literal:
        return list(typing.get_args(annotation))
    found = [
        value
        for part in typing.get_args(annotation)
        for value in _choices(part)
        if not isinstance(part, (str, int))
    ]
    if typing.get_origin(annotation) in (list, tuple):
        return [[value] for value in found]
    return found


def takes_list(annotation: Any) -> bool:
    """Whether a value of this annotation may be a list."""
    if annotation is Any:
        return True
    origin = typing.get_origin(annotation)
    if origin in (typing.Union, types.UnionType):
        return any(map(takes_list, typing.get_args(annotation)))
    if origin is typing.Annotated:
        return takes_list(typing.get_args(annotation)[0])
    kind = annotation if origin is None else origin
    listed = inspect.isclass(kind) and issubclass(kind, typing.Collection)
    return listed and not issubclass(kind, (str, bytes, Mapping))


def toml_value(value: Any) -> str:
    """A value as TOML has it, in one line."""
    if isinstance(value, Mapping):
        inner = ", ".join(f"{_toml_key(str(key))} = {toml_value(v)}" for key, v in value.items())
        return f"{{{inner}}}"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(toml_value, value))}]"
    return json.dumps(value, default=str, ensure_ascii=False)


def _toml_key(key: str) -> str:
    """A key as TOML has it: in quotes if it has a dot or a space."""
    return key if _BARE.fullmatch(key) else json.dumps(key)


def toml_line(key: str, value: Any) -> str:
    """A line of a file: ``lr = 0.03``.

    Args:
        key: the key, without its section.
        value: its value.
    """
    return f"{_toml_key(key)} = {toml_value(value)}"


def shell_word(key: str, value: Any) -> str:
    """A setting on the command line: ``local.lr=0.03``, ``data.features=age,weight``.

    Args:
        key: the key with its section.
        value: its value.
    """
    if isinstance(value, str) and _PLAIN_WORD.fullmatch(value):
        return f"{key}={value}"
    if isinstance(value, (list, tuple)) and len(value) > 1 and all(map(_is_plain, value)):
        return f"{key}={','.join(map(str, value))}"
    return shlex.quote(f"{key}={toml_value(value)}")


def _is_plain(value: Any) -> bool:
    """Whether a value of a list needs no quotes on the command line."""
    if isinstance(value, str):
        return bool(_PLAIN_WORD.fullmatch(value))
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def setting(place: str, key: str, value: Any) -> str:
    """A right value as the user gives it: a setting on the command line if the place is only a key,
    otherwise a line of a file.

    Args:
        place: the key's name in the message: ``FILE: local.lr``, or ``local.lr``.
        key: the key, without its section.
        value: the value.
    """
    return shell_word(place, value) if _ONLY_KEY.fullmatch(place) else toml_line(key, value)


def argument(place: str, key: str, value: Any) -> str:
    """A right value as an argument in Python: ``size=10``.

    Args:
        place: the key's name in the message, which is not used.
        key: name of the argument.
        value: the value.
    """
    return f"{key}={value!r}"


def with_example(message: str, kind: Callable[..., Any], fields: Mapping[str, FieldInfo]) -> str:
    """A message about a value, with a right example at its end. A message that does not begin with
    a key, or that has an example, is returned unchanged.

    Args:
        message: such as "clusters must be an integer of at least 1, got 0".
        kind: class or function that declares the keys.
        fields: the declarations of all its keys.
    """
    found = re.match(r"(\w+)(?: must|: )", message)
    if not found or found[1] not in fields or any(word in message for word in _HAS_EXAMPLE):
        return message
    key = found[1]
    return f"{message}; for example {toml_line(key, example(kind, key, fields[key]))}"


def raise_with_example(
    error: FedkinError, kind: Callable[..., Any], fields: Mapping[str, FieldInfo]
) -> NoReturn:
    """Raise an error again, with a right example if it is about the value of a key.

    Args:
        error: the error.
        kind: class or function that declares the keys.
        fields: the declarations of all its keys.
    """
    message = with_example(str(error), kind, fields)
    if message == str(error):
        raise error
    raise type(error)(message) from error
