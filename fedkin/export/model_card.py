"""The card of each exported model: a README.md with the YAML fields of Hugging Face.

It says what the model is, for whom, and how well it serves them, without telling who they are: by
default it has numbers of clients only, and small numbers are not shown.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedkin.core.errors import ConfigError, unknown
from fedkin.export.formats import LIBRARIES
from fedkin.measures.fairness import worst_decile

COUNT = "count"
HASH = "hash"
NAME = "name"
_CLIENTS = (COUNT, HASH, NAME)
FLOOR = 5  # a smaller number of clients is not told
LEAST_RANKED = 10  # clients that scores of a part of them need


@dataclass(frozen=True)
class CardOptions:
    """What the user says about the cards of an export.

    Attributes:
        license: identifier of the licence, such as ``apache-2.0``; empty: not specified.
        clients: ``count`` tells how many clients use a model, ``hash`` the SHA-256 of their names
            with the run's digest, ``name`` their names.
        privacy: the privacy statement of the run; None if it has none.
    """

    license: str = ""
    clients: str = COUNT
    privacy: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        if self.clients not in _CLIENTS:
            raise ConfigError(unknown("form of clients", str(self.clients), _CLIENTS))


@dataclass(frozen=True)
class ModelScores:
    """The evaluated clients of a model.

    Attributes:
        train_samples: number of training samples of each client.
        test_samples: number of test samples of each client.
        scores: the score of each client.
        measure: name of the score.
        higher_is_better: whether a higher score is better.
    """

    train_samples: np.ndarray
    test_samples: np.ndarray
    scores: np.ndarray
    measure: str
    higher_is_better: bool


NO_OPTIONS = CardOptions()


def model_card(
    card: Mapping[str, Any],
    entry: Mapping[str, Any],
    scores: ModelScores | None,
    options: CardOptions = NO_OPTIONS,
    use: str = "",
) -> str:
    """The text of a card.

    Args:
        card: contents of ``card.json``.
        entry: its entry about the model.
        scores: the evaluated clients of the model; None if there are none.
        options: what the user says.
        use: a section on how to use the model, as Markdown; empty for the commands of fedkin.
    """
    sections = {
        "Use": use or _use(card, entry, options),
        "Training data": _data(card, scores),
        "Who is in": _who(card, entry, options),
        "How well, and on whom": _scores(entry, scores, options),
        "Subgroups": _subgroups(scores),
        "Limits": _limits(card),
        "Privacy": _privacy(card, options),
        "Provenance": _provenance(card, entry, options),
    }
    title = f"{shown_name(card, entry, options)} of {card.get('data')}"
    body = "\n\n".join(f"## {name}\n\n{text.strip()}" for name, text in sections.items())
    return f"---\n{_yaml(front_matter(card, entry, options))}---\n\n# {title}\n\n{body}\n"


def front_matter(
    card: Mapping[str, Any], entry: Mapping[str, Any], options: CardOptions = NO_OPTIONS
) -> dict[str, Any]:
    """The YAML fields, by Hugging Face's names.

    Args:
        card: contents of ``card.json``.
        entry: its entry about the model.
        options: what the user says.
    """
    data = str(card.get("data"))
    method = _method(card)
    metrics = {} if _is_hidden(entry, options) else scores_of_entry(entry)
    tags = ["federated-learning", "clustered-federated-learning", "fedkin"]
    fields: dict[str, Any] = {
        "license": options.license or None,
        "library_name": LIBRARIES[card["format"]],
        "pipeline_tag": _pipeline(card),
        "base_model": card.get("backbone", {}).get("name"),
        "tags": [*tags, *([method] if method else [])],
        "datasets": [data],
        "metrics": sorted(metrics) or None,
    }
    if metrics:
        result = {
            "task": {"type": _pipeline(card) or "other"},
            "dataset": {"type": data, "name": data, "split": "test"},
            "metrics": [
                {"type": name, "value": value, "name": name.replace("_", " ")}
                for name, value in metrics.items()
            ],
        }
        fields["model-index"] = [{"name": shown_name(card, entry, options), "results": [result]}]
    return {name: value for name, value in fields.items() if value is not None}


def shown_name(
    card: Mapping[str, Any], entry: Mapping[str, Any], options: CardOptions = NO_OPTIONS
) -> str:
    """The name of a model on its card: a number in place of a client's name, which personal models
    have. A user who lists the clients gets the model's own name.

    Args:
        card: contents of ``card.json``.
        entry: its entry about the model.
        options: what the user says.
    """
    name = str(entry["name"])
    if not _names_a_client(entry, options):
        return name
    names = [one["name"] for one in card.get("models", (entry,))]
    return f"model-{names.index(name)}"


def _is_hidden(entry: Mapping[str, Any], options: CardOptions) -> bool:
    """Whether a model has so few clients that its scores tell about single ones."""
    return options.clients != NAME and len(entry["clients"]) < FLOOR


def _names_a_client(entry: Mapping[str, Any], options: CardOptions) -> bool:
    """Whether the model's name has the name of a client, which the card must not tell."""
    is_cluster = entry["name"] == f"cluster-{entry.get('cluster')}"
    return _is_hidden(entry, options) and not is_cluster


def _method(card: Mapping[str, Any]) -> str | None:
    """The name of the run's method; None if it is unknown."""
    method = card.get("method")
    return str(method["name"]) if method else None


def scores_of_entry(entry: Mapping[str, Any]) -> dict[str, float]:
    """The test scores of a model, by name."""
    return {
        name.removeprefix("test_"): float(value)
        for name, value in entry.items()
        if name.startswith("test_") and name != "test_samples" and value is not None
    }


def _pipeline(card: Mapping[str, Any]) -> str | None:
    """Hugging Face's name of the task; None if it is unknown."""
    task = card.get("task_type")
    if "words" in card or "backbone" in card:
        return "text-classification" if task is None else None
    if card["input"].get("features"):
        return "tabular-classification" if task is None else "tabular-regression"
    return "image-classification" if len(card["input"]["shape"]) > 1 and task is None else None


def _yaml(value: Mapping[str, Any], indent: str = "") -> str:
    """Fields as YAML. Texts are in quotes, as in JSON, which YAML contains."""
    lines = []
    for key, entry in value.items():
        if isinstance(entry, Mapping):
            lines.append(f"{indent}{key}:\n{_yaml(entry, indent + '  ')}")
        elif isinstance(entry, list):
            lines.append(f"{indent}{key}:\n")
            for item in entry:
                if isinstance(item, Mapping):
                    block = _yaml(item, indent + "    ")
                    lines.append(f"{indent}  - {block.removeprefix(indent + '    ')}")
                else:
                    lines.append(f"{indent}  - {json.dumps(item)}\n")
        else:
            lines.append(f"{indent}{key}: {json.dumps(entry)}\n")
    return "".join(lines)


def _use(card: Mapping[str, Any], entry: Mapping[str, Any], options: CardOptions) -> str:
    """How to predict with the model."""
    model = shown_name(card, entry, options)
    command = f"`fedkin predict EXPORT DATA.csv --model {model}`"
    if _names_a_client(entry, options):
        command = (
            "`fedkin predict EXPORT DATA.csv --model NAME`, with the model's name in `card.json`"
        )
    shape = ", ".join(map(str, card["input"]["shape"]))
    return (
        f"{command}, or over HTTP: `fedkin serve EXPORT`. A sample has the shape "
        f"[{shape}]; {card['input']['scaling']}. The model gives "
        f"{card['output']}. `card.json` has all facts for programs."
    )


def _data(card: Mapping[str, Any], scores: ModelScores | None) -> str:
    """What the model was trained on."""
    labels = card.get("labels")
    lines = [f"* Data: {card.get('data')}, which stay with the clients."]
    if labels is not None:
        shown = ", ".join(map(str, labels[:20]))
        lines.append(f"* Classes: {shown}{', ...' if len(labels) > 20 else ''}.")
    if scores is not None and len(scores.scores) >= FLOOR:
        total = int(scores.train_samples.sum())
        lines.append(f"* Training samples of the model's clients: {total:,}.")
    return "\n".join(lines)


def _who(card: Mapping[str, Any], entry: Mapping[str, Any], options: CardOptions) -> str:
    """Which clients use the model, as far as the card tells it."""
    clients: Sequence[str] = entry["clients"]
    if options.clients == NAME:
        return f"{len(clients)} clients: {', '.join(clients)}."
    if options.clients == HASH:
        salt = str(card.get("run"))
        digests = [hashlib.sha256(f"{salt}/{name}".encode()).hexdigest()[:16] for name in clients]
        return (
            f"{len(clients)} clients. The first 16 digits of the SHA-256 of `RUN/NAME`, with the "
            f"run's digest: {', '.join(sorted(digests))}. Whoever knows a name can find it here."
        )
    away = len(card.get("without_cluster", ()))
    served = f"{_floored(len(clients))} clients use this model."
    return f"{served} {_floored(away)} clients of the run have no model." if away else served


def _floored(count: int) -> str:
    """A number of clients, if it is large enough to be told."""
    return str(count) if count >= FLOOR else f"Fewer than {FLOOR}"


def _scores(entry: Mapping[str, Any], scores: ModelScores | None, options: CardOptions) -> str:
    """The scores over all clients of the model, and over the bottom 10% of them."""
    metrics = scores_of_entry(entry)
    if not metrics:
        return "The model was not evaluated on test samples."
    lines = ["On the test samples of the model's clients together:", ""]
    if _is_hidden(entry, options):
        lines.append(f"* scores: not shown, since fewer than {FLOOR} clients use this model")
    else:
        lines += [f"* {name.replace('_', ' ')}: {value:.4g}" for name, value in metrics.items()]
    if scores is None:
        return "\n".join(lines)
    tested = scores.test_samples > 0
    own = scores.scores[tested]
    name = scores.measure.replace("_", " ")
    if len(own) < LEAST_RANKED:
        reason = f"not shown, since fewer than {LEAST_RANKED} clients have test samples"
        return "\n".join([*lines, f"* bottom 10% of clients: {reason}"])
    worst = worst_decile(own, 1 if scores.higher_is_better else -1)
    shown = "undefined" if worst is None else f"{worst:.4g}"
    lines.append(f"* mean {name} of the bottom 10% of clients: {shown}")
    lines.append(f"* {name} of the median client: {np.median(own):.4g}")
    return "\n".join(lines)


def _subgroups(scores: ModelScores | None) -> str:
    """Scores of clients with few and with many training samples."""
    least = 2 * LEAST_RANKED
    if scores is None or int((scores.test_samples > 0).sum()) < least:
        return (
            f"Not shown: it needs at least {least} evaluated clients. Subgroups of persons within "
            "the clients are not known to fedkin."
        )
    tested = scores.test_samples > 0
    order = np.argsort(scores.train_samples[tested], kind="stable")
    half = len(order) // 2
    own = scores.scores[tested]
    name = scores.measure.replace("_", " ")
    return (
        f"* mean {name} of the half of clients with fewer training samples: "
        f"{own[order[:half]].mean():.4g}\n"
        f"* of the other half: {own[order[half:]].mean():.4g}\n\n"
        "Subgroups of persons within the clients are not known to fedkin."
    )


def _limits(card: Mapping[str, Any]) -> str:
    """What the model should not be used for."""
    limits = [
        "It was trained for the clients of its cluster. For another client, find the cluster "
        "first (`fedkin place`), and evaluate before use.",
        "Scores are of the run's test samples. They do not show how the model does on later data.",
        "It has not been checked as a medical device or for decisions about persons.",
    ]
    if card.get("finished") is False:
        limits.insert(0, "The run was not finished: this is its last checkpoint.")
    return "\n".join(f"* {limit}" for limit in limits)


def _privacy(card: Mapping[str, Any], options: CardOptions) -> str:
    """What the run promises about the clients' data."""
    if options.privacy is not None:
        facts = options.privacy
        return (
            f"Differential privacy: epsilon {facts.get('epsilon')} at delta {facts.get('delta')}. "
            "`privacy.json` of the run has the whole statement. It covers the models, not the "
            "scores on this card."
        )
    if card.get("privacy"):
        return "The run has [privacy]; its `privacy.json` has the statement."
    return (
        "No differential privacy. The clients' samples were not sent, but a model can reveal parts "
        "of the data it was trained on."
    )


def _provenance(card: Mapping[str, Any], entry: Mapping[str, Any], options: CardOptions) -> str:
    """Where the model comes from. The file of a personal model has the name of its client."""
    facts = {
        "method": _method(card),
        "settings of the method": _settings(card.get("method") or {}),
        "rounds": card.get("rounds"),
        "seed": card.get("seed"),
        "run": card.get("run"),
        "file": None if _names_a_client(entry, options) else entry["file"],
        "SHA-256 of the file": entry["sha256"],
        "fedkin": card.get("fedkin"),
    }
    return "\n".join(f"* {name}: {value}" for name, value in facts.items() if value is not None)


def _settings(method: Mapping[str, Any]) -> str | None:
    """The settings of a method in one line; None if there are none."""
    settings = {name: value for name, value in method.items() if name != "name"}
    return ", ".join(f"{name} = {json.dumps(value)}" for name, value in settings.items()) or None
