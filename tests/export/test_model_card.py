"""The card of each exported model: fields of Hugging Face, scores with floors, names on request."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from typer.testing import CliRunner

import fedkin as fk
from fedkin.cli import app
from fedkin.core.errors import ConfigError
from fedkin.data.federated import FederatedData
from fedkin.export.model_card import CardOptions, ModelScores, front_matter, model_card

CARD: dict[str, Any] = {
    "fedkin": "0.2.0",
    "format": "safetensors",
    "data": 'set "a"',
    "method": {"name": "ifca", "clusters": 2},
    "rounds": 3,
    "seed": 0,
    "run": "abc",
    "without_cluster": [],
    "labels": ["x", "y"],
    "input": {"shape": [4], "scaling": "none", "features": ["p", "q", "r", "s"]},
    "output": "scores",
}
ENTRY: dict[str, Any] = {
    "name": "cluster-0",
    "file": "cluster-0.safetensors",
    "clients": [f"site-{k}" for k in range(20)],
    "test_accuracy": 0.75,
    "test_samples": 40,
    "sha256": "ff",
}


def scores_of(clients: int, higher: bool = True) -> ModelScores:
    """Client k has k + 1 training samples and a score of k / 100."""
    return ModelScores(
        train_samples=np.arange(1, clients + 1),
        test_samples=np.full(clients, 2),
        scores=np.arange(clients) / 100,
        measure="accuracy" if higher else "root_mean_squared_error",
        higher_is_better=higher,
    )


def fields_of(text: str) -> dict[str, Any]:
    return yaml.safe_load(text.split("---\n")[1])


def test_the_fields_are_those_of_hugging_face() -> None:
    text = model_card(CARD, ENTRY, None, CardOptions(license="apache-2.0"))
    fields = fields_of(text)
    assert fields == front_matter(CARD, ENTRY, CardOptions(license="apache-2.0"))
    assert fields["license"] == "apache-2.0" and fields["library_name"] == "fedkin"
    assert fields["pipeline_tag"] == "tabular-classification"
    assert fields["datasets"] == ['set "a"'] and fields["metrics"] == ["accuracy"]
    assert "ifca" in fields["tags"]
    (index,) = fields["model-index"]
    (result,) = index["results"]
    assert index["name"] == "cluster-0"
    assert result["dataset"] == {"type": 'set "a"', "name": 'set "a"', "split": "test"}
    assert result["metrics"] == [{"type": "accuracy", "value": 0.75, "name": "accuracy"}]


def test_without_a_licence_or_scores_there_are_no_such_fields() -> None:
    entry = {key: value for key, value in ENTRY.items() if not key.startswith("test_")}
    fields = fields_of(model_card(CARD, entry, None))
    assert not {"license", "metrics", "model-index"} & fields.keys()


@pytest.mark.parametrize(
    ("change", "tag"),
    [
        ({"words": 5}, "text-classification"),
        ({"task_type": {"name": "regression"}}, "tabular-regression"),
        ({"input": {"shape": [8, 8], "scaling": "none", "features": None}}, "image-classification"),
        ({"input": {"shape": [8], "scaling": "none", "features": None}}, None),
    ],
)
def test_pipelines(change: dict[str, Any], tag: str | None) -> None:
    assert front_matter(CARD | change, ENTRY).get("pipeline_tag") == tag


def test_the_bottom_tenth_and_the_halves() -> None:
    text = model_card(CARD, ENTRY, scores_of(20))
    # Of 20 clients the worst two have 0 and 0.01; the halves have means 0.045 and 0.145.
    assert "bottom 10% of clients: 0.005" in text
    assert "median client: 0.095" in text
    assert "fewer training samples: 0.045" in text and "other half: 0.145" in text


def test_the_bottom_tenth_of_an_error_has_the_largest() -> None:
    text = model_card(CARD, ENTRY, scores_of(20, higher=False))
    assert "bottom 10% of clients: 0.185" in text


def test_few_clients_are_not_told() -> None:
    few = ENTRY | {"clients": ["site-0", "site-1"]}
    text = model_card(CARD | {"without_cluster": ["z"]}, few, scores_of(2))
    assert "Fewer than 5 clients use this model. Fewer than 5 clients of the run have no" in text
    assert "fewer than 10 clients have test samples" in text and "site-0" not in text
    assert "Training samples" not in text
    assert "Not shown: it needs at least 20" in model_card(CARD, ENTRY, scores_of(19))


@pytest.mark.parametrize("clients", ["count", "hash"])
def test_the_card_of_a_personal_model_does_not_tell_its_client(clients: str) -> None:
    own = ENTRY | {"name": "client-site-7", "file": "client-site-7.onnx", "clients": ["site-7"]}
    card = CARD | {"models": [ENTRY, own]}
    text = model_card(card, own, scores_of(1), CardOptions(clients=clients))
    assert "# model-1 of set" in text and "site-7" not in text
    assert "0.75" not in text and not {"metrics", "model-index"} & fields_of(text).keys()
    assert "scores: not shown, since fewer than 5 clients use this model" in text
    named = model_card(card, own, scores_of(1), CardOptions(clients="name"))
    assert "# client-site-7 of set" in named and "accuracy: 0.75" in named
    assert "--model client-site-7" in named and "file: client-site-7.onnx" in named


def test_scores_are_told_from_five_clients_on() -> None:
    few, enough = (ENTRY | {"clients": list(map(str, range(n))), "cluster": 0} for n in (4, 5))
    assert "0.75" not in model_card(CARD, few, None) and "# cluster-0" in model_card(
        CARD, few, None
    )
    assert "0.75" in model_card(CARD, enough, None)


def test_the_folders_of_a_personal_run_have_numbers(tiny: FederatedData, tmp_path: Path) -> None:
    named = replace(tiny, client_names=tuple(f"clinic {k}" for k in range(tiny.clients)))
    run = fk.simulate(fk.FedPer(), named, fk.models.mlp(named, hidden=4), rounds=1, cohort=12)
    card = json.loads(run.export(tmp_path / "out").read_text())
    assert card["models"][3]["name"] == "client-clinic 3"
    cards = tmp_path / "out/cards"
    assert {one.name for one in cards.iterdir()} == {f"model-{k}" for k in range(12)}
    for path in cards.glob("*/README.md"):
        assert "clinic" not in path.read_text() and "accuracy:" not in path.read_text()
    run.export(tmp_path / "named", card_clients="name")
    text = (tmp_path / "named/cards/client-clinic_3/README.md").read_text()
    assert "1 clients: clinic 3." in text


def test_names_and_digests_on_request() -> None:
    assert "site-7" in model_card(CARD, ENTRY, None, CardOptions(clients="name"))
    hashed = model_card(CARD, ENTRY, None, CardOptions(clients="hash"))
    assert hashlib.sha256(b"abc/site-7").hexdigest()[:16] in hashed and "site-7" not in hashed
    with pytest.raises(ConfigError, match="did you mean 'hash'"):
        CardOptions(clients="hashs")


def test_the_privacy_statement() -> None:
    assert "No differential privacy" in model_card(CARD, ENTRY, None)
    own = CardOptions(privacy={"epsilon": 2.5, "delta": 1e-5})
    assert "epsilon 2.5 at delta 1e-05" in model_card(CARD, ENTRY, None, own)
    assert "has the statement" in model_card(CARD | {"privacy": {"name": "x"}}, ENTRY, None)


def test_every_export_has_a_card_of_each_model(tiny: FederatedData, tmp_path: Path) -> None:
    run = fk.simulate(fk.IFCA(clusters=2), tiny, fk.models.mclr(tiny), rounds=2, cohort=6)
    card = run.export(tmp_path / "out", license="mit", card_clients="name")
    for entry in json.loads(card.read_text())["models"]:
        text = (tmp_path / "out/cards" / entry["name"] / "README.md").read_text()
        assert fields_of(text)["license"] == "mit"
        assert f"{len(entry['clients'])} clients: " in text
        value = fields_of(text)["model-index"][0]["results"][0]["metrics"][0]["value"]
        assert value == entry["test_accuracy"]
        assert entry["sha256"] in text


def test_the_command_takes_the_options(tiny: FederatedData, tmp_path: Path) -> None:
    arguments = ["export", str(tmp_path), "--out", str(tmp_path / "x"), "--card-clients", "no"]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 2 and "known: count, hash, name" in done.output


def test_a_private_run_has_its_epsilon_on_the_card(tiny: FederatedData, tmp_path: Path) -> None:
    private = fk.ClientDP(noise_multiplier=2.0, clip=1.0)
    cohort = fk.Cohort(3, selection="poisson")
    model = fk.models.mclr(tiny)
    out = tmp_path / "run"
    run = fk.simulate(fk.FedAvg(), tiny, model, rounds=2, cohort=cohort, options=[private], out=out)
    run.export(tmp_path / "new")
    fk.Run.load(out, model=model, data=tiny).export(tmp_path / "loaded")
    epsilon = json.loads((out / "privacy.json").read_text())["epsilon"]
    for folder in ("new", "loaded"):
        text = (tmp_path / folder / "cards/cluster-0/README.md").read_text()
        assert f"epsilon {epsilon} at delta" in text
