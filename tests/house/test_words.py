"""The words of the repository: no file has a phrase that ``tests.house.words`` refuses."""

from __future__ import annotations

import pytest

from tests.house.words import REFUSED, ROOT, files, refused

# A text with each refused phrase, by its pattern. The check reads neither this file nor its list.
EXAMPLES = {
    r"anew": "the server starts anew",
    r"besides?": "one model beside another",
    r"of (its|their|his|her|our|your|one's) own": "each client has a model of its own",
    r"likewise": "the second round likewise",
    r"all the same": "it is scored all the same",
    r"for want of": "FedAvg runs for want of clusters",
    r"at their most": "epsilons are 2 at their most",
    r"nobody|somebody": "nobody replied",
    r"that of": "the model is that of the cluster",
    r"such as it is": "the mean is used such as it is",
    r"(goes|go|went|gone|going) with": "the option goes with any method",
    r"what (is|was|has)(?![^.!\n]*\?)": "the log says what was lost",
}
PLAIN = (
    "What is a cluster?",
    "What was trained, and what has changed?",
    "what_if(clients)",
    "The seabeside and the besideness of other words.",
    "The clients go on with round 3.",
    "Its own model, their own models.",
    "A client that offers samples trains the same model.",
    "test_no_client_moves_without_a_shift",
)


def test_no_file_has_a_refused_phrase() -> None:
    places = [
        f"{path.relative_to(ROOT)}:{line}: {' '.join(phrase.split())}"
        for path in files()
        for line, phrase in refused(path.read_text())
    ]
    assert not places, f"{len(places)} refused phrases:\n" + "\n".join(places)


def test_the_check_reads_code_and_pages() -> None:
    read = {path.relative_to(ROOT).as_posix() for path in files()}
    assert {
        "README.md",
        "Makefile",
        "docs/glossary.md",
        "fedkin/core/method.py",
        "tests/house/test_names.py",
    } <= read


def test_every_refused_phrase_has_an_example() -> None:
    assert EXAMPLES.keys() == REFUSED.keys()


@pytest.mark.parametrize("example", EXAMPLES.values())
def test_a_refused_phrase_is_found(example: str) -> None:
    """In prose, in capitals, in names, and over the end of a line or of a comment's line."""
    forms = (
        example,
        example.upper(),
        example.replace(" ", "_"),
        example.replace(" ", "\n"),
        example.replace(" ", "\n    # "),
    )
    for text in forms:
        assert refused(f"{text}\n"), text


def test_a_place_has_its_line() -> None:
    assert refused("One model.\nIt starts anew.\n") == [(2, "anew")]
    assert refused("One model.\nIt is that\n# of the cluster.\n") == [(2, "that\n# of")]


@pytest.mark.parametrize("text", PLAIN)
def test_plain_words_pass(text: str) -> None:
    assert not refused(text)
