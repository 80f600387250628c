"""PANM's results: questions, stored runs, and their part of the page."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from papers.catalogue import PAPERS
from papers.panm import numbers
from papers.panm import page as panm_page
from papers.panm import recipes as panm
from papers.panm.recipes import COMPARED, METHODS, Question
from papers.result_store import carry_out, job_of_question, pending, read
from papers.results_page import page as page_of


def run_of(question: Question, seed: int = 0, **figures: object) -> dict:
    curves = {"accuracy": [0.1] * 100 + [0.9], "bottom_decile": [0.0] * 100 + [0.7]}
    curves |= {
        "neighbour_precision": [None, 0.3] + [0.95] * 50 + [1.0] * 49,
        "neighbour_recall": [0.0] * 100 + [0.8],
    }
    return {
        **asdict(question),
        "seed": seed,
        **curves,
        "messages": 5,
        "bytes": 100 * 100 * 3_000_000,
        **figures,
    }


def test_every_question_has_one_job() -> None:
    questions = [question for question, _ in panm.questions()]
    jobs = PAPERS["peers"].jobs()
    assert len(questions) == len(set(questions)) == len(jobs)
    assert [asdict(question) in [job.key for job in jobs] for question in questions] == [
        True
    ] * len(questions)
    assert {q.method for q in COMPARED} == set(METHODS)
    assert all(len(seeds) == 3 for q, seeds in panm.questions() if q in COMPARED)


def test_a_run_is_stored_and_not_run_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(panm, "PEERS", 8)
    monkeypatch.setattr(panm, "ROUNDS", 2)
    question = Question("images", "PANMGrad", base="digits", images=10, clusters=2)
    job = job_of_question(
        question=question,
        seeds=(0,),
        measure=panm.measure,
        row="images 10",
        column="PANMGrad",
        seconds=1,
    )
    store = tmp_path / "peers.jsonl"
    [line] = carry_out(pending([(job, job.seeds)], []), store)
    assert read(store, [job]).runs == [json.loads(json.dumps(line))]
    assert len(line["neighbour_precision"]) == 3 and line["neighbour_precision"][0] is None
    # Two rounds in which everybody asks the seven others.
    assert line["bytes"] > 0 and line["messages"] == 2 * 8 * 7
    assert not pending([(job, job.seeds)], read(store).runs)


def test_methods_side_by_side() -> None:
    results = [run_of(COMPARED[0], seed) for seed in (0, 1)]
    (row,) = [
        line
        for line in panm_page.methods_side_by_side(results).splitlines()
        if line.startswith("| PANMGrad")
    ]
    assert "90.0" in row and "| 0.950 | 1.000 | 0.800 | 3.00 | 2 |" in row


def test_questions_not_run_are_empty() -> None:
    text = page_of(PAPERS["peers"], [])
    assert "| lowest precision from round 10 |" in text
    assert text.count("\n| PANMGrad ") == 1 and not re.search(r"\bnan\b", text.lower())


def test_pictures_of_little(tmp_path: Path) -> None:
    (tmp_path / "images").mkdir()
    harder = next(q for q in panm.HARDER if q.panel == "images")
    panm_page.draw(
        [run_of(COMPARED[0]), run_of(harder), run_of(replace(harder, images=20))], tmp_path
    )
    assert len(list((tmp_path / "images").glob("*.svg"))) == 2


def test_other_alphas_have_separate_columns() -> None:
    question = panm.OTHER_ALPHAS[0]
    assert (question.alpha, question.base, question.kind, question.clusters) == (
        0,
        "mnist",
        "label_swap",
        2,
    )
    names = [job.name for job in panm.jobs("federations")]
    assert (
        len(names) == len(set(names))
        and "MNIST, swapped labels, 2 clusters, PANMGrad, alpha 0" in names
    )
    results = [
        run_of(question),
        run_of(
            replace(question, alpha=0.5),
            0,
            accuracy=[0.9] * 100 + [0.8],
            neighbour_precision=[0.5] * 100 + [1.0],
        ),
    ]
    first = panm_page.other_alphas(results).splitlines()[3].split(" | ")
    assert (
        "**90.0**<br>1.000 / 0.800" in first[1] and first[2] == "not run" and "**80.0**" in first[3]
    )
    (other,) = [
        line for line in panm_page.federations(results).splitlines() if "swapped labels, 2" in line
    ]
    assert "**80.0**" in other and "90.0" not in other  # the first table has alpha 0.5 alone


def test_the_first_federation_is_in_the_table_by_alpha_from_its_own_panels() -> None:
    usual, quarter = (panm.in_federation(panm.FIRST, "PANMGrad", alpha) for alpha in (0.5, 0.25))
    assert usual in COMPARED and quarter in panm.HARDER and quarter.panel == "alpha"
    results = [
        run_of(usual),
        run_of(Question("compared", "oracle"), 0, accuracy=[0.2] * 100 + [0.95]),
    ]
    results += [
        run_of(quarter, accuracy=[0.99] * 100 + [0.93]),
        run_of(quarter, 1, accuracy=[0.5] * 101),
    ]
    assert "**90.0**" in panm_page.other_alphas(results).splitlines()[2]
    behind = [numbers.behind_the_oracle(results, question) for question in (usual, quarter)]
    assert behind == pytest.approx([5.0, 2.0])  # of seed 0, which alone has an oracle


def test_late_peers_with_another_alpha_are_a_separate_row() -> None:
    late = next(q for q in panm.OTHER_ALPHAS if q.panel == "absent")
    *_, last = panm_page.missing_peers(
        [run_of(late), run_of(replace(late, alpha=0.5), accuracy=[0.3])]
    ).splitlines()
    assert last.startswith(f"| {panm.LATE} | PANMGrad, alpha 0.25 | **90.0** | 1.000 | 0.800 | 1")
