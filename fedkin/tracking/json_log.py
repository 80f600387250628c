"""Logs as JSON: one object a line, with the names of OpenTelemetry's log model."""

from __future__ import annotations

import datetime
import json
import logging
import os
from typing import Any

from fedkin import __version__
from fedkin.core.errors import ConfigError
from fedkin.core.log_events import ATTRIBUTES, EVENT

VARIABLE = "FEDKIN_LOG_FORMAT"  # environment variable, which child processes inherit
TEXT = "text"
JSON = "json"
FORMATS = (TEXT, JSON)
# OpenTelemetry's numbers of severities, and their texts, by Python's level.
_SEVERITIES = (
    (logging.CRITICAL, 21, "FATAL"),
    (logging.ERROR, 17, "ERROR"),
    (logging.WARNING, 13, "WARN"),
    (logging.INFO, 9, "INFO"),
    (logging.NOTSET, 5, "DEBUG"),
)


class JsonFormatter(logging.Formatter):
    """Formats a log line as one JSON object. ``service`` names the program."""

    def __init__(self, service: str = "fedkin") -> None:
        super().__init__()
        self._resource = {"service.name": service, "service.version": __version__}

    def format(self, record: logging.LogRecord) -> str:
        """The line of a record, in ASCII."""
        number, text = _severity(record.levelno)
        moment = datetime.datetime.fromtimestamp(record.created, datetime.UTC)
        attributes = {"logger.name": record.name, **getattr(record, ATTRIBUTES, {})}
        entry: dict[str, Any] = {
            "timestamp": moment.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "severity_text": text,
            "severity_number": number,
            "body": record.getMessage(),
        }
        if hasattr(record, EVENT):
            entry["event_name"] = getattr(record, EVENT)
        if record.exc_info and record.exc_info[0] is not None:
            attributes |= {
                "exception.type": record.exc_info[0].__name__,
                "exception.message": str(record.exc_info[1]),
                "exception.stacktrace": self.formatException(record.exc_info),
            }
        entry["attributes"] = attributes
        entry["resource"] = self._resource
        return json.dumps(entry, default=str)


def _severity(level: int) -> tuple[int, str]:
    """OpenTelemetry's number and text of a level of Python's logging."""
    return next((number, text) for least, number, text in _SEVERITIES if level >= least)


def chosen_format() -> str:
    """The format that $FEDKIN_LOG_FORMAT asks for: ``text`` or ``json``.

    Raises ConfigError for another value.
    """
    return checked_format(os.environ.get(VARIABLE) or TEXT)


def checked_format(name: str) -> str:
    """A format's name, if it is known. Raises ConfigError for another one."""
    if name not in FORMATS:
        raise ConfigError(f"log format {name!r} is unknown; known: {', '.join(FORMATS)}")
    return name


def formatter(text: logging.Formatter, service: str = "fedkin") -> logging.Formatter:
    """The formatter that the environment asks for.

    Args:
        text: the formatter of logs as text.
        service: name of the program in logs as JSON.
    """
    return JsonFormatter(service) if chosen_format() == JSON else text


def log_as(name: str) -> None:
    """Set the format of the logs of this process and of those that it starts.

    As text, Python shows warnings on standard error without a handler. As JSON, this process shows
    them by one.

    Raises ConfigError for an unknown format.
    """
    checked_format(name)
    if name == JSON or VARIABLE in os.environ:
        os.environ[VARIABLE] = name
    if name == JSON:
        handler = logging.StreamHandler()
        handler.setFormatter(JsonFormatter())
        handler.setLevel(logging.WARNING)
        logging.lastResort = handler
