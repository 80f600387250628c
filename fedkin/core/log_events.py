"""Facts of a log line that programs can read: the name of its event, and its attributes."""

from __future__ import annotations

from typing import Any

EVENT = "event_name"  # attributes of a ``logging.LogRecord``
ATTRIBUTES = "attributes"


def event(name: str, **attributes: Any) -> dict[str, Any]:
    """The argument ``extra`` of a logging call. Logs as text do not show it.

    Args:
        name: the name of the event, such as ``round``.
        attributes: its facts, such as ``round=3`` and ``site="site-0"``; None is left out.
    """
    known = {f"fedkin.{key}": value for key, value in attributes.items() if value is not None}
    return {EVENT: f"fedkin.{name}", ATTRIBUTES: known}
