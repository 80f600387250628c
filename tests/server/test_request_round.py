"""One round of requests on a simulated clock: the nodes it waits for, how long, and retries."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
import pytest

from fedkin.server.message import RpcMessage
from fedkin.server.request_round import Enough, RequestRound
from fedkin.server.transport import NodeReply
from tests.server.memory_transport import MemoryTransport, request_round, transmitted

REQUEST = RpcMessage({"operation": "train"}, {"models": np.zeros((1, 100), np.float32)})
POLL = 0.25 + 1e-9  # seconds between looks for replies
SIZE = transmitted(REQUEST)[1]


def echo(node: int) -> Any:
    """A node that replies with its id and the number of its earlier requests."""
    counter = iter(range(1000))
    return lambda request: RpcMessage({"node": node, "count": next(counter)})


def started(
    nodes: int = 4, capacity: int = 100, deadline: float = 90.0, **settings: Any
) -> tuple[MemoryTransport, RequestRound]:
    transport = MemoryTransport()
    for node in range(1, nodes + 1):
        transport.join(node, echo(node))
    requests = request_round(transport, capacity=capacity, deadline=deadline, **settings)
    requests.begin_round()
    return transport, requests


def ask(
    requests: RequestRound, nodes: Any = (1, 2, 3, 4), round: int = 1, operation: str = "train"
) -> dict[int, NodeReply]:
    request = RpcMessage({**REQUEST.header, "operation": operation}, REQUEST.arrays)
    return requests.send({node: request for node in nodes}, round)


def who(replies: dict[int, NodeReply]) -> dict[int, Any]:
    return {node: reply.message and reply.message.header["node"] for node, reply in replies.items()}


def test_replies_that_come_at_once_cost_no_time() -> None:
    transport, requests = started()
    assert who(ask(requests)) == {1: 1, 2: 2, 3: 3, 4: 4}
    assert transport.clock.now == 0 and not requests.suspects


def test_replies_are_matched_by_their_request_in_any_order() -> None:
    transport, requests = started()
    for node, delay in ((1, 7.0), (2, 5.0), (3, 9.0), (4, 1.0)):
        transport.stations[node].delay = delay
    assert who(ask(requests)) == {1: 1, 2: 2, 3: 3, 4: 4}
    assert 9 <= transport.clock.now <= 9 + POLL


def test_the_bytes_of_requests_and_replies_are_counted() -> None:
    transport, requests = started()
    ask(requests)
    assert requests.bytes_sent == sum(size for *_, size in transport.pushed) == 4 * SIZE
    assert requests.bytes_received == sum(size for _, size in transport.pulled) > 0
    assert requests.sent == {1, 2, 3, 4}
    ask(requests, (1,))
    assert requests.bytes_sent == SIZE  # in the last call
    assert requests.sent == {1}


def test_no_requests_take_no_time() -> None:
    transport, requests = started()
    assert ask(requests, ()) == {} and transport.clock.now == 0 and requests.bytes_sent == 0


def test_requests_of_which_the_engine_takes_none_take_no_time(
    caplog: pytest.LogCaptureFixture,
) -> None:
    transport, requests = started(nodes=2)
    for station in transport.stations.values():
        station.rejected = True
    with caplog.at_level(logging.WARNING, "fedkin"):
        assert ask(requests, (1, 2)) == {}
    assert transport.clock.now == 0 and requests.bytes_sent == 0 and not requests.missed
    assert not requests.sent
    assert [record.getMessage() for record in caplog.records] == [
        f"round 1, train: Flower did not accept a request for node {node}" for node in (1, 2)
    ]


# --- enough replies


def test_a_call_ends_with_enough_replies() -> None:
    """Two of four clients: those of the nodes 4 and 2. The others are not suspected, and their
    replies are fetched in the next round."""
    transport, requests = started()
    for node, delay in ((1, 7.0), (2, 5.0), (3, 9.0), (4, 1.0)):
        transport.stations[node].delay = delay
    enough = Enough(2, dict.fromkeys((1, 2, 3, 4), 1))
    replies = requests.send(dict.fromkeys((1, 2, 3, 4), REQUEST), 1, enough=enough)
    assert set(replies) == {2, 4}
    assert 5 <= transport.clock.now <= 5 + POLL
    assert requests.had_enough
    assert set(requests.missed.values()) == {1, 3}
    assert not requests.suspects
    transport.clock.sleep(10)
    requests.begin_round()
    assert len(requests.late_replies()) == 2
    # The next call waits for all replies again.
    assert set(ask(requests, round=2)) == {1, 2, 3, 4}
    assert not requests.had_enough


def test_nodes_are_at_work_until_their_requests_expire() -> None:
    """A quorum ends the call earlier, but the nodes keep their requests as long as before."""
    transport, requests = started(quorum=0.25)
    for node, delay in ((1, 1.0), (2, 1.5), (3, 30.0), (4, np.inf)):
        transport.stations[node].delay = delay
    enough = Enough(2, dict.fromkeys((1, 2, 3, 4), 1))
    assert set(requests.send(dict.fromkeys((1, 2, 3, 4), REQUEST), 1, enough=enough)) == {1, 2}
    transport.clock.sleep(10)
    assert requests.nodes_at_work() == {3, 4}
    transport.clock.sleep(30)
    requests.fetch_late()
    assert requests.nodes_at_work() == {4}
    transport.clock.sleep(30)
    assert not requests.nodes_at_work()


def test_the_clients_of_a_node_count_together() -> None:
    transport, requests = started(nodes=2)
    transport.stations[2].delay = 5.0
    request: dict[int, RpcMessage] = dict.fromkeys((1, 2), REQUEST)
    assert set(requests.send(request, 1, enough=Enough(3, {1: 3, 2: 1}))) == {1}
    assert set(requests.send(request, 1, enough=Enough(4, {1: 3, 2: 1}))) == {1, 2}
    assert not requests.missed


def test_too_few_replies_wait_for_the_deadline() -> None:
    """A node that fails is not among the first."""
    transport, requests = started(nodes=3, deadline=90.0)
    transport.stations[2].delay = np.inf
    transport.stations[3].tamper = lambda request, reply: RpcMessage({"failed": "no"})
    enough = Enough(2, dict.fromkeys((1, 2, 3), 1))
    replies = requests.send(dict.fromkeys((1, 2, 3), REQUEST), 1, enough=enough)
    assert set(replies) == {1, 3}
    assert 60 <= transport.clock.now <= 60 + POLL
    assert not requests.had_enough
    assert set(requests.suspects) == {2}


# --- deadlines


def test_a_call_leaves_a_third_of_the_time_of_a_round() -> None:
    transport, requests = started(deadline=90.0)
    transport.stations[3].delay = np.inf
    assert 3 not in ask(requests)
    assert 60 <= transport.clock.now <= 60 + POLL
    transport.stations[2].delay = np.inf
    assert 2 not in ask(requests, (1, 2, 4))
    assert 80 <= transport.clock.now <= 80 + 2 * POLL


def test_a_killed_slow_node_leaves_the_others_a_third_of_the_round() -> None:
    """All train for 65 s of 120 s, which is more than half. One is killed in the second round:
    training ends after 80 s, and the others have 26 s for the evaluation."""
    transport, requests = started(deadline=120.0)
    for station in transport.stations.values():
        station.delay = 65.0
    assert set(ask(requests)) == {1, 2, 3, 4}
    requests.begin_round()
    began = transport.clock.now
    transport.stations[2].delay = np.inf
    assert set(ask(requests, round=2)) == {1, 3, 4}
    assert 80 <= transport.clock.now - began <= 80 + POLL
    for station in transport.stations.values():
        station.delay = 26.0
    assert set(ask(requests, (1, 3, 4), round=2, operation="evaluate")) == {1, 3, 4}


def test_a_node_that_is_killed_in_a_short_request_is_suspected_however_long_it_trains() -> None:
    """Training takes 65 s of 120 s, and the evaluation ends after two thirds of the other 55 s.
    That is less than the node trains, and much more than it needs to evaluate. Asked again, it
    would take the time of the others again."""
    transport, requests = started(deadline=120.0)
    for seconds, operation in ((65.0, "train"), (2.0, "evaluate")):
        for station in transport.stations.values():
            station.delay = seconds
        assert set(ask(requests, operation=operation)) == {1, 2, 3, 4}
    requests.begin_round()
    for station in transport.stations.values():
        station.delay = 65.0
    ask(requests, round=2)
    for station in transport.stations.values():
        station.delay = 2.0
    transport.stations[2].delay = np.inf
    assert set(ask(requests, round=2, operation="evaluate")) == {1, 3, 4}
    assert set(requests.suspects) == {2}


def test_a_node_that_had_less_time_than_it_lately_needed_is_not_suspected() -> None:
    """It trains for 50 s of 90 s, and the second call of a round of the same operation ends after
    26 s."""
    transport, requests = started(deadline=90.0)
    transport.stations[2].delay = 50.0
    assert 2 in ask(requests)
    assert 2 not in ask(requests)
    assert not requests.suspects


def test_a_new_round_has_its_own_deadline() -> None:
    transport, requests = started(deadline=90.0)
    transport.stations[3].delay = np.inf
    ask(requests)
    requests.begin_round()
    transport.stations[2].delay = 59.0
    assert 2 in ask(requests, (1, 2, 4))


def test_a_reply_right_before_the_deadline_counts_and_one_after_it_does_not() -> None:
    transport, requests = started(deadline=90.0)
    transport.stations[1].delay = 59.5
    transport.stations[2].delay = 60.5
    assert set(ask(requests)) == {1, 3, 4}


def test_when_the_time_of_a_round_is_up_no_node_is_suspected() -> None:
    """The server itself may have taken it, with a clustering."""
    transport, requests = started(deadline=90.0)
    transport.clock.sleep(100.0)
    ask(requests)
    assert not requests.suspects


# --- quorum


def test_after_the_quorum_the_others_get_as_long_again() -> None:
    transport, requests = started(quorum=0.5)
    transport.stations[1].delay = transport.stations[2].delay = 10.0
    transport.stations[3].delay = 19.0
    transport.stations[4].delay = 21.0
    assert set(ask(requests)) == {1, 2, 3}
    assert transport.clock.now <= 20 + 3 * POLL


def test_a_quorum_never_makes_a_call_longer() -> None:
    transport, requests = started(quorum=0.5, deadline=90.0)
    transport.stations[1].delay = transport.stations[2].delay = 50.0
    transport.stations[3].delay = transport.stations[4].delay = np.inf
    assert set(ask(requests)) == {1, 2}
    assert transport.clock.now <= 60 + POLL


def test_all_are_waited_for_where_the_quorum_is_all() -> None:
    transport, requests = started(quorum=1.0)
    transport.stations[4].delay = 55.0
    assert set(ask(requests)) == {1, 2, 3, 4}


def test_a_failure_is_no_part_of_the_quorum() -> None:
    """Else two nodes that fail at once leave no time to those that work."""
    transport, requests = started(quorum=0.5)
    for node in (1, 2):
        transport.stations[node].crashes = True
    transport.stations[3].delay = transport.stations[4].delay = 10.0
    replies = ask(requests)
    assert {node for node, reply in replies.items() if reply.message} == {3, 4}


# --- lost messages


def test_a_lost_message_is_retried() -> None:
    transport, requests = started(retries=1)
    transport.stations[2].loses = 1
    assert who(ask(requests)) == {1: 1, 2: 2, 3: 3, 4: 4}
    assert [node for _, node, *_ in transport.pushed] == [1, 2, 3, 4, 2]
    assert requests.bytes_sent == sum(size for *_, size in transport.pushed)


@pytest.mark.parametrize("retries", [0, 1, 3])
def test_a_lost_message_is_retried_as_often_as_the_settings_say(retries: int) -> None:
    transport, requests = started(retries=retries)
    transport.stations[2].crashes = True
    replies = ask(requests)
    assert replies[2].message is None and replies[2].lost
    assert [node for _, node, *_ in transport.pushed].count(2) == 1 + retries


def test_a_node_that_has_left_is_sent_nothing_more() -> None:
    transport, requests = started(retries=5)
    transport.stations[2].delay = np.inf
    transport.clock.at(10.0, lambda: transport.leave(2))
    replies = ask(requests)
    assert replies[2].message is None and "gone" in replies[2].error
    assert [node for _, node, *_ in transport.pushed].count(2) == 1
    assert transport.clock.now <= 10 + 2 * POLL


def test_a_node_that_raises_is_not_retried() -> None:
    transport, requests = started(retries=5)
    transport.join(2, lambda request: 1 / 0)  # type: ignore[arg-type, return-value]
    replies = ask(requests)
    assert (
        replies[2].message is None
        and "ZeroDivisionError" in replies[2].error
        and not replies[2].lost
    )
    assert [node for _, node, *_ in transport.pushed].count(2) == 1


def test_a_request_that_the_engine_does_not_take_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    transport, requests = started()
    transport.stations[2].rejected = True
    with caplog.at_level(logging.WARNING, "fedkin"):
        assert set(ask(requests, round=7)) == {1, 3, 4}
    assert transport.clock.now == 0 and 2 not in requests.suspects
    assert "round 7" in caplog.text and "node 2" in caplog.text
    assert requests.bytes_sent == 3 * SIZE


# --- suspects


def test_a_suspect_is_offline_until_its_next_heartbeat() -> None:
    transport, requests = started()
    transport.stations[2].delay = np.inf
    ask(requests)
    assert set(requests.suspects) == {2}
    transport.stations[2].killed = 0.0  # it was dead from the start
    assert [node.node_id for node in requests.online_nodes()] == [1, 3, 4]
    assert [node.node_id for node in requests.begin_round()] == [1, 3, 4]
    transport.stations[2].killed = None
    transport.clock.sleep(30.0)  # until its next heartbeat
    assert [node.node_id for node in requests.begin_round()] == [1, 2, 3, 4]
    assert not requests.suspects


def test_a_node_that_was_late_is_online_in_the_next_round() -> None:
    transport, requests = started()
    transport.stations[2].delay = 70.0
    assert set(ask(requests)) == {1, 3, 4}
    transport.clock.sleep(30.0)
    assert [node.node_id for node in requests.begin_round()] == [1, 2, 3, 4]


def test_a_late_reply_is_fetched_and_not_used() -> None:
    transport, requests = started()
    transport.stations[2].delay = 70.0
    assert 2 not in ask(requests)
    transport.stations[2].delay = 0.0
    transport.clock.sleep(30.0)
    assert len(transport.unfetched) == 1  # the late one lies there
    requests.begin_round()
    assert transport.unfetched == []
    reply = ask(requests, (2,), round=2)[2]
    assert reply.message is not None and reply.message.header == {"node": 2, "count": 1}


def test_a_late_reply_that_comes_during_the_next_call_is_not_its_reply() -> None:
    transport, requests = started()
    transport.stations[2].delay = 70.0
    ask(requests)
    transport.stations[2].delay = 15.0
    transport.clock.sleep(1.0)
    reply = ask(requests, (2,))[2]  # the first reply comes 9 s later, and this one's 15 s later
    assert reply.message is not None and reply.message.header["count"] == 1


def test_nothing_is_left_with_the_engine_in_the_long_run() -> None:
    transport, requests = started(deadline=30.0)
    for round in range(1, 6):
        transport.stations[1 + round % 4].delay = 25.0
        requests.begin_round()
        ask(requests, round=round)
        transport.stations[1 + round % 4].delay = 0.0
    transport.clock.sleep(100.0)
    requests.begin_round()
    assert transport.unfetched == []


@pytest.mark.parametrize("dies", [0.0, 0.05, 3.0, 29.0, 31.0, 45.0])
@pytest.mark.parametrize("takes", [0.0, 6.0])
def test_three_calls_with_one_of_four_nodes_dead_keep_to_the_deadline(
    dies: float, takes: float
) -> None:
    """As the world does it: suspects are left out of later calls of a round."""
    transport, requests = started(deadline=90.0)
    for station in transport.stations.values():
        station.delay = takes
    transport.clock.at(dies, lambda: transport.kill(2))
    for round in range(1, 7):
        began = transport.clock.now
        online = [node.node_id for node in requests.begin_round()]
        waited = 0
        for _ in range(3):
            before = transport.clock.now
            replies = ask(
                requests, [node for node in online if node not in requests.suspects], round
            )
            waited += transport.clock.now - before > takes + POLL
            assert {1, 3, 4} <= {node for node, reply in replies.items() if reply.message}
        assert transport.clock.now - began <= 90 + 5
        assert waited <= 1  # no round waits for the dead twice
        transport.clock.sleep(10.0)
    transport.clock.sleep(60.0)
    assert [node.node_id for node in requests.begin_round()] == [1, 3, 4]


def test_a_reply_that_is_delivered_twice_counts_once() -> None:
    """Its bytes are measured as often as they come."""
    transport, requests = started()
    pull = transport.pull

    def pull_twice(ids: Any) -> list[Any]:
        return [reply for reply in pull(ids) for _ in range(2)]

    transport.pull = pull_twice  # type: ignore[method-assign]
    transport.stations[2].delay = 3.0
    replies = ask(requests)
    assert who(replies) == {1: 1, 2: 2, 3: 3, 4: 4}
    assert requests.bytes_received == 2 * sum(reply.size for reply in replies.values())


def test_a_suspected_node_is_back_with_its_next_heartbeat_after_a_clock_was_set_back() -> None:
    """The clock is the engine's."""
    transport, requests = started()
    transport.stations[2].delay = 1000.0
    ask(requests)
    assert list(requests.suspects) == [2]
    requests.suspects[2] += 3600.0  # as it was before the time of day was set back by an hour
    transport.clock.sleep(30.0)
    assert 2 in [node.node_id for node in requests.online_nodes()]
