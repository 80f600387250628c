"""Metrics for Prometheus: values come from records, counters go on after a resume, and a private
run shows no scores."""

from __future__ import annotations

import json
import math
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

import fedkin as fk
from fedkin.config.metrics_settings import MetricsSettings
from fedkin.config.run import from_dict
from fedkin.core.errors import ConfigError, MissingExtra
from fedkin.data.federated import FederatedData
from fedkin.tracking import health, metric_table
from fedkin.tracking.health import Check
from fedkin.tracking.metrics_page import MetricsPage, serving
from fedkin.tracking.operated import operated, tracker_of
from fedkin.tracking.prometheus import Prometheus
from fedkin.tracking.registry import make_trackers
from fedkin.tracking.run_numbers import RunNumbers
from tests.option_lists import simulate_arguments

RECORD = {
    "round": 1,
    "method": "ifca",
    "accuracy": 0.5,
    "bottom_decile": 0.25,
    "loss": 1.5,
    "accuracy_by_cluster": [0.75, None],
    "cluster_sizes": [3, 0],
    "missing": 2,
    "nonfinite": 0,
    "outliers": 1,
    "migrations": 4,
    "monitor_evidence_by_cluster": [2.5, None],
    "bytes_by_operation": {"train": [30, 70]},
    "messages_by_operation": {"train": [40, 80]},
}
DESCRIPTION = {"data": {"name": "d"}, "method": {"name": "ifca"}, "run": {"seed": 0}}


def values(text: str) -> dict[tuple[str, ...], float]:
    """All samples of the text form: name and the values of labels but the run."""
    return {
        (sample.name, *(v for k, v in sorted(sample.labels.items()) if k != "run")): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def tracked(
    records: list[dict[str, Any]], tmp_path: Path, **description: Any
) -> dict[tuple[str, ...], float]:
    times = iter([100.0, 102.5, 200.0, 300.0])
    tracker = Prometheus(tmp_path / "m.prom", clock=lambda: next(times))
    tracker.begin("d ifca seed 0", DESCRIPTION | description, None)
    for record in records:
        tracker(record)
    return values((tmp_path / "m.prom").read_text())


# --- values


def test_values_are_those_of_the_records(tmp_path: Path) -> None:
    found = tracked([RECORD | {"round": 0}, RECORD], tmp_path)
    assert found["fedkin_run_info", "ifca"] == 1
    assert found["fedkin_rounds_total",] == 1
    assert found["fedkin_last_round_timestamp_seconds",] == 102.5
    assert found["fedkin_clusters",] == 1  # one of the two has clients
    assert found["fedkin_cluster_clients", "1"] == 0
    assert found["fedkin_cluster_accuracy_ratio", "0"] == 0.75
    assert ("fedkin_cluster_accuracy_ratio", "1") not in found
    assert found["fedkin_cluster_evidence_log", "0"] == 2.5
    assert ("fedkin_cluster_evidence_log", "1") not in found
    assert found["fedkin_bottom_decile_accuracy_ratio",] == 0.25
    # Counts of a round are added up, and those since the start are not.
    assert found["fedkin_replies_total", "missing", "train"] == 4
    assert found["fedkin_replies_total", "outlier", "train"] == 2
    assert found["fedkin_migrations_total", "method"] == 8
    assert found["fedkin_transfer_bytes_total", "up", "train"] == 70
    assert found["fedkin_message_bytes_total", "down", "train"] == 40


def test_the_histogram_counts_rounds_up_to_each_bound(tmp_path: Path) -> None:
    found = tracked([RECORD | {"round": round} for round in range(3)], tmp_path)
    bounds = {key[1]: value for key, value in found.items() if key[0].endswith("seconds_bucket")}
    # Rounds of 2.5 s and of 97.5 s.
    assert bounds["1.0"] == 0 and bounds["5.0"] == 1 and bounds["60.0"] == 1
    assert bounds["300.0"] == 2 and bounds["+Inf"] == 2
    assert found["fedkin_round_duration_seconds_sum",] == 100
    assert not [key for key in found if key[0].endswith("_created")]


def test_a_bound_belongs_to_its_bucket() -> None:
    numbers = RunNumbers("r", "ifca", private=False, folder=None)
    numbers.durations.add(5.0)
    assert dict(numbers.durations.cumulative())["5.0"] == 1


def test_late_replies_count_from_the_start(tmp_path: Path) -> None:
    late = {"late_used": 3, "late_dropped": 1}
    found = tracked([RECORD | {"round": 0} | late, RECORD | late], tmp_path)
    assert found["fedkin_replies_total", "late_used", "train"] == 3
    assert found["fedkin_replies_total", "late_dropped", "train"] == 1


def test_a_private_run_shows_neither_scores_nor_sizes(tmp_path: Path) -> None:
    found = tracked([RECORD], tmp_path, privacy={"name": "client_dp"})
    allowed = {metric.name for metric in metric_table.OF_PRIVATE_RUNS}
    shown = {key[0] for key in found}
    assert "fedkin_rounds_total" in shown
    assert {name for name in shown if not name.startswith(tuple(allowed))} == set()
    assert not shown & {"fedkin_accuracy_ratio", "fedkin_cluster_clients", "fedkin_replies_total"}


@pytest.mark.parametrize(("stored", "shown"), [("infinite", math.inf), (2.5, 2.5)])
def test_epsilon_comes_from_the_summary(stored: object, shown: float, tmp_path: Path) -> None:
    tracker = Prometheus(tmp_path / "m.prom")
    tracker.begin("r", DESCRIPTION, None)
    tracker.end({"privacy": {"epsilon": stored}})
    found = values((tmp_path / "m.prom").read_text())
    assert found["fedkin_privacy_epsilon",] == shown


def test_every_sample_is_declared_with_its_labels(tmp_path: Path) -> None:
    tracker = Prometheus(tmp_path / "m.prom")
    tracker.begin("r", DESCRIPTION, None)
    tracker(RECORD)
    tracker.end({"privacy": {"epsilon": 1.0}})
    declared = {metric.name: metric for metric in metric_table.OF_RUNS}
    text = (tmp_path / "m.prom").read_text()
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            name = sample.name.removesuffix("_bucket").removesuffix("_sum").removesuffix("_count")
            labels = {*sample.labels} - {"le"}
            assert labels == set(declared[name].labels), sample


# --- runs


def run_ifca(data: FederatedData, out: Path, rounds: int, resume: bool = False) -> fk.Run:
    return fk.simulate(
        fk.IFCA(clusters=2),
        data,
        fk.models.mclr(data),
        rounds=rounds,
        cohort=6,
        out=out,
        resume=resume,
        **simulate_arguments({"callbacks": "prometheus"}),
    )


def test_counters_go_on_after_a_resume(tiny: FederatedData, tmp_path: Path) -> None:
    run_ifca(tiny, tmp_path / "run", rounds=2)
    run = run_ifca(tiny, tmp_path / "run", rounds=3, resume=True)
    found = values((tmp_path / "run/metrics.prom").read_text())
    assert found["fedkin_rounds_total",] == 3
    moved = sum(record["migrations"] or 0 for record in run.records)
    assert found["fedkin_migrations_total", "method"] == moved
    assert found["fedkin_checkpoint_timestamp_seconds",] > 1e9
    # The text form of a gauge ends in its last digit.
    assert found["fedkin_accuracy_ratio",] == run.records[-1]["accuracy"]


def test_metrics_change_no_bit_of_a_run(tiny: FederatedData, tmp_path: Path) -> None:
    run_ifca(tiny, tmp_path / "with", rounds=2)
    plain = fk.simulate(
        fk.IFCA(clusters=2),
        tiny,
        fk.models.mclr(tiny),
        rounds=2,
        cohort=6,
        out=tmp_path / "without",
    )
    assert plain.records
    for name in ("metrics.jsonl", "config.toml"):
        assert (tmp_path / "with" / name).read_bytes() == (tmp_path / "without" / name).read_bytes()


def test_without_a_folder_a_file_must_be_named(tmp_path: Path) -> None:
    assert make_trackers([Prometheus(tmp_path / "m.prom")], None)
    with pytest.raises(ConfigError, match="run's folder"):
        make_trackers([Prometheus()], None)


def test_without_the_library_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    with pytest.raises(MissingExtra, match=r"fedkin\[metrics\]"):
        Prometheus()


# --- configuration


def test_the_section_is_no_part_of_the_description() -> None:
    config = from_dict({"metrics": {"port": 9109}})
    assert config.metrics == MetricsSettings(port=9109)
    assert "metrics" not in config.description().sections
    assert from_dict({}).metrics is None and from_dict({"metrics": {}}).metrics is None


@pytest.mark.parametrize(
    "wrong", [{"port": 70000}, {"port": "x"}, {"folder": "x"}, {"sites": True}]
)
def test_wrong_settings_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="metrics"):
        from_dict({"metrics": wrong})


def test_a_comparison_has_no_metrics() -> None:
    from fedkin.config import comparison

    with pytest.raises(ConfigError, match="does not apply to a comparison"):
        comparison.from_dict({"metrics": {"port": 1}})


def test_a_file_is_written_unless_only_a_page_is_wanted(tmp_path: Path) -> None:
    def writes(**settings: Any) -> bool:
        (tracker,) = tracker_of(MetricsSettings(**settings))
        tracker.begin("r", DESCRIPTION, None)
        tracker(RECORD)
        return (tmp_path / "m.prom").exists()

    assert not writes(port=0)
    assert writes(port=0, file=str(tmp_path / "m.prom"))
    assert tracker_of(None) == []


# --- the page


def get(url: str) -> tuple[int, str, str]:
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            return answer.status, answer.headers["Content-Type"], answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.headers["Content-Type"], error.read().decode()


def test_the_page_has_metrics_and_health() -> None:
    (tracker,) = tracker_of(MetricsSettings(port=0))
    tracker.begin("r", DESCRIPTION, None)
    tracker(RECORD)
    found = {"disk": Check("warn", "little"), "superlink": Check("pass", "it answers")}
    checks: dict[str, Any] = {name: lambda name=name: found[name] for name in found}
    checks["certificate"] = lambda: None  # does not apply
    with serving(MetricsPage(tracker.registry, checks)) as page:
        assert page.url.startswith("http://127.0.0.1:")
        status, kind, text = get(f"{page.url}/metrics")
        assert status == 200 and kind.startswith("text/plain")
        assert values(text)["fedkin_rounds_total",] == 1
        assert get(f"{page.url}/livez")[::2] == (200, "ok\n")
        status, kind, text = get(f"{page.url}/readyz")
        assert status == 200 and json.loads(text)["status"] == "warn"
        assert set(json.loads(text)["checks"]) == {"disk", "superlink"}
        found["superlink"] = Check("fail", "it does not answer")
        status, _, text = get(f"{page.url}/readyz")
        assert status == 503 and json.loads(text)["status"] == "fail"
        assert get(f"{page.url}/other")[0] == 404
    with pytest.raises(urllib.error.URLError):
        get(f"{page.url}/livez")


def test_a_port_in_use_is_refused() -> None:
    (tracker,) = tracker_of(MetricsSettings(port=0))
    with serving(MetricsPage(tracker.registry, {})) as page:
        port = page.server_address[1]
        with (
            pytest.raises(ConfigError, match=r"metrics\.port"),
            operated(MetricsSettings(port=port), [tracker], {}),
        ):
            pass


def test_without_a_port_there_is_no_page() -> None:
    with operated(None, [], {}):
        pass


# --- health


def test_an_error_of_a_check_fails() -> None:
    def broken() -> Check:
        raise OSError("gone")

    assert health.health_of({"disk": broken}).values() == {
        "status": "fail",
        "checks": {"disk": [{"status": "fail", "output": "OSError: gone"}]},
    }
    assert health.health_of({}).status == "pass"


@pytest.mark.parametrize(
    ("free", "status"), [(99e6, "fail"), (101e6, "warn"), (0.9e9, "warn"), (1.1e9, "pass")]
)
def test_free_space(
    free: float, status: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = type("Usage", (), {"free": free})
    monkeypatch.setattr(health.shutil, "disk_usage", lambda path: usage)
    assert health.disk_check(tmp_path / "not" / "yet").status == status


def test_a_round_may_take_three_deadlines() -> None:
    assert health.round_check(None, 10, 1000) is None
    just, late = (health.round_check(1000, 10, now) for now in (1030, 1031))
    assert just is not None and just.status == "pass"
    assert late is not None and late.status == "fail"
