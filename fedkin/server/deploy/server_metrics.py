"""Metrics and health checks of a server, by the section [metrics] of its file."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

from fedkin.config.server import ServerConfig
from fedkin.core.errors import FedkinError
from fedkin.run.folder.lock import folder_checks
from fedkin.server.deploy import deployment_folder as files
from fedkin.server.deploy.check_keys import check_server_certificate
from fedkin.server.deploy.check_network import check_superlink
from fedkin.server.deploy.check_result import CheckResult
from fedkin.server.membership import SITE_STATES, Membership
from fedkin.tracking import metric_table as table
from fedkin.tracking.health import Check, Checks, round_check
from fedkin.tracking.metric_table import Sample
from fedkin.tracking.operated import operated, tracker_of

_STATUS = {"✓": "pass", "!": "warn", "✗": "fail"}
_log = logging.getLogger("fedkin")


class ServerMetrics:
    """The metrics of a server: its tracker, the states of its sites, and its health checks.

    Args:
        config: the server's configuration.
        membership: the nodes that take part.
        clock: returns the time in seconds since the epoch.
    """

    def __init__(
        self,
        config: ServerConfig,
        membership: Membership,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.settings = config.metrics
        self.trackers = tracker_of(config.metrics, [self._site_samples])
        self._federation = config.federation
        self._membership = membership
        self._clock = clock
        self._written: dict[str, str] | None = None  # the states of the sites in the text file
        self._warned = False

    def write(self) -> None:
        """Write the text file, if there is one and the states of sites have changed. If it cannot
        be written, one warning is logged, and the run continues."""
        states = self._membership.site_states()
        if states == self._written:
            return
        try:
            for tracker in self.trackers:
                tracker.write()
            self._written = states
        except FedkinError as error:
            if not self._warned:
                _log.warning("the metrics of this server are not up to date: %s", error)
            self._warned = True

    def shown(self, checks: Checks) -> AbstractContextManager[None]:
        """Context manager that shows the page, if the section has a port.

        Args:
            checks: further health checks, by name.
        """
        own: Checks = {
            **folder_checks(Path(self._federation.folder)),
            "sites": self._sites_check,
            "last_round": self._round_check,
        }
        return operated(self.settings, self.trackers, {**own, **checks})

    def _site_samples(self) -> Iterator[Sample]:
        """How many sites are in each state; on request, whether each site is online."""
        states = self._membership.site_states()
        for state in SITE_STATES:
            count = sum(found == state for found in states.values())
            yield Sample(table.NODES, (state,), float(count))
        if self.settings is not None and self.settings.sites:
            for name, state in sorted(states.items()):
                yield Sample(table.SITE_ONLINE, (name,), float(state == "online"))

    def _sites_check(self) -> Check:
        """Whether as many clients are online as the first round waits for."""
        online = len(self._membership.online_clients())
        wanted = self._federation.wait_for
        text = f"{online} clients are online; federation.wait_for is {wanted}"
        return Check("pass" if online >= wanted else "fail", text)

    def _round_check(self) -> Check | None:
        """Whether the last round ended within three deadlines."""
        last = self.trackers[0].last_round
        return round_check(last, float(self._federation.deadline), self._clock())


def deployment_checks(folder: Path) -> Checks:
    """The health checks of a deployment's server that its folder allows: whether its SuperLink
    answers, and how long its certificate is valid.

    Args:
        folder: the folder of the deployment.
    """
    if not (folder / files.FLOWER).exists():
        return {}
    address = files.read_address(folder / files.FLOWER)
    checks: dict[str, Callable[[], Check]] = {
        "superlink": lambda: superlink_check(check_superlink(address, folder / files.CA))
    }
    if address.secure:
        checks["certificate"] = lambda: as_check(check_server_certificate(folder))
    return checks


def as_check(result: CheckResult) -> Check:
    """The result of a check of ``fedkin deploy check`` as the result of a health check."""
    return Check(_STATUS[result.mark], result.detail)  # type: ignore[arg-type]


def superlink_check(result: CheckResult) -> Check:
    """The result of a check of the SuperLink as the result of a health check. The SuperLink runs
    by now, so one that does not answer fails."""
    check = as_check(result)
    return check._replace(status="fail") if check.status == "warn" else check
