"""The recipe behind the results on peers: what is asked, what is kept, and what the page says of it."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from papers.__main__ import everything
from papers.catalogue import PAPERS
from papers.panm import page as peers_page
from papers.panm import recipes as peers
from papers.panm.recipes import COMPARED, METHODS, Question
from papers.result_store import carry_out, job_of_question, pending, read
from papers.results_page import section


def run_of(question: Question, seed: int = 0, **figures: object) -> dict:
    curves = {"accuracy": [0.1] * 100 + [0.9], "bottom_decile": [0.0] * 100 + [0.7]}
    curves |= {"neighbour_precision": [None, 0.3] + [0.95] * 50 + [1.0] * 49, "neighbour_recall": [0.0] * 100 + [0.8]}
    return {**asdict(question), "seed": seed, **curves, "messages": 5, "bytes": 100 * 100 * 3_000_000, **figures}


def test_everything_is_asked_once() -> None:
    asked = [question for question, _ in peers.questions()]
    jobs = [job for paper, job, _ in everything() if paper == "peers"]
    assert len(asked) == len(set(asked)) == len(jobs)
    assert [asdict(question) in [job.key for job in jobs] for question in asked] == [True] * len(asked)
    assert {q.method for q in COMPARED} == set(METHODS)
    assert all(len(seeds) == 3 for q, seeds in peers.questions() if q in COMPARED)


def test_an_answer_is_kept_and_not_asked_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peers, "PEERS", 8)
    monkeypatch.setattr(peers, "ROUNDS", 2)
    question = Question("images", "PANMGrad", base="digits", images=10, clusters=2)
    job, store = job_of_question(question, (0,), peers.answer, "images 10", "PANMGrad", 1), tmp_path / "peers.jsonl"
    [kept] = carry_out(pending([(job, job.seeds)], []), store)
    assert read(store) == [json.loads(json.dumps(kept))]
    assert len(kept["neighbour_precision"]) == 3 and kept["neighbour_precision"][0] is None
    assert kept["bytes"] > 0 and kept["messages"] == 2 * 8 * 7  # two rounds in which everybody asks the seven others
    assert not pending([(job, job.seeds)], read(store))


def test_methods_side_by_side() -> None:
    measured = [run_of(COMPARED[0], seed) for seed in (0, 1)]
    (row,) = [line for line in peers_page.compared(measured).splitlines() if line.startswith("| PANMGrad")]
    assert "90.0" in row and "| 0.950 | 1.000 | 0.800 | 3.00 | 2 |" in row


def test_what_was_not_run_is_empty() -> None:
    text = section(PAPERS["peers"], [])
    assert text.count("\n| PANMGrad ") == 1 and "nan" not in text.lower()


def test_pictures_of_little(tmp_path: Path) -> None:
    (tmp_path / "images").mkdir()
    harder = next(q for q in peers.HARDER if q.panel == "images")
    peers_page.draw([run_of(COMPARED[0]), run_of(harder), run_of(replace(harder, images=20))], tmp_path)
    assert len(list((tmp_path / "images").glob("*.svg"))) == 2
