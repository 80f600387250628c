"""Predictions over HTTP: right answers, refusals by name, and requests that are malformed."""

from __future__ import annotations

import http.client
import json
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import uvicorn
from typer.testing import CliRunner

import fedkin as fk
from benchmarks.malformed_requests import malformed, send
from fedkin.cli import app as command
from fedkin.core.errors import ConfigError, DataError, MissingExtra
from fedkin.export import load
from fedkin.service import app as service
from fedkin.service.json_body import InvalidBodyError, parsed
from fedkin.service.models import LoadedModels, UnknownClientError, cross_entropy


class Answer:
    """The answer to a request."""

    def __init__(self, status: int, content: bytes) -> None:
        self.status_code = status
        self.content = content

    def json(self) -> Any:
        return json.loads(self.content)


class Client:
    """Sends requests to a port of this machine."""

    def __init__(self, port: int) -> None:
        self.port = port

    def request(self, method: str, path: str, content: Any = None) -> Answer:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        connection.request(method, path, content, encode_chunked=not isinstance(content, bytes))
        answer = connection.getresponse()
        found = Answer(answer.status, answer.read())
        connection.close()
        return found

    def get(self, path: str) -> Answer:
        return self.request("GET", path)

    def post(self, path: str, content: Any) -> Answer:
        return self.request("POST", path, content)


@contextmanager
def running(app: Any) -> Iterator[Client]:
    """A service in a thread, and its client. It must still run at the end."""
    bound = service.listening("127.0.0.1", 0)
    server = uvicorn.Server(service.settings_of(app))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]}, daemon=True)
    thread.start()
    client = Client(bound.getsockname()[1])
    try:
        yield client
        assert client.get("/v2/health/live").status_code == 200
    finally:
        server.should_exit = True
        thread.join(20)
    assert not thread.is_alive()


ROWS = [[1.5, 0.25, -1.0], [-2.0, 0.5, 0.0]]


@pytest.fixture(scope="module", params=["safetensors", "onnx"])
def served(request: pytest.FixtureRequest, exported: Callable[[str], Path]) -> LoadedModels:
    return LoadedModels(load(exported(request.param)))


@pytest.fixture(scope="module")
def client(served: LoadedModels) -> Iterator[Client]:
    with running(service.application(served, most_bytes=5000)) as one:
        yield one


def post(client: Client, path: str, /, **body: Any) -> tuple[int, dict[str, Any]]:
    answer = client.post(path, json.dumps(body).encode())
    return answer.status_code, answer.json()


def infer(client: Client, name: str, tensor: Any, **more: Any) -> tuple[int, dict[str, Any]]:
    return post(client, f"/v2/models/{name}/infer", inputs=[tensor], **more)


def tensor(rows: Any, kind: str = "FP32") -> dict[str, Any]:
    array = np.array(rows)
    return {
        "name": "samples",
        "datatype": kind,
        "shape": list(array.shape),
        "data": array.ravel().tolist(),
    }


# --- /predict


def test_a_client_gets_the_model_of_its_cluster(client: Client, small_run: fk.Run) -> None:
    answers = {}
    for name in ("site-0", "site-1"):
        status, body = post(client, "/predict", client=name, rows=ROWS)
        x = np.array(ROWS, np.float32)
        assert status == 200
        assert body["predictions"] == small_run.predict(x, client=name).tolist()
        expected = small_run.predict(x, client=name, proba=True)
        np.testing.assert_allclose(body["probabilities"], expected, rtol=1e-5)
        answers[name] = body
    assert answers["site-0"]["model"] != answers["site-1"]["model"]
    assert answers["site-0"]["predictions"] == ["yes", "no"]
    assert answers["site-1"]["predictions"] == ["no", "yes"]


def test_each_row_may_have_its_client(client: Client) -> None:
    status, body = post(
        client, "/predict", clients=["site-1", "site-0", "site-1"], rows=[*ROWS, ROWS[0]]
    )
    assert status == 200 and body["predictions"] == ["no", "no", "no"]
    assert body["models"][0] == body["models"][2] != body["models"][1]
    assert len(body["probabilities"]) == 3


def test_a_cluster_may_be_named(client: Client, served: LoadedModels) -> None:
    for cluster, name in served.clusters.items():
        status, body = post(client, "/predict", cluster=cluster, rows=ROWS)
        assert status == 200 and body["model"] == name


def test_an_unknown_client_is_refused_by_name(client: Client) -> None:
    status, body = post(client, "/predict", client="site-9", rows=ROWS)
    assert status == 404 and "'site-9' is not known" in body["error"]
    assert "labelled = {rows, labels}" in body["error"]
    # Other clients' names are not told.
    assert "site-0" not in body["error"]


def test_labelled_rows_are_advised_only_where_they_are_possible(
    client: Client, served: LoadedModels
) -> None:
    status, body = post(client, "/predict", clients=["site-9", "site-0"], rows=ROWS)
    assert status == 404 and body["error"] == "client 'site-9' is not known to this export"
    with pytest.raises(UnknownClientError) as caught:
        served.name_of("site-9")
    assert "labelled" not in str(caught.value)


def test_an_unseen_client_is_placed_by_its_labelled_rows(client: Client) -> None:
    for labels, like in ((["yes", "no"], "site-0"), (["no", "yes"], "site-1")):
        labelled = {"rows": ROWS, "labels": labels}
        status, body = post(client, "/predict", client="new", rows=ROWS, labelled=labelled)
        known = post(client, "/predict", client=like, rows=ROWS)[1]
        assert status == 200 and body["model"] == known["model"]
        assert body["predictions"] == labels
        placed = body["placed"]
        assert placed["rule"] == "lowest loss" and placed["rows"] == 2
        assert min(placed["losses"], key=placed["losses"].get) == body["model"]


def test_a_known_client_keeps_its_model(client: Client) -> None:
    labelled = {"rows": ROWS, "labels": ["no", "yes"]}
    status, body = post(client, "/predict", client="site-0", rows=ROWS, labelled=labelled)
    assert status == 200 and "placed" not in body and body["predictions"] == ["yes", "no"]


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # of the overflow
@pytest.mark.parametrize("label", [float("inf"), 1e300])
def test_a_label_without_a_finite_loss_places_no_client(label: float, tmp_path: Path) -> None:
    x = np.random.default_rng(0).normal(size=(80, 3)).astype(np.float32)
    clients = np.repeat(["a", "b"], 40)
    data = fk.data.from_arrays(x, 2.0 * x[:, 0], clients=clients, task="regression")
    run = fk.simulate(fk.IFCA(clusters=2), data, fk.models.mclr(data), rounds=1, cohort=2)
    served = LoadedModels(load(run.export(tmp_path / "export", "safetensors").parent))
    assert served.place(ROWS, [1.0, 2.0]).rows == 2
    with pytest.raises(DataError, match="not finite"):
        served.place(ROWS, [1.0, label])


def test_the_loss_of_a_placement() -> None:
    proba = np.array([[0.25, 0.75], [1.0, 0.0]])
    assert cross_entropy(proba, np.array([1, 0])) == pytest.approx(-np.log(0.75) / 2)
    assert np.isfinite(cross_entropy(proba, np.array([1, 1])))


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({}, "rows"),
        ({"rows": []}, "at least one row"),
        ({"rows": ROWS}, "name a client or a cluster"),
        ({"rows": ROWS, "client": "site-0", "cluster": 0}, "not both"),
        ({"rows": ROWS, "cluster": 7}, "no model of cluster 7"),
        ({"rows": ROWS, "cluster": True}, "whole number"),
        ({"rows": ROWS, "client": ["a"]}, "expected a text"),
        ({"rows": ROWS, "kind": 1}, "unknown key 'kind'"),
        ({"rows": [[1.0]], "client": "site-0"}, "shape"),
        ({"rows": [["a", "b", "c"]], "client": "site-0"}, "numbers"),
        ({"rows": [*ROWS, {"a": 1}], "client": "site-0"}, "all lists or all objects"),
        ({"rows": ROWS, "clients": ["site-0"]}, "a client for each of 2 rows"),
        ({"rows": ROWS, "clients": [None, "site-0"]}, "a name for each row"),
        ({"rows": ROWS, "clients": ["site-0"] * 2, "cluster": 1}, "cannot be combined"),
        ({"rows": ROWS, "client": "new", "labelled": 3}, "an object with rows and labels"),
        ({"rows": ROWS, "client": "new", "labelled": {"rows": ROWS, "labels": ["yes"]}}, "label"),
        (
            {"rows": ROWS, "client": "new", "labelled": {"rows": ROWS, "labels": ["yes", "?"]}},
            "'?'",
        ),
        *(
            ({"rows": ROWS, "client": "new", "labelled": {"rows": ROWS, "labels": labels}}, words)
            for labels, words in (
                ([[1], [1, 2]], "numbers or texts"),
                ([["yes"], ["no"]], "numbers or texts"),
                (["yes", None], "numbers or texts"),
                (["yes", {}], "numbers or texts"),
                ([10**30, 1], "numbers or texts"),
            )
        ),
    ],
)
def test_wrong_bodies_are_refused_by_name(client: Client, body: dict[str, Any], words: str) -> None:
    status, answer = post(client, "/predict", **body)
    assert status == 400 and words in answer["error"]


@pytest.mark.parametrize("text", [b"", b"{", b"[1]", b"\xff", b"[" * 4000, b'{"rows": [[NaN]]}'])
def test_a_body_without_a_json_object_is_refused(client: Client, text: bytes) -> None:
    assert client.post("/predict", text).status_code == 400


def test_a_body_that_is_nested_too_deeply_is_refused() -> None:
    with pytest.raises(InvalidBodyError, match="is nested too deeply"):
        parsed(b"[" * 200_000)


def test_a_body_that_is_too_large_is_refused(client: Client) -> None:
    assert client.post("/predict", b"x" * 5001).status_code == 413
    parts = iter([b"x" * 3000] * 2)  # without a stated length
    answer = client.post("/predict", parts)
    assert answer.status_code == 413 and "--max-body" in answer.json()["error"]


# --- the Open Inference Protocol


def test_health_and_metadata(client: Client, served: LoadedModels) -> None:
    assert client.get("/v2/health/live").status_code == 200
    assert client.get("/v2/health/ready").status_code == 200
    about = client.get("/v2").json()
    assert about["name"] == "fedkin" and about["fedkin"]["models"] == ["cluster-0", "cluster-1"]
    assert "site-0" not in json.dumps(about)
    model = client.get("/v2/models/cluster-1").json()
    onnx = served.export.card["format"] == "onnx"
    assert model["platform"] == ("onnx_onnxv1" if onnx else "fedkin_safetensors")
    assert model["inputs"] == [{"name": "samples", "datatype": "FP32", "shape": [-1, 3]}]
    assert [output["name"] for output in model["outputs"]] == ["scores", "predictions"]
    assert client.get("/v2/models/cluster-1/ready").status_code == 200
    assert client.get("/v2/models/cluster-1/versions/1/ready").status_code == 200
    assert client.get("/v2/models/none").status_code == 404
    assert client.get("/v2/models/none/ready").status_code == 404


def test_a_tensor_gets_scores_and_predictions(client: Client, small_run: fk.Run) -> None:
    model = small_run.model_for("site-0")
    status, body = infer(client, model.name, tensor(ROWS), id="7")
    assert status == 200 and body["id"] == "7" and body["model_name"] == model.name
    scores, predictions = body["outputs"]
    np.testing.assert_allclose(
        np.reshape(scores["data"], scores["shape"]), model(np.array(ROWS, np.float32)), rtol=1e-4
    )
    assert predictions == {
        "name": "predictions",
        "datatype": "BYTES",
        "shape": [2],
        "data": ["yes", "no"],
    }


def test_outputs_may_be_chosen(client: Client) -> None:
    wanted = [{"name": "predictions"}]
    status, body = infer(client, "cluster-0", tensor(ROWS), outputs=wanted)
    assert status == 200 and [one["name"] for one in body["outputs"]] == ["predictions"]
    status, body = infer(client, "cluster-0", tensor(ROWS), outputs=[{"name": "x"}])
    assert status == 400 and "'x'" in body["error"]


@pytest.mark.parametrize("name", [[], {}, None, 1])
def test_a_chosen_output_must_be_named_by_a_text(client: Client, name: Any) -> None:
    status, body = infer(client, "cluster-0", tensor(ROWS), outputs=[{"name": name}])
    assert status == 400 and "outputs" in body["error"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"datatype": "FP8"}, "datatype"),
        ({"shape": [2, 4]}, "do not fill the shape"),
        ({"shape": [2**62, 2**62]}, "list of one to eight sizes"),
        ({"shape": [-1]}, "list of one to eight sizes"),
        ({"data": ["a"] * 6}, "not of FP32"),
        ({"data": ["1.5"] * 6}, "not of FP32"),
        ({"datatype": "FP64", "data": [1, 2, 3, 4, 5, "6"]}, "not of FP64"),
        ({"data": None}, "not of FP32"),
        ({"data": [1.0, None, 1.0, 1.0, 1.0, 1.0]}, "not of FP32"),
        ({"data": [1e39] * 6}, ""),
        ({"shape": [3, 2]}, "shape"),
        ({"shape": [True], "data": [1.0]}, "list of one to eight sizes"),
        ({"datatype": "INT64", "data": [1.7] * 6}, "not of INT64"),
        ({"datatype": "INT64", "data": [1, 2, 3, 4, 5, 6.5]}, "not of INT64"),
        ({"datatype": "INT64", "data": ["1", 1.7, 1, 1, 1, 1]}, "not of INT64"),
        ({"datatype": "INT64", "data": [1e300] * 6}, "not of INT64"),
        ({"datatype": "UINT8", "data": [300.0] * 6}, "not of UINT8"),
        ({"datatype": "BOOL", "data": [0.5] * 6}, "not of BOOL"),
    ],
)
def test_wrong_tensors_are_refused(client: Client, change: dict[str, Any], words: str) -> None:
    status, body = infer(client, "cluster-0", tensor(ROWS) | change)
    assert status == 400 and words in body["error"]


def test_whole_numbers_may_be_written_as_fractions(client: Client) -> None:
    """JavaScript writes 2, Python 2.0: both are the integer 2."""
    rows = [[2, 0, -1], [0, 1, 3]]
    whole = infer(client, "cluster-0", tensor(rows, "INT64"))
    floats = infer(client, "cluster-0", tensor(np.array(rows, float), "INT64"))
    assert whole[0] == 200 and floats == whole


def test_an_error_of_the_program_ends_one_request(
    served: LoadedModels, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*arguments: object) -> dict[str, Any]:
        raise RuntimeError("oh")

    monkeypatch.setattr(service, "predicted", broken)
    with running(service.application(served)) as one:
        assert one.post("/predict", b"{}").status_code == 500
        assert one.get("/v2/health/live").status_code == 200


# --- exports that are refused


def test_an_export_of_another_version_is_refused(changed_card: Callable[..., Path]) -> None:
    with pytest.raises(ConfigError, match=r"was written by fedkin 0\.1\.7"):
        LoadedModels(load(changed_card(fedkin="0.1.7")))


def test_a_changed_model_is_refused(changed_card: Callable[..., Path]) -> None:
    folder = changed_card()
    with (folder / "cluster-1.safetensors").open("ab") as file:
        file.write(b"x")
    with pytest.raises(ConfigError, match="has changed"):
        LoadedModels(load(folder))


def test_the_command_refuses_a_folder_without_export(tmp_path: Path) -> None:
    done = CliRunner().invoke(command, ["serve", str(tmp_path)])
    assert done.exit_code == 2 and "holds no export" in done.output


def test_without_the_library_the_extra_is_named(
    served: LoadedModels, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "starlette.applications", None)
    with pytest.raises(MissingExtra, match=r"fedkin\[serve\]"):
        service.application(served)


def test_an_address_is_printed_only_if_it_can_be_served(
    exported: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = str(exported("safetensors"))
    listening = service.listening
    monkeypatch.setattr(service, "listening", lambda host, port: listening("127.0.0.1", port))
    monkeypatch.setattr(service, "serve", lambda config, bound: None)
    done = CliRunner().invoke(command, ["serve", folder, "--port", "0", "--host", "::1"])
    assert done.exit_code == 0 and " at http://[::1]:" in done.output
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    done = CliRunner().invoke(command, ["serve", folder, "--port", "0"])
    assert done.exit_code == 2 and "http://" not in done.output
    assert "fedkin[serve]" in done.output


def test_an_address_in_use_is_refused() -> None:
    with service.listening("127.0.0.1", 0) as bound:
        port = bound.getsockname()[1]
        with pytest.raises(ConfigError, match="choose another address"):
            service.listening("127.0.0.1", port)


# --- malformed requests


def test_malformed_requests_never_end_the_service(exported: Callable[[str], Path]) -> None:
    """The benchmark sends 10,000 (``python -m benchmarks.serve``)."""
    served = LoadedModels(load(exported("onnx")))
    with running(service.application(served)) as client:
        counts = send(client.port, malformed(300, seed=5))
        assert sum(counts.values()) == 300 and "500" not in counts
        assert post(client, "/predict", client="site-0", rows=ROWS)[0] == 200
