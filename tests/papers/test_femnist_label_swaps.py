"""The labels that FlexCFL's log shows: three in a row, u, u + 1 and u + 2, for every client."""

from __future__ import annotations

from papers.femnist_label_swaps import in_a_row, own_labels, swaps


def test_a_label_that_was_given_before_is_not_a_clients_own() -> None:
    """Client 0 gives 0, gets 5 and gives it on; it gives 0 again only after it got it back."""
    own = own_labels([(0, 0, 1, 5), (0, 5, 2, 2), (0, 2, 1, 0), (0, 0, 3, 3)])
    assert own == {0: {0}, 1: {5}, 2: {2}, 3: {3}}


def test_a_label_is_ones_own_where_it_is_given_twice() -> None:
    assert own_labels([(7, 8, 1, 1), (7, 9, 2, 2), (7, 7, 3, 3)])[7] == {7, 8, 9}


def test_labels_in_a_row_begin_with_the_clients_label_and_wrap() -> None:
    own = {9: {9, 0, 1}, 13: {3, 4}, 20: {0, 3}}
    assert [in_a_row(own, labels) for labels in (2, 3, 4)] == [1, 2, 3]


def test_the_log() -> None:
    """1,140 swaps of 200 clients; none shows a fourth label, 125 show three. With five labels a
    client, a client that gives away 11 labels in the mean would show more than three."""
    log = swaps()
    own = own_labels(log)
    assert (len(log), len(own)) == (1140, 200)
    assert [sum(len(labels) == k for labels in own.values()) for k in (1, 2, 3)] == [14, 61, 125]
    assert in_a_row(own, 3) == 200 and in_a_row(own, 2) < 100
