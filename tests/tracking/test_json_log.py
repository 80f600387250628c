"""Logs as JSON, with the names of OpenTelemetry."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from pathlib import Path

import pytest

from fedkin import __version__
from fedkin.core.errors import ConfigError
from fedkin.core.log_events import event
from fedkin.tracking import json_log


def line(level: int, text: str, *arguments: object, **more: object) -> dict:
    record = logging.getLogger("fedkin").makeRecord(
        "fedkin", level, "f", 1, text, arguments, None, extra=more or None
    )
    record.created = 0.25
    return json.loads(json_log.JsonFormatter("fedkin-server").format(record))


def test_a_line_has_the_names_of_opentelemetry() -> None:
    found = line(logging.WARNING, "%s is\nslow", "a", **event("site", site="s-1", round=None))
    assert found == {
        "timestamp": "1970-01-01T00:00:00.250Z",
        "severity_text": "WARN",
        "severity_number": 13,
        "body": "a is\nslow",
        "event_name": "fedkin.site",
        "attributes": {"logger.name": "fedkin", "fedkin.site": "s-1"},
        "resource": {"service.name": "fedkin-server", "service.version": __version__},
    }


@pytest.mark.parametrize(
    ("level", "number"),
    [
        (logging.DEBUG, 5),
        (logging.INFO, 9),
        (logging.WARNING, 13),
        (logging.ERROR, 17),
        (logging.CRITICAL, 21),
    ],
)
def test_severities(level: int, number: int) -> None:
    found = line(level, "x")
    assert found["severity_number"] == number and "event_name" not in found


def test_an_exception_is_in_attributes() -> None:
    try:
        raise ValueError("bad")
    except ValueError:
        record = logging.getLogger("fedkin").makeRecord(
            "fedkin", logging.ERROR, "f", 1, "x", (), sys.exc_info()
        )
    text = json_log.JsonFormatter().format(record)
    found = json.loads(text)["attributes"]
    assert "\n" not in text
    assert found["exception.type"] == "ValueError" and found["exception.message"] == "bad"
    assert "Traceback" in found["exception.stacktrace"]


def test_an_unknown_format_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(json_log.VARIABLE, "xml")
    with pytest.raises(ConfigError, match="known: text, json"):
        json_log.chosen_format()


def test_a_command_writes_its_warnings_as_json(tmp_path: Path) -> None:
    code = (
        "import logging; from fedkin.tracking.json_log import log_as; log_as('json');"
        "logging.getLogger('fedkin').warning('look')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert json.loads(done.stderr)["body"] == "look"
