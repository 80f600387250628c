"""One exchange of letters, on a clock of the test's own: whom it waits for, how long, and whose answer is whose."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
import pytest

from fedkin.server.message import RpcMessage
from fedkin.server.request_round import Answer, RequestRound
from tests.server.memory_transport import MemoryPost, exchange

LETTER = RpcMessage({"verb": "train"}, {"models": np.zeros((1, 100), np.float32)})
POLL = 0.25 + 1e-9  # seconds between looks into the box


def echo(node: int) -> Any:
    """A node that says which it is, and how many letters it had."""
    counter = iter(range(1000))
    return lambda letter: RpcMessage({"node": node, "count": next(counter)})


def office(nodes: int = 4, **terms: Any) -> tuple[MemoryPost, RequestRound]:
    post = MemoryPost()
    for node in range(1, nodes + 1):
        post.join(node, echo(node))
    mail = exchange(post, **{"capacity": 100, "deadline": 90.0, **terms})
    mail.begin()
    return post, mail


def ask(mail: RequestRound, nodes: Any = (1, 2, 3, 4), round: int = 1) -> dict[int, Answer]:
    return mail.ask({node: LETTER for node in nodes}, round)


def who(answers: dict[int, Answer]) -> dict[int, Any]:
    return {node: answer.message and answer.message.header["node"] for node, answer in answers.items()}


def test_who_answers_at_once_is_not_waited_for() -> None:
    post, mail = office()
    assert who(ask(mail)) == {1: 1, 2: 2, 3: 3, 4: 4}
    assert post.clock.now == 0 and not mail.suspects


def test_answers_are_known_by_their_letter_in_whatever_order_they_come() -> None:
    post, mail = office()
    for node, delay in ((1, 7.0), (2, 5.0), (3, 9.0), (4, 1.0)):
        post.stations[node].delay = delay
    assert who(ask(mail)) == {1: 1, 2: 2, 3: 3, 4: 4}
    assert 9 <= post.clock.now <= 9 + POLL


def test_the_bytes_of_letters_and_answers_are_counted() -> None:
    post, mail = office()
    ask(mail)
    assert mail.sent == sum(size for *_, size in post.pushed) == 4 * (400 + len(LETTER.text()))
    assert mail.received == sum(size for _, size in post.received) > 0
    ask(mail, (1,))
    assert mail.sent == 400 + len(LETTER.text())  # of the last exchange


def test_nobody_is_asked_and_nothing_happens() -> None:
    post, mail = office()
    assert ask(mail, ()) == {} and post.clock.now == 0 and mail.sent == 0


# --- deadlines


def test_an_exchange_leaves_a_third_of_the_time_of_a_round() -> None:
    post, mail = office(deadline=90.0)
    post.stations[3].delay = np.inf
    assert 3 not in ask(mail)
    assert 60 <= post.clock.now <= 60 + POLL
    post.stations[2].delay = np.inf
    assert 2 not in ask(mail, (1, 2, 4))
    assert 80 <= post.clock.now <= 80 + 2 * POLL


def test_a_new_round_has_its_time_anew() -> None:
    post, mail = office(deadline=90.0)
    post.stations[3].delay = np.inf
    ask(mail)
    mail.begin()
    post.stations[2].delay = 59.0
    assert 2 in ask(mail, (1, 2, 4))


def test_an_answer_right_before_the_deadline_counts_and_one_after_it_does_not() -> None:
    post, mail = office(deadline=90.0)
    post.stations[1].delay, post.stations[2].delay = 59.5, 60.5
    assert set(ask(mail)) == {1, 3, 4}


def test_when_the_time_of_a_round_is_up_nobody_is_blamed_for_it() -> None:
    """The server itself may have taken it, with a clustering."""
    post, mail = office(deadline=90.0)
    post.clock.sleep(100.0)
    ask(mail)
    assert not mail.suspects


# --- quorum


def test_after_the_quorum_the_others_get_as_long_again() -> None:
    post, mail = office(quorum=0.5)
    post.stations[1].delay = post.stations[2].delay = 10.0
    post.stations[3].delay, post.stations[4].delay = 19.0, 21.0
    assert set(ask(mail)) == {1, 2, 3}
    assert post.clock.now <= 20 + 3 * POLL


def test_a_quorum_never_makes_an_exchange_longer() -> None:
    post, mail = office(quorum=0.5, deadline=90.0)
    post.stations[1].delay = post.stations[2].delay = 50.0
    post.stations[3].delay = post.stations[4].delay = np.inf
    assert set(ask(mail)) == {1, 2}
    assert post.clock.now <= 60 + POLL


def test_all_are_waited_for_where_the_quorum_is_all() -> None:
    post, mail = office(quorum=1.0)
    post.stations[4].delay = 55.0
    assert set(ask(mail)) == {1, 2, 3, 4}


def test_who_tells_of_a_failure_is_no_part_of_the_quorum() -> None:
    """Else two nodes that fail at once leave no time to those that work."""
    post, mail = office(quorum=0.5)
    for node in (1, 2):
        post.stations[node].crashes = True
    post.stations[3].delay = post.stations[4].delay = 10.0
    answers = ask(mail)
    assert {node for node, answer in answers.items() if answer.message} == {3, 4}


# --- what is lost


def test_a_lost_letter_is_sent_again() -> None:
    post, mail = office(retries=1)
    post.stations[2].loses = 1
    assert who(ask(mail)) == {1: 1, 2: 2, 3: 3, 4: 4}
    assert [node for _, node, *_ in post.pushed] == [1, 2, 3, 4, 2]
    assert mail.sent == sum(size for *_, size in post.pushed)


@pytest.mark.parametrize("retries", [0, 1, 3])
def test_a_letter_is_sent_again_as_often_as_the_terms_say(retries: int) -> None:
    post, mail = office(retries=retries)
    post.stations[2].crashes = True
    answers = ask(mail)
    assert answers[2].message is None and answers[2].lost
    assert [node for _, node, *_ in post.pushed].count(2) == 1 + retries


def test_who_has_left_is_not_written_to_again() -> None:
    post, mail = office(retries=5)
    post.stations[2].delay = np.inf
    post.clock.at(10.0, lambda: post.leave(2))
    answers = ask(mail)
    assert answers[2].message is None and "gone" in answers[2].error
    assert [node for _, node, *_ in post.pushed].count(2) == 1
    assert post.clock.now <= 10 + 2 * POLL


def test_who_raises_is_not_asked_again() -> None:
    post, mail = office(retries=5)
    post.join(2, lambda letter: 1 / 0)  # type: ignore[arg-type, return-value]
    answers = ask(mail)
    assert answers[2].message is None and "ZeroDivisionError" in answers[2].error and not answers[2].lost
    assert [node for _, node, *_ in post.pushed].count(2) == 1


def test_a_letter_that_the_engine_does_not_take_is_told(caplog: pytest.LogCaptureFixture) -> None:
    post, mail = office()
    post.stations[2].deaf = True
    with caplog.at_level(logging.WARNING, "fedkin"):
        assert set(ask(mail, round=7)) == {1, 3, 4}
    assert post.clock.now == 0 and 2 not in mail.suspects
    assert "round 7" in caplog.text and "node 2" in caplog.text
    assert mail.sent == 3 * (400 + len(LETTER.text()))


# --- the dead


def test_a_suspect_is_not_there_until_it_shows_that_it_lives() -> None:
    post, mail = office()
    post.stations[2].delay = np.inf
    ask(mail)
    assert set(mail.suspects) == {2}
    post.stations[2].killed = 0.0  # it was dead from the start
    assert [seat.node for seat in mail.there()] == [1, 3, 4]
    assert [seat.node for seat in mail.begin()] == [1, 3, 4]
    post.stations[2].killed = None
    post.clock.sleep(30.0)  # until its next sign of life
    assert [seat.node for seat in mail.begin()] == [1, 2, 3, 4]
    assert not mail.suspects


def test_who_was_only_late_is_there_again_in_the_next_round() -> None:
    post, mail = office()
    post.stations[2].delay = 70.0
    assert set(ask(mail)) == {1, 3, 4}
    post.clock.sleep(30.0)
    assert [seat.node for seat in mail.begin()] == [1, 2, 3, 4]


def test_a_late_answer_is_fetched_and_taken_for_nothing_else() -> None:
    post, mail = office()
    post.stations[2].delay = 70.0
    assert 2 not in ask(mail)
    post.stations[2].delay = 0.0
    post.clock.sleep(30.0)
    assert len(post.box) == 1  # the late one lies there
    mail.begin()
    assert post.box == []
    answer = ask(mail, (2,), round=2)[2]
    assert answer.message is not None and answer.message.header == {"node": 2, "count": 1}


def test_a_late_answer_that_comes_during_the_next_exchange_is_not_its_answer() -> None:
    post, mail = office()
    post.stations[2].delay = 70.0
    ask(mail)
    post.stations[2].delay = 15.0
    post.clock.sleep(1.0)
    answer = ask(mail, (2,))[2]  # the first answer comes 9 s later, and this one's 15 s later
    assert answer.message is not None and answer.message.header["count"] == 1


def test_nothing_is_left_with_the_engine_in_the_long_run() -> None:
    post, mail = office(deadline=30.0)
    for round in range(1, 6):
        post.stations[1 + round % 4].delay = 25.0
        mail.begin()
        ask(mail, round=round)
        post.stations[1 + round % 4].delay = 0.0
    post.clock.sleep(100.0)
    mail.begin()
    assert post.box == []


@pytest.mark.parametrize("dies", [0.0, 0.05, 3.0, 29.0, 31.0, 45.0])
@pytest.mark.parametrize("takes", [0.0, 6.0])
def test_three_exchanges_with_one_of_four_dead_keep_to_the_deadline(dies: float, takes: float) -> None:
    """As the world does it: suspects are left out of later exchanges of a round."""
    post, mail = office(deadline=90.0)
    for station in post.stations.values():
        station.delay = takes
    post.clock.at(dies, lambda: post.kill(2))
    for round in range(1, 7):
        began = post.clock.now
        there = [seat.node for seat in mail.begin()]
        waited = 0
        for _ in range(3):
            before = post.clock.now
            answers = ask(mail, [node for node in there if node not in mail.suspects], round)
            waited += post.clock.now - before > takes + POLL
            assert {1, 3, 4} <= {node for node, answer in answers.items() if answer.message}
        assert post.clock.now - began <= 90 + 5
        assert waited <= 1  # nobody waits for the dead twice in a round
        post.clock.sleep(10.0)
    post.clock.sleep(60.0)
    assert [seat.node for seat in mail.begin()] == [1, 3, 4]
