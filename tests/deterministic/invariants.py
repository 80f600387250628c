"""What must hold after every schedule, whatever happened in it."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from fedkin.config import registry
from fedkin.config.option_registry import known_values
from fedkin.core.method import UNASSIGNED
from fedkin.options import SECTIONS
from fedkin.options.base import Option
from fedkin.run.folder.run_folder import METRICS
from fedkin.run.loop import run
from fedkin.run.run import Run
from fedkin.server.egress_check import check_against, check_lines
from fedkin.server.egress_receipts import read_receipts, receipts_file
from fedkin.server.request_round import GRACE
from tests.deterministic.observed_world import (
    Call,
    LateReplies,
    ObservedWorld,
    RepeatedWorld,
    UndisturbedWorld,
    kind_of,
    state_arrays,
)
from tests.deterministic.schedule import HIDDEN_SCORES
from tests.deterministic.sites import quadratic_clients
from tests.option_lists import with_options

if TYPE_CHECKING:
    from tests.deterministic.federation import Federation

# In front of names of records' entries that are compared elsewhere.
_OWN_TO_MESSAGES = (
    "bytes",
    "messages",
    "bits",
)


def check(federation: Federation, finished: Run) -> None:
    """Everything. Raises AssertionError."""
    world = federation.trace.world
    assert world is not None
    check_rounds(federation, finished)
    check_ids(federation, world, finished)
    check_ledger(federation, world)
    check_log(federation)
    check_late(federation)
    check_kill(federation, world)
    check_floors(federation)
    if "buffers" in federation.schedule.options:
        check_replay(federation, world, finished)
    else:
        check_undisturbed(federation, world, finished)


def check_rounds(federation: Federation, finished: Run) -> None:
    """Every round is there, once."""
    expected = list(range(federation.schedule.rounds + 1))
    assert [record["round"] for record in finished.records] == expected
    lines = (federation.trace.folder / METRICS).read_text().splitlines()
    assert [json.loads(line) for line in lines] == json.loads(json.dumps(finished.records))


def check_ids(federation: Federation, world: ObservedWorld, finished: Run) -> None:
    """No client is in two clusters: each has one id, under every server, and each id one client."""
    members = world.membership.registry.members
    ids = [client for member in members.values() for client in member.ids]
    assert len(set(ids)) == len(ids), "two clients have the same id"
    for name, member in members.items():
        assert member.count == federation.schedule.sites[name]
    run_name = world._client.run
    for site in federation.sites.values():
        assert site.ids.get(run_name, members[site.name].first if site.name in members else 0) == (
            members[site.name].first if site.name in members else 0
        ), f"{site.name} has other ids than it was asked under"
    assignment = finished.assignment
    clusters = finished.state.clusters
    assert ((assignment >= UNASSIGNED) & (assignment < clusters)).all()


def check_ledger(federation: Federation, world: ObservedWorld) -> None:
    """The ledger has the bytes of the rounds that count: declared ones by call, measured ones by
    message."""
    entries = federation.trace.entries
    ledger = world.ledger
    calls = [entry for entry in entries if isinstance(entry, Call)]
    messages = [entry for entry in entries if isinstance(entry, tuple)]
    sides = (ledger.down, ledger.up, ledger.measured_down, ledger.measured_up)
    counted = [sum(side.values()) for side in sides]
    expected = [sum(call.down for call in calls), sum(call.up for call in calls)]
    expected += [sum(one[side] for one in messages) for side in (1, 2)]
    assert counted == expected, f"the ledger has {counted}, and {expected} were sent"


def check_egress(federation: Federation) -> None:
    """The sites' ledgers explain every reply that the server has received."""
    receipts = read_receipts(receipts_file(federation.server.folder / "run"))
    tampered = {fault.site for fault in federation.schedule.faults if fault.kind == "tamper"}
    for name, site in federation.sites.items():
        assert site.outbox is not None
        ledger = site.outbox.ledger
        if name not in {receipt.site for receipt in receipts}:
            continue
        check = check_against(ledger.lines(), receipts, "the run", ledger.torn())
        assert not check_lines(ledger.lines())[0].faults
        assert check.is_sound or name in tampered, f"{name}: {check.faults}"


def check_log(federation: Federation) -> None:
    """Nothing was damaged that a restart must find."""
    for line in federation.story:
        assert "so this site's clients start without the arrays in it" not in line, line
        assert "taking an older checkpoint" not in line, line


def check_late(federation: Federation) -> None:
    """No reply counts twice: a client replies at most once to each call, in time or late.

    A round may call a client twice for the same work, as one that places newcomers and then trains
    them does.
    """
    calls = [entry for entry in federation.trace.entries if isinstance(entry, Call)]
    asked = Counter((call.kind, call.round, client) for call in calls for client in call.clients)
    came = Counter(
        (call.kind, call.round, client)
        for call in calls
        for client in call.clients[call.reply.arrived]
    )
    late = [
        one
        for entry in federation.trace.entries
        if isinstance(entry, LateReplies)
        for one in entry.replies
    ]
    for one in late:
        for client in one.clients[one.reply.arrived]:
            key = (kind_of(one.task), one.round, client)
            came[key] += 1
            assert came[key] <= asked[key], (
                f"the reply of client {client} of round {one.round} counts twice"
            )


def check_kill(federation: Federation, world: ObservedWorld) -> None:
    """Where all that happened is that a site was killed, no other site loses its place: each
    replies to every request and is online in every round from its first on. Rounds take their
    deadline and grace at most."""
    killed = {fault.site for fault in federation.schedule.faults if fault.kind == "kill_in_step"}
    if not killed:
        return
    members = world.membership.registry.members
    healthy = [member.ids for name, member in members.items() if name not in killed]
    ids = np.concatenate([np.zeros(0, np.int64), *healthy])
    assert len(healthy) == len(federation.schedule.sites) - 1, (
        "a site that was not killed does not take part"
    )
    online = np.zeros(0, np.int64)
    for entry in federation.trace.entries:
        if isinstance(entry, np.ndarray):
            lost = np.setdiff1d(online, entry)
            assert not len(lost), (
                f"clients {lost} have lost their place, and their sites were not killed"
            )
            online = np.intersect1d(entry, ids)
        elif isinstance(entry, Call):
            silent = entry.clients[~entry.reply.arrived & np.isin(entry.clients, ids)]
            assert not len(silent), (
                f"round {entry.round}: no reply to {entry.task} of clients {silent} counts"
            )
    for seconds in federation.trace.seconds:
        limit = federation.schedule.deadline + GRACE
        assert seconds <= limit, (
            f"a round took {seconds:.1f} s, with deadline and grace of {limit:.1f} s"
        )


def check_floors(federation: Federation) -> None:
    """No score has left a site whose floor is above all its test samples."""
    if federation.schedule.test_floor != HIDDEN_SCORES:
        return
    for entry in federation.trace.entries:
        if isinstance(entry, Call) and entry.task in ("evaluate", "evaluate_many"):
            assert not entry.reply.arrived.any(), f"round {entry.round}: a score has left a site"


def check_replay(federation: Federation, world: ObservedWorld, finished: Run) -> None:
    """A simulation that repeats the recorded order of arrivals has the same models, bit for bit."""
    numbers = np.full(world.total_clients, 99)
    for name, member in world.membership.registry.members.items():
        numbers[member.ids] = federation.sites[name].numbers
    entries = [
        entry for entry in federation.trace.entries if not isinstance(entry, (tuple, LateReplies))
    ]
    repeated: Any = RepeatedWorld(quadratic_clients(numbers), entries, world.work)
    method = registry.make(registry.methods(), finished.config.method)
    (option,) = _options_of(finished)
    # The folder is in memory, so its lines are written where a simulation finds them.
    with TemporaryDirectory() as folder:
        lines = (federation.trace.folder / METRICS).read_bytes()
        (Path(folder) / METRICS).write_bytes(lines)
        replay = replace(cast(Any, option), replay=folder)
        options = with_options(method, replay, world=repeated).options
        again = run(repeated, method, federation.plan, options=options)
    mine = state_arrays(finished.state)
    theirs = state_arrays(again.state)
    for name in ("models", "assignment", "asynchronous/versions", "asynchronous/counts"):
        np.testing.assert_array_equal(mine[name], theirs[name], err_msg=name)
    for one, two in zip(finished.records, again.records, strict=True):
        for name in ("stepped", "arrivals", "replies_used", "replies_dropped"):
            assert one[name] == two[name], f"round {one['round']}: {name}"


def check_undisturbed(federation: Federation, world: ObservedWorld, finished: Run) -> None:
    """A run that nothing disturbs, with the same replies, has the same records and ends in the same
    state."""
    numbers = np.full(world.total_clients, 99)
    for name, member in world.membership.registry.members.items():
        numbers[member.ids] = federation.sites[name].numbers
    entries = [entry for entry in federation.trace.entries if not isinstance(entry, tuple)]
    undisturbed: Any = UndisturbedWorld(quadratic_clients(numbers), entries, world.work)
    method = registry.make(registry.methods(), finished.config.method)
    options = with_options(method, *_options_of(finished), world=undisturbed).options
    again = run(undisturbed, method, federation.plan, options=options)
    # Else the last scores, which no checkpoint has, were asked for again.
    if not federation.trace.at_end:
        undisturbed.finish()
    mine = state_arrays(finished.state)
    theirs = state_arrays(again.state)
    assert mine.keys() == theirs.keys()
    for name, array in theirs.items():
        np.testing.assert_allclose(mine[name], array, rtol=1e-4, atol=1e-5, err_msg=name)
    for one, two in zip(finished.records, again.records, strict=True):
        check_record(one, two)


def _options_of(finished: Run) -> list[Option]:
    """The options of a run."""
    sections = {name: finished.config.section(name) for name in SECTIONS}
    return [registry.make(known_values(name), of) for name, of in sections.items() if of]


def check_record(one: dict[str, Any], two: dict[str, Any]) -> None:
    """Two records of a round agree in all but the sizes of messages."""
    for name, value in two.items():
        if not name.startswith(_OWN_TO_MESSAGES) and name != "method":
            text = f"round {two['round']}: {name} is {one[name]}, and undisturbed {value}"
            assert _close(one[name], value), text


def _close(one: Any, two: Any) -> bool:
    if isinstance(one, float) and isinstance(two, float):
        return bool(np.isclose(one, two, rtol=1e-4, atol=1e-6, equal_nan=True))
    if isinstance(one, list) and isinstance(two, list):
        return len(one) == len(two) and all(map(_close, one, two))
    return one == two
