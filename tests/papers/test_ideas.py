"""The pictures of docs/papers are drawn from their runs, here in the smallest form, and say what
the runs gave."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from papers.ideas import __main__ as ideas
from papers.ideas import athena, fedgroup, fedsim, flexcfl, panm
from papers.ideas.__main__ import IMAGES, PICTURES, draw

SMALLEST = {
    "fedgroup": {"clients": 20, "alpha": 4},
    "flexcfl": {"clients": 12, "rounds": 2, "samples": 20},
    "athena": {"pretraining": 2, "rounds": 1},
    "panm": {"peers": 12, "stage_one": 2, "rounds": 4},
    "fedsim": {"clients": 12, "cohort": 8, "rounds": 1, "clusters": 3},
}


def headings(svg: str) -> list[str]:
    """The bold texts of a figure, without the numbers of rounds."""
    texts = re.findall(r'<text style="font-weight: 700[^"]*"[^>]*>([^<]*)</text>', svg)
    return [re.sub(r"\d+", "#", text) for text in texts]


@pytest.mark.parametrize("name", PICTURES)
def test_it_is_drawn_with_the_panels_of_the_stored_picture(name: str, tmp_path: Path) -> None:
    path = tmp_path / "picture.svg"
    draw(name, path, **SMALLEST[name])
    stored = (IMAGES / f"idea-{name}.svg").read_text()
    assert headings(stored)
    assert headings(path.read_text()) == headings(stored)


def test_the_command_draws_what_it_names_and_refuses_others(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    drawn: list[tuple[str, Path]] = []
    monkeypatch.setattr(ideas, "draw", lambda name, path: drawn.append((name, path)))
    ideas.main(["panm"])
    assert drawn == [("panm", IMAGES / "idea-panm.svg")]
    ideas.main([])
    assert [name for name, _ in drawn[1:]] == list(PICTURES)
    with pytest.raises(SystemExit):
        ideas.main(["no-such-picture"])


def test_fedgroup_keeps_similar_updates_together() -> None:
    cold = fedgroup.measure()
    same = cold.group[:, None] == cold.group
    np.fill_diagonal(same, False)
    apart = cold.group[:, None] != cold.group
    assert cold.cosine[same].mean() > cold.cosine[apart].mean() + 0.2
    assert 0 < cold.pretrained.sum() < len(cold.group)


def test_flexcfl_finds_the_rotations_and_the_blind_test_misses_some_swaps() -> None:
    run = flexcfl.measure(rounds=2)
    groups = run.clusters[0][run.cold]
    for true in np.unique(run.first_cluster):
        assert len(np.unique(groups[run.first_cluster[run.cold] == true])) == 1
    assert (run.aware > 1).all()
    assert 0 < (run.blind <= 1).mean() < 0.5


def test_the_tree_cut_at_eps_is_dbscan() -> None:
    from scipy.cluster.hierarchy import fcluster, linkage

    found = athena.measure(rounds=1)
    cut = fcluster(linkage(found.layers, "single"), athena.EPS, "distance")
    pairs = set(zip(cut.tolist(), found.cluster.tolist(), strict=True))
    assert len(pairs) == len(set(cut.tolist())) == len(set(found.cluster.tolist())) == 5
    assert (np.diag(found.score) > 0.5).all()


def test_panm_is_precise_first_and_complete_later() -> None:
    run = panm.measure()
    end_of_stage_one = panm.precision_and_recall(run.trust[run.stage_one], run.true)
    end = panm.precision_and_recall(run.trust[-1], run.true)
    assert end_of_stage_one[0] > 0.9
    assert end[0] > 0.9 and end[1] > end_of_stage_one[1] + 0.2
    assert (run.first.chosen == run.first.same).all()


def test_fedsim_has_the_clusters_of_its_round_and_the_index_of_the_library() -> None:
    run = fedsim.measure()
    assert len(run.cluster) == len(run.scores) == 20
    assert len(np.unique(run.cluster)) == 5
    low, high = (index.pni for index in run.indices)
    assert low < high
