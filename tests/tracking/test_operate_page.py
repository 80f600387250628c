"""The page about metrics, its alert rules and its dashboard use the declared metrics."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from fedkin.tracking import metric_table
from tests.docs.code_blocks import ROOT

FOLDER = ROOT / "docs/operate"
DECLARED = {metric.name: metric for place in metric_table.PLACES.values() for metric in place}
# Labels that Prometheus adds itself.
OF_PROMETHEUS = {"instance", "le"}


def rules() -> list[dict[str, Any]]:
    (group,) = yaml.safe_load((FOLDER / "alerts.yml").read_text())["groups"]
    return group["rules"]


def panels() -> list[dict[str, Any]]:
    return json.loads((FOLDER / "grafana.json").read_text())["panels"]


def expressions() -> list[str]:
    targets = [target for panel in panels() for target in panel["targets"]]
    return [*(rule["expr"] for rule in rules()), *(target["expr"] for target in targets)]


def metrics_in(expression: str) -> list[str]:
    names = re.findall(r"fedkin_\w+", expression)
    return [re.sub(r"_(bucket|sum|count)$", "", name) for name in names]


def test_the_page_has_the_table() -> None:
    assert metric_table.table() in (ROOT / "docs/operate.md").read_text()


def test_names_follow_the_rules_of_prometheus() -> None:
    for metric in DECLARED.values():
        assert (metric.kind == "counter") == metric.name.endswith("_total"), metric
        assert (metric.kind == "info") == metric.name.endswith("_info"), metric
        assert metric.meaning.endswith((".", "`.", "`.")), metric
    assert len(DECLARED) == sum(map(len, metric_table.PLACES.values()))
    assert set(metric_table.OF_PRIVATE_RUNS) <= set(metric_table.OF_RUNS)


@pytest.mark.parametrize("expression", expressions())
def test_expressions_use_declared_metrics_and_labels(expression: str) -> None:
    names = metrics_in(expression)
    assert names and set(names) <= DECLARED.keys()
    labels = {label for name in names for label in DECLARED[name].labels}
    for used in re.findall(r"\{([^}]*)\}|by \(([^)]*)\)", expression):
        for label in re.findall(r"(\w+)(?==|$|,)", " ".join(used).replace(", ", ",")):
            assert label in labels | OF_PROMETHEUS, label


def test_the_alerts_of_the_page_are_those_of_the_file() -> None:
    page = (ROOT / "docs/operate.md").read_text()
    assert {rule["alert"] for rule in rules()} == set(re.findall(r"`(Fedkin\w+)`", page))
    assert all(rule["labels"]["severity"] in ("warning", "critical") for rule in rules())


def test_panels_do_not_overlap() -> None:
    cells: set[tuple[int, int]] = set()
    for panel in panels():
        place = panel["gridPos"]
        own = {
            (place["x"] + dx, place["y"] + dy)
            for dx in range(place["w"])
            for dy in range(place["h"])
        }
        assert not cells & own and place["x"] + place["w"] <= 24
        cells |= own
    assert len({panel["id"] for panel in panels()}) == len(panels())


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")
def test_promtool_accepts_the_rules(tmp_path: Path) -> None:
    for arguments in (["check", "rules", "alerts.yml"], ["test", "rules", "alerts_test.yml"]):
        subprocess.run(["promtool", *arguments], cwd=FOLDER, check=True)
