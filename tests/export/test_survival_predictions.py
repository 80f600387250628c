"""Risk scores of survival models for rows of a table, from runs, their folders and exports."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import fedkin as fk
from fedkin.cli import app
from fedkin.core.errors import ConfigError, DataError, FedkinError, ModelError
from fedkin.export import load
from fedkin.export.predict_table import predict_file
from fedkin.measures.concordance import concordance, concordance_within
from fedkin.run.run import Run
from fedkin.run.trained.external_evaluation import load_other
from fedkin.run.trained.newcomer_data import newcomer_samples
from fedkin.run.trained.place_table import place_clients
from fedkin.task_types.catalogue import task_type_from, values_of
from fedkin.task_types.survival import Survival


def patients() -> pd.DataFrame:
    """Patients of four clinics in two clusters, in which age acts in other directions."""
    rng = np.random.default_rng(0)
    clinic = np.arange(240) % 4
    frame = pd.DataFrame({"age": rng.normal(60, 10, 240), "dose": rng.normal(3, 1, 240)})
    risk = np.where(clinic % 2, -1, 1) * (frame.age - 60) / 10
    months = np.ceil(12 * rng.exponential(np.exp(-risk)))
    frame["ward"] = np.array(["er", "icu", "surgery"])[rng.integers(0, 3, 240)]
    frame.loc[::5, "dose"] = np.nan
    frame["months"] = np.minimum(months, 40)
    frame["died"] = months <= 40
    return frame.assign(clinic=[f"c{number}" for number in clinic])


def trained(out: Path | None = None, method: fk.Method | None = None) -> fk.Run:
    data = fk.data.from_pandas(patients(), label="months", event="died", client="clinic")
    return fk.simulate(
        method or fk.FedGroup(clusters=2, alpha=2),
        data,
        fk.models.cox(data, hidden=(3,)),
        rounds=3,
        cohort=4,
        out=out,
        local=fk.LocalTraining(epochs=3, lr=0.1),
    )


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> fk.Run:
    return trained(tmp_path_factory.mktemp("run") / "run")


def odd_rows() -> pd.DataFrame:
    """Rows with a missing age, and with a category that training never saw."""
    frame = patients().head(12)
    frame.loc[0, "age"] = np.nan
    frame.loc[1, "ward"] = "never seen"
    return frame


def test_a_risk_is_the_network_on_the_scaled_row(run: fk.Run) -> None:
    data = run.trained.parts.data
    assert data.transform is not None and data.transform.encoding is not None
    frame = odd_rows()
    model = run.model_for("c1")
    x = data.transform.apply(data.transform.encoding.apply(frame, "rows"))
    layers = model.layers
    hidden = x @ layers["risk.layers.0.weight"].T + layers["risk.layers.0.bias"]
    expected = np.maximum(hidden, 0) @ layers["risk.layers.1.weight"].T
    expected = expected[:, 0] + layers["risk.layers.1.bias"]
    risks = run.predict(frame, client="c1")
    assert risks.shape == (12,) and np.ptp(risks) > 0.1
    np.testing.assert_allclose(risks, expected, rtol=1e-4, atol=1e-5)
    # The patients of the run have the same risks.
    assert data.patients is not None
    first = data.patients.samples[0]
    scores = model.finite_scores(data.x[first : first + 12], prepared=True)[:, 0]
    np.testing.assert_allclose(run.predict(patients().head(12), client="c1"), scores, rtol=1e-5)


def test_an_export_predicts_as_the_run(run: fk.Run, tmp_path: Path) -> None:
    frame = odd_rows()
    frame.to_csv(tmp_path / "new.csv", index=False)
    run.export(tmp_path / "models")
    export = load(tmp_path / "models")
    found = predict_file(export, tmp_path / "new.csv")
    own = [run.predict(frame.iloc[[row]], client=frame.clinic[row])[0] for row in range(12)]
    np.testing.assert_allclose(found.table["prediction"], own, rtol=1e-5)
    assert list(found.table) == ["prediction"] and found.accuracy is None
    risks = np.array(own)
    pairs = [
        concordance(risks[rows], frame.months[rows].to_numpy(), frame.died[rows].to_numpy())
        for rows in (frame.clinic == name for name in sorted(set(frame.clinic)))
    ]
    index = concordance_within(pairs).index
    assert found.scores == {"concordance_index": index} and found.scored == 12
    card = json.loads((tmp_path / "models" / "card.json").read_text())
    assert card["task_type"] == {"task": "survival"}
    assert card["model"] == {"name": "cox", "hidden": [3]}
    assert card["columns"] == {"label": "months", "event": "died", "client": "clinic"}


def test_new_patients_need_neither_time_nor_event(run: fk.Run, tmp_path: Path) -> None:
    run.export(tmp_path / "models")
    frame = odd_rows()
    for columns in (["months", "died"], ["died"]):
        path = tmp_path / "new.csv"
        frame.drop(columns=columns).to_csv(path, index=False)
        found = predict_file(load(tmp_path / "models"), path)
        assert len(found.table) == 12 and found.scores is None
    frame.assign(died="dead").to_csv(path, index=False)
    with pytest.raises(DataError, match=r"new\.csv: column 'died': the event .* 'dead'"):
        predict_file(load(tmp_path / "models"), path)


def test_a_folder_predicts_as_the_run(run: fk.Run) -> None:
    data = fk.data.from_pandas(patients(), label="months", event="died", client="clinic")
    again = fk.Run.load(Path(str(run.folder)), model=fk.models.cox(data, hidden=(3,)), data=data)
    expected = run.predict(odd_rows(), client="c2")
    np.testing.assert_array_equal(again.predict(odd_rows(), client="c2"), expected)


def test_probabilities_and_mixtures_have_no_risks(run: fk.Run) -> None:
    with pytest.raises(ConfigError, match="predicts a risk score of each patient"):
        run.predict(odd_rows(), client="c1", proba=True)
    mixture = trained(method=fk.FedEM(clusters=2))
    with pytest.raises(ModelError, match="mixture of Cox models, whose risk scores have no common"):
        mixture.predict(odd_rows(), client="c1")


def test_risk_sets_are_samples_as_before(run: fk.Run) -> None:
    data = run.trained.parts.data
    assert data.transform is not None
    rows = data.test[1]
    raw = data.x[rows].astype(np.float64)
    present = raw[..., -1] > 0
    raw[present, :-1] = data.transform.undo(raw[present][:, :-1])
    model = run.model_for("c1")
    expected = model.decide(data.x[rows], prepared=True).classes
    np.testing.assert_array_equal(model.predict(raw), expected)


def test_evaluation_matches_columns_of_patients_by_name(run: fk.Run) -> None:
    transform = run.trained.parts.data.transform
    frame = patients()[["clinic", "died", "months", "ward", "dose", "age"]]
    other = fk.data.from_pandas(
        frame, label="months", event="died", client="clinic", scale_from=transform
    )
    found = run.evaluate(data=other, split="test")
    assert found.summary["samples"] == len(other.test.rows)


def test_a_newcomer_is_placed_by_its_times_and_events() -> None:
    """Age acts in the other direction in clinics of odd numbers."""
    run = trained(method=fk.IFCA(clusters=2))
    frame = patients()
    placed = {}
    for name in ("c0", "c1", "c2", "c3"):
        rows = frame.loc[frame.clinic == name]
        placed[name] = run.place(rows.drop(columns="clinic")).cluster
        assert placed[name] == run.clients.cluster[run.clients.name == name].item()
    assert placed["c0"] == placed["c2"] != placed["c1"]
    with pytest.raises(DataError, match=r"DataFrame with the columns 'months' and 'died'"):
        run.place(frame[["age", "dose", "ward"]])
    # The table has the labels.
    tuned = run.fine_tune(cluster=0, x=frame.head(40))
    assert tuned.predict(frame.head(3)).shape == (3,)
    given = run.fine_tune(cluster=0, x=frame.head(40), y=frame.months.head(40))
    assert (tuned.vector == given.vector).all()


def test_the_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    patients().to_csv("p.csv", index=False)
    settings = ["data.path=p.csv", "data.label=months", "data.event=died", "data.client=clinic"]
    more = [
        'data.loss_options={ties = "efron"}',
        "run.rounds=1",
        "run.cohort=4",
        "method.name=fedavg",
    ]
    call = CliRunner().invoke
    assert call(app, ["run", *settings, *more, "run.against=[]", "--out", "run"]).exit_code == 0
    assert 'name = "cox"' in Path("run/config.toml").read_text()
    assert call(app, ["export", "run", "--out", "models"]).exit_code == 0
    predicted = call(app, ["predict", "models", "p.csv"])
    assert predicted.exit_code == 0 and predicted.stdout.startswith("prediction\n")
    assert "concordance index 0." in predicted.output
    described = call(
        app, ["data", "describe", "p.csv", "label=months", "event=died", "client=clinic"]
    )
    assert described.exit_code == 0 and "observed events" in described.output
    # The card and the command name the score.
    card = json.loads(Path("models/card.json").read_text())
    assert 0 < card["models"][0]["test_concordance_index"] < 1
    # All patients of the file are evaluated, and the C-index is the one of the predictions.
    evaluated = call(app, ["evaluate", "run", "--data", "p.csv", "--json"])
    assert evaluated.exit_code == 0, evaluated.output
    (summary,) = json.loads(evaluated.stdout)
    shown = f"concordance index {summary['concordance_index']:.4g}"
    assert shown in predicted.output and summary["clients"] == 4 and "accuracy" not in summary
    placed = call(app, ["place", "run", "p.csv", "--json"])
    assert placed.exit_code == 0, placed.output
    assert [row["samples"] for row in json.loads(placed.stdout)] == [60] * 4


def test_a_file_with_other_columns_is_evaluated_and_placed(
    run: fk.Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Clinics of even and of odd numbers, in which age acts in other directions."""
    monkeypatch.chdir(tmp_path)
    frame = patients().rename(columns={"months": "zeit", "died": "tot"})
    frame = frame.assign(clinic=np.where(np.arange(240) % 2, "odd", "even"))
    frame.to_csv("n.csv", index=False)
    data = fk.data.from_pandas(patients(), label="months", event="died", client="clinic")
    again = trained(tmp_path / "ifca", fk.IFCA(clusters=2))
    own = Run.load(tmp_path / "ifca", model=fk.models.cox(data, hidden=(3,)), data=data).trained
    options = {"label": "zeit", "event": "tot"}
    other = load_other(Path("n.csv"), {}, own.parts.samples, options=options, pooled=True)
    found = {row.client: row for row in place_clients(own, other, name="n")}
    clusters = again.clients.set_index("name")["cluster"]
    assert found["even"].cluster == clusters["c0"] and found["odd"].cluster == clusters["c1"]
    assert found["even"].samples == 120
    for cluster in (0, 1):
        evaluated = again.evaluate(data=other, cluster=cluster).clients.set_index("name")
        for name, remainder in (("even", 0), ("odd", 1)):
            rows = np.arange(240) % 2 == remainder
            risks = again.predict(patients()[rows], cluster=cluster)
            expected = concordance(risks, frame.zeit[rows].to_numpy(), frame.tot[rows].to_numpy())
            assert evaluated.loc[name, "samples"] == expected.pairs
            assert evaluated.loc[name, "concordance_index"] == pytest.approx(expected.index)
    # A file without a column of clients has one client, named after the file.
    frame.drop(columns="clinic").to_csv("one.csv", index=False)
    single = load_other(Path("one.csv"), {}, own.parts.samples, options=options, pooled=True)
    assert [row.client for row in place_clients(own, single, name="one")] == ["one"]
    for wrong, message in (
        ({"label": "zeit"}, "one.csv: unknown column 'died'"),
        ({**options, "weight": "dose"}, "unknown option 'weight'.*event"),
    ):
        with pytest.raises(FedkinError, match=message):
            load_other(Path("one.csv"), {}, own.parts.samples, options=wrong, pooled=True)


def test_an_evaluation_has_the_score_of_the_record(run: fk.Run) -> None:
    summary = run.evaluate().summary
    assert summary["concordance_index"] == pytest.approx(run.records[-1]["concordance_index"])
    assert summary["concordance_index_worst_decile"] is not None
    trained_pairs = run.evaluate("train", fine_tune_epochs=1)
    data = run.trained.parts.data
    assert data.patients is not None
    pairs = [
        concordance(np.zeros(len(own)), data.patients.times[own], data.patients.died[own]).pairs
        for own in data.patients.train
    ]
    assert trained_pairs.clients["samples"].tolist() == pairs
    assert 0.5 < trained_pairs.summary["fine_tuned_concordance_index"] < 1


def test_a_mixture_is_scored_on_pairs() -> None:
    mixture = trained(method=fk.FedEM(clusters=2))
    summary = mixture.evaluate().summary
    assert summary["samples"] == len(mixture.trained.parts.data.test.rows)
    with pytest.raises(
        ConfigError, match="is a mixture or the data have no patients; evaluate the"
    ):
        mixture.evaluate("train")


def test_risk_sets_of_newcomers_have_the_options_of_the_run() -> None:
    """With Efron's ties a patient may have a weight below 1; with 3 draws, an event has 3 sets."""
    frame = patients()
    options = {"ties": "efron", "draws": 3, "at_risk": 5}
    data = fk.data.from_pandas(
        frame, label="months", event="died", client="clinic", loss_options=options
    )
    x, y = newcomer_samples(data, frame.head(60).drop(columns="clinic"), None)
    assert len(x) == len(y) and len(y) % 3 == 0 and x.shape[1] == 5
    weights = x[..., -1]
    assert ((weights > 0) & (weights < 1)).any()
    usual = fk.data.from_pandas(frame, label="months", event="died", client="clinic")
    x, y = newcomer_samples(usual, frame.head(60).drop(columns="clinic"), None)
    assert len(y) % 8 == 0 and set(np.unique(x[..., -1])) == {0.0, 1.0}
    # The options travel with the description of the labels, without those that are usual.
    values = {"task": "survival", "ties": "efron", "draws": 3}
    assert values_of(data.task_type) == values and values_of(usual.task_type) == {
        "task": "survival"
    }
    made = task_type_from(values, "place")
    assert isinstance(made, Survival) and (made.ties, made.draws) == ("efron", 3)


def test_compare_and_serve_choice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Methods are compared by the C-index, and by Cox's loss with training alone. The rule that
    chooses models needs losses of single samples, so it is refused, with the way on."""
    monkeypatch.chdir(tmp_path)
    patients().to_csv("p.csv", index=False)
    data = ["data.path=p.csv", "data.label=months", "data.event=died", "data.client=clinic"]
    more = ["run.rounds=1", "run.cohort=4"]
    call = CliRunner().invoke
    given = ["--methods", "local,fedavg", "--seeds", "1", "--out", "cmp", "--json"]
    compared = call(app, ["compare", *data, *more, *given])
    assert compared.exit_code == 0, compared.output
    summary = json.loads(compared.stdout.splitlines()[-1])
    assert "concordance_index" in str(summary) and "accuracy" not in str(summary)
    alone = ["method.name=fedavg", "run.against=[]", "--out", "run"]
    assert call(app, ["run", *data, *more, *alone]).exit_code == 0
    refused = call(app, ["serve-choice", "run"])
    assert refused.exit_code == 2
    text = " ".join(refused.output.split())
    assert "the loss of survival belongs to a risk set; compare the C-index of runs instead" in text
