"""Reads the dashboard of the page on operation by Grafana's own library of dashboards.

    pip install grafana-foundation-sdk
    python -m benchmarks.grafana_dashboard

The library has a class for each kind of object in a dashboard. The program reads the file into
these classes, writes them as JSON again, and prints each entry that was lost or changed.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

FILE = Path(__file__).resolve().parents[1] / "docs/operate/grafana.json"


def differences(before: Any, after: Any, place: str = "") -> Iterator[str]:
    """The entries of ``before`` that ``after`` does not have, or has with another value."""
    if isinstance(before, dict) and isinstance(after, dict):
        for key, value in before.items():
            if key in after:
                yield from differences(value, after[key], f"{place}/{key}")
            else:
                yield f"{place}/{key} is lost"
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for number, pair in enumerate(zip(before, after, strict=True)):
            yield from differences(*pair, f"{place}/{number}")
    elif before != after:
        yield f"{place}: {before!r} became {after!r}"


def main() -> None:
    """Read, and say what differs."""
    from grafana_foundation_sdk.cog.encoder import JSONEncoder
    from grafana_foundation_sdk.cog.plugins import register_default_plugins
    from grafana_foundation_sdk.models.dashboard import Dashboard

    register_default_plugins()
    content = json.loads(FILE.read_text())
    written = JSONEncoder().encode(Dashboard.from_json(content))
    found = list(differences(content, json.loads(written)))
    print("\n".join(found))
    number = len(content["panels"])
    library = version("grafana-foundation-sdk")
    print(f"{number} panels, {len(found)} differences, grafana-foundation-sdk {library}")
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
