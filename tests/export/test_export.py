"""Exports: the files give the run's own predictions, in plain PyTorch and ONNX Runtime too, and
describe themselves."""

from __future__ import annotations

import hashlib
import importlib.util
import json
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import equinox as eqx
import numpy as np
import pytest
import torch
from safetensors.numpy import load_file
from torch import nn

import fedkin as fk
from fedkin import export
from fedkin.core.errors import MissingExtra
from fedkin.data.federated import FederatedData, Ragged
from fedkin.export import formats

LOCAL = fk.SGD(epochs=1, batch_size=5, lr=0.3)


class Net(nn.Module):
    """A user's own module: running statistics, a counter, dropout."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(256)
        self.hidden = nn.Linear(256, 8)
        self.out = nn.Linear(8, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = torch.relu(self.hidden(self.norm(x.flatten(1))))
        return self.out(nn.functional.dropout(hidden, 0.5, self.training))


@pytest.fixture(scope="module")
def images() -> FederatedData:
    """Six clients with 16 x 16 images of three classes; clients of two kinds."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 60)
    x = rng.random((60, 16, 16, 1), np.float32)
    x[np.arange(60), y] += 1
    rows = np.arange(60).reshape(6, 10)
    return FederatedData(
        name="images",
        x=x,
        y=y,
        classes=3,
        train=Ragged.of([r[:8] for r in rows]),
        test=Ragged.of([r[8:] for r in rows]),
        client_names=tuple("abcdef"),
        label_names=("cat", "dog", "eel"),
    )


MODELS = {
    "mclr": fk.models.mclr,
    "mlp": lambda data: fk.models.mlp(data, hidden=(8, 6)),
    "cnn": fk.models.cnn,
    "module": lambda data: Net(),
}


@pytest.fixture(scope="module", params=MODELS)
def run(request: pytest.FixtureRequest, images: FederatedData) -> fk.Run:
    model = MODELS[request.param](images)
    run = fk.simulate(
        fk.FlexCFL(clusters=2, steps=3), images, model, rounds=1, cohort=6, local=LOCAL
    )
    assert set(run.assignment) == {0, 1}
    return run


@pytest.mark.parametrize("format", ["safetensors", "torch", "onnx"])
def test_every_format_gives_the_predictions_of_the_run(
    format: str, run: fk.Run, images: FederatedData, tmp_path: Path
) -> None:
    card = run.export(tmp_path / "e", format)
    exported = export.load(card.parent, model=Net() if run.config.model_name == "torch" else None)
    different = run.predict(images.x, cluster=0, proba=True) - run.predict(
        images.x, cluster=1, proba=True
    )
    assert np.abs(different).max() > 1e-3  # files that were exchanged would show
    for client in "af":
        model = exported.model(client=client)
        scores = run.model_for(client)(images.x)
        # Relative to the largest score: single precision rounds a sum of 256 products in
        # proportion to its size.
        np.testing.assert_allclose(
            model(images.x), scores, atol=1e-5 * np.abs(scores).max(), rtol=0
        )
        assert (model.predict(images.x[:7]) == run.predict(images.x[:7], client=client)).all()


def definition(folder: Path) -> ModuleType:
    """``model.py`` of an export, as a user imports it."""
    spec = importlib.util.spec_from_file_location("model", folder / "model.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_plain_pytorch_reads_a_state_dict_without_fedkin(
    run: fk.Run, images: FederatedData, tmp_path: Path
) -> None:
    card = json.loads(run.export(tmp_path / "e", "torch").read_text())
    network: nn.Module = Net()
    if card["architecture"]:
        assert "import fedkin" not in (tmp_path / "e/model.py").read_text()
        network = definition(tmp_path / "e").build(card["architecture"])
    state = torch.load(tmp_path / "e" / card["models"][1]["file"], weights_only=True)
    network.load_state_dict(state, strict=True)
    with torch.no_grad():
        scores = network.eval()(torch.tensor(images.x)).numpy()
    np.testing.assert_allclose(scores, run.trained.of_cluster(1)(images.x), atol=1e-5, rtol=0)
    assert card["layers"] == {name: list(entry.shape) for name, entry in state.items()}


@pytest.mark.parametrize("variant", ["mnist", "femnist", "fashion_mnist", "fedsim", "athena"])
@pytest.mark.parametrize("side", [28, 31])
def test_the_twin_of_every_convolutional_network(variant: Any, side: int) -> None:
    """Odd sides, strides and paddings, with every weight and bias random."""
    from fedkin.export.architecture import architecture_of, entry_of
    from fedkin.export.plain_torch import build
    from fedkin.export.predictor import class_scores, layers_of

    rng = np.random.default_rng(1)
    x = rng.random((2, side, side, 2), np.float32)
    data = FederatedData(
        name="x",
        x=x,
        y=np.arange(2),
        classes=2,
        train=Ragged.of([np.arange(2)]),
        test=Ragged.of([np.arange(2)]),
    )
    model = fk.models.cnn(data, variant=variant, dropout=False)
    vector = (0.05 * rng.standard_normal(model.spec.parameters)).astype(np.float32)
    architecture = architecture_of(model)
    assert architecture is not None and entry_of(model, architecture) == {
        "name": "cnn",
        "variant": variant,
    }
    network = build(json.loads(json.dumps(architecture))).eval()
    layers = {name: torch.tensor(array) for name, array in layers_of(model, vector).items()}
    network.load_state_dict(layers, strict=True)
    expected = class_scores(model, vector, x)
    assert np.abs(expected).max() > 0.01
    np.testing.assert_allclose(network(torch.tensor(x)).detach().numpy(), expected, atol=1e-5)


def test_the_card_describes_the_files(images: FederatedData, tmp_path: Path) -> None:
    run = fk.simulate(
        fk.FlexCFL(clusters=2, steps=3),
        images,
        fk.models.mclr(images),
        rounds=1,
        cohort=6,
        local=LOCAL,
    )
    card = json.loads(run.export(tmp_path / "e").read_text())
    assert (
        card["method"]["name"] == "flexcfl"
        and card["data"] == "images"
        and card["labels"] == ["cat", "dog", "eel"]
    )
    assert card["input"]["shape"] == [16, 16, 1] and card["input"]["dtype"] == "float32"
    assert (
        card["fedkin"] == fk.__version__
        and card["run"] == run.fingerprint
        and card["finished"] is True
    )
    assert card["layers"] == {"layers.0.weight": [3, 256], "layers.0.bias": [3]}
    for entry in card["models"]:
        content = (tmp_path / "e" / entry["file"]).read_bytes()
        assert hashlib.sha256(content).hexdigest() == entry["sha256"]
        members = np.flatnonzero(run.assignment == entry["cluster"])
        assert entry["clients"] == ["abcdef"[m] for m in members]
        own = run.clients[run.clients["client"].isin(members.tolist())]
        assert entry["test_accuracy"] == pytest.approx(
            own["correct"].sum() / own["test_samples"].sum()
        )
    arrays = load_file(tmp_path / "e/cluster-1.safetensors")
    np.testing.assert_array_equal(arrays["layers.0.weight"].ravel(), run.models[1][:768])


def test_clients_with_personal_models_have_separate_files(
    images: FederatedData, tmp_path: Path
) -> None:
    model = fk.models.mlp(images, hidden=4)
    for number, method in enumerate(
        (fk.FedPer(), fk.PANM(neighbours=2, stage_one=2, candidates=2))
    ):
        run = fk.simulate(method, images, model, rounds=2, cohort=6, local=LOCAL)
        exported = export.load(run.export(tmp_path / str(number)).parent)
        assert [entry["name"] for entry in exported.card["models"]] == [
            f"client-{name}" for name in "abcdef"
        ]
        scores = [exported.model(client=name)(images.x) for name in "ab"]
        assert np.abs(scores[0] - scores[1]).max() > 1e-3
        np.testing.assert_array_equal(scores[1], run.model_for(1)(images.x))
        with pytest.raises(fk.ConfigError, match="its clients have personal models"):
            exported.model(cluster=0)


@pytest.mark.parametrize("format", ["safetensors", "torch", "onnx"])
def test_detectors_are_exported_as_one_classifier(format: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    x = rng.random((24, 32, 32, 1), np.float32)
    y = np.tile([0, 1, 0, 3], 6)
    rows = np.arange(24).reshape(4, 6)
    data = FederatedData(
        name="x", x=x, y=y, classes=4, train=Ragged.of(list(rows)), test=Ragged.of(list(rows))
    )
    method = fk.Athena(assignment=(0, 1, 0, 1))
    run = fk.simulate(method, data, fk.models.detector(data), rounds=1, cohort=4, local=LOCAL)
    exported = export.load(run.export(tmp_path / "e", format).parent)
    scores = exported.model(cluster=1)(x)
    expected = run.model_for(1)(x)
    assert (scores[:, 2] == -np.inf).all() and exported.card["models"][0]["detected"] == [0, 1, 3]
    np.testing.assert_allclose(scores, expected, atol=1e-5)
    np.testing.assert_allclose(
        exported.model(cluster=1).predict(x, proba=True),
        run.predict(x, cluster=1, proba=True),
        atol=1e-5,
    )
    if format == "torch":
        network = definition(tmp_path / "e").build_detectors(
            exported.card["architecture"], [0, 1, 3], 4
        )
        network.load_state_dict(
            torch.load(tmp_path / "e/cluster-1.pt", weights_only=True), strict=True
        )


def test_models_that_cannot_be_exported_are_refused_by_name(
    images: FederatedData, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = fk.as_model(lambda key: eqx.nn.Linear(256, 3, key=key), name="mine")
    flat = replace(images, x=images.x.reshape(60, -1))
    run = fk.simulate(fk.FedAvg(), flat, mine, rounds=1, cohort=6, local=LOCAL)
    for format in ("torch", "onnx"):
        with pytest.raises(
            fk.ModelError, match=rf"model 'mine' cannot be exported as '{format}'.*'safetensors'"
        ):
            run.export(tmp_path / "e", format)
    with pytest.raises(fk.ConfigError, match="unknown format 'onx'; did you mean 'onnx'"):
        run.export(tmp_path / "e", "onx")
    assert not (tmp_path / "e").exists()
    run.export(tmp_path / "e")
    with pytest.raises(fk.ModelError, match=r"user's model.*load\(folder, model=\.\.\.\).*'onnx'"):
        export.load(tmp_path / "e").model()
    np.testing.assert_array_equal(
        export.load(tmp_path / "e", mine).model()(flat.x), run.model_for(0)(flat.x)
    )
    with pytest.raises(fk.StorageError, match="is not empty"):
        run.export(tmp_path / "e")
    with pytest.raises(MissingExtra, match=r"pip install 'fedkin\[onnx\]'"):
        formats.library("no_such_library", "an ONNX export", "onnx")


class Odd(nn.Module):
    """A module whose computation depends on the numbers, which no graph can hold."""

    def __init__(self) -> None:
        super().__init__()
        self.out = nn.Linear(256, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.flatten(1)
        return self.out(x) if float(x.sum()) >= 0 else self.out(-x)


def test_a_module_that_no_graph_holds_is_refused_for_onnx(
    images: FederatedData, tmp_path: Path
) -> None:
    run = fk.simulate(fk.FedAvg(), images, Odd(), rounds=1, cohort=6, local=LOCAL)
    with pytest.raises(fk.ModelError, match=r"cannot be exported as 'onnx': .*use format 'torch'"):
        run.export(tmp_path / "e", "onnx")


def test_damaged_exports_are_refused(images: FederatedData, tmp_path: Path) -> None:
    run = fk.simulate(
        fk.FlexCFL(clusters=2, steps=3),
        images,
        fk.models.mclr(images),
        rounds=1,
        cohort=6,
        local=LOCAL,
    )
    folder = run.export(tmp_path / "e").parent
    exported = export.load(folder)
    with pytest.raises(fk.ConfigError, match="has 2 models; choose one"):
        exported.model()
    with pytest.raises(fk.ConfigError, match="one of client, cluster and model"):
        exported.model(client="a", cluster=0)
    with pytest.raises(fk.ConfigError, match=r"unknown model 'cluster-2'; did you mean"):
        exported.model("cluster-2")
    with pytest.raises(
        fk.ConfigError, match="no model of cluster 5; it has the models of cluster 0, 1"
    ):
        exported.model(cluster=5)
    with pytest.raises(fk.ConfigError, match="holds no export"):
        export.load(tmp_path)
    file = folder / "cluster-0.safetensors"
    file.write_bytes(file.read_bytes()[:-1] + b"?")
    with pytest.raises(fk.ConfigError, match="has changed since the export"):
        exported.model(cluster=0)
    file.unlink()
    with pytest.raises(fk.ConfigError, match="cannot be read"):
        exported.model(cluster=0)
    (folder / "card.json").write_text("{}")
    with pytest.raises(fk.ConfigError, match=r"card\.json cannot be read"):
        export.load(folder)


@pytest.mark.parametrize("format", ["safetensors", "torch"])
def test_a_fine_tuned_model_is_exported_by_itself(format: str, tmp_path: Path) -> None:
    data = fk.data.digits(clients=6)
    run = fk.simulate(fk.FedAvg(), data, fk.models.mlp(data, hidden=8), rounds=1, cohort=6)
    tuned = run.fine_tune(3, epochs=1)
    x = data.x[:20]
    card = export.write_model(tuned, tmp_path / "tuned", format)
    again = export.load(card.parent).model()
    assert np.allclose(again(x), tuned(x), atol=1e-5) and not np.allclose(
        again(x), run.model_for(3)(x), atol=1e-5
    )
    assert json.loads(card.read_text())["models"][0]["name"] == tuned.name
    with pytest.raises(fk.StorageError, match="name a new folder"):
        export.write_model(tuned, tmp_path / "tuned")
