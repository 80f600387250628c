"""Metrics and health checks of a site, by the section [metrics] of its client.toml.

The counts are in a small file, so that they go on after a restart, and are the same whether one
process answers all messages or each message has a process.
"""

from __future__ import annotations

import json
import logging
import re
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any

from filelock import FileLock

from fedkin.config.metrics_settings import MetricsSettings
from fedkin.core.errors import FedkinError
from fedkin.core.storage import storage_errors, write_atomic
from fedkin.server.deploy.check_keys import check_site_authority
from fedkin.server.deploy.check_network import check_superlink
from fedkin.server.deploy.deployment_folder import SITE_CA, Address
from fedkin.server.deploy.server_metrics import as_check, superlink_check
from fedkin.server.frames import Frames
from fedkin.server.message import operation_of
from fedkin.tracking import metric_table as table
from fedkin.tracking.health import Check, disk_check
from fedkin.tracking.metric_table import Sample
from fedkin.tracking.operated import operated, tracker_of

_log = logging.getLogger("fedkin")
COUNTS = ".site-metrics.json"  # in the folder of a site
_TASK = re.compile(r"[a-z][a-z_.]{0,39}")
_MOST_TASKS = 50  # so that no server can fill the page with labels
_OTHER = "other"
Answer = Callable[[Frames], Frames]


class SiteMetrics:
    """The metrics of a site.

    Args:
        settings: the section [metrics]; None without it.
        folder: the site's folder.
        clock: returns the time in seconds since the epoch.
    """

    def __init__(
        self,
        settings: MetricsSettings | None,
        folder: Path,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.settings = settings
        self.folder = folder
        self.trackers = tracker_of(settings, [self._samples])
        self._clock = clock

    def counted(self, answer: Answer) -> Answer:
        """A function that answers messages, and counts the bytes of the replies.

        Args:
            answer: gives the reply to a message.
        """
        if not self.trackers:
            return answer

        def counting(message: Frames) -> Frames:
            reply = answer(message)
            self.count(operation_of(message), reply.size)
            return reply

        return counting

    def shown(self, address: Address) -> AbstractContextManager[None]:
        """Context manager that shows the page, if the section has a port.

        Args:
            address: address of the SuperLink.
        """
        checks: dict[str, Callable[[], Check | None]] = {
            "superlink": lambda: superlink_check(check_superlink(address, self.folder / SITE_CA)),
            "disk": partial(disk_check, self.folder),
        }
        if address.secure:
            checks["certificate"] = lambda: as_check(check_site_authority(self.folder))
        return operated(self.settings, self.trackers, checks)

    def count(self, task: str, size: int) -> None:
        """Count a reply. If the counts cannot be written, a warning is logged.

        Args:
            task: name of the task that the reply answers.
            size: its bytes.
        """
        path = self.folder / COUNTS
        try:
            with storage_errors(path), FileLock(path.with_suffix(".lock")):
                counts = self._counts()
                egress = counts["egress"]
                known = task in egress or len(egress) < _MOST_TASKS
                name = task if known and _TASK.fullmatch(task) else _OTHER
                egress[name] = egress.get(name, 0) + size
                write_atomic(path, json.dumps({"egress": egress, "contact": self._clock()}))
            for tracker in self.trackers:
                tracker.write()
        except FedkinError as error:
            _log.warning("the metrics of this site are not up to date: %s", error)

    def _counts(self) -> dict[str, Any]:
        """The counts so far: bytes by task, and the time of the last reply."""
        try:
            counts = json.loads((self.folder / COUNTS).read_text())
            egress = {str(task): int(count) for task, count in counts["egress"].items()}
            return {"egress": egress, "contact": float(counts["contact"])}
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return {"egress": {}, "contact": None}

    def _samples(self) -> Iterator[Sample]:
        """Bytes of the replies by task, and when the site last answered."""
        counts = self._counts()
        for task, count in counts["egress"].items():
            yield Sample(table.EGRESS, (task,), float(count))
        if counts["contact"] is not None:
            yield Sample(table.CONTACT, (), counts["contact"])
