"""Options of [method] also apply to the methods it is compared with, where they mean the same.
That is logged once. A method's own options take precedence."""

from __future__ import annotations

import dataclasses
import logging
from pathlib import Path

import pytest

from fedkin.config import inherited_options
from fedkin.config.comparison import load
from fedkin.config.inherited_options import carry_over, configured_clusters, meanings
from fedkin.config.run import RunConfig, from_dict
from fedkin.methods import METHODS
from fedkin.methods.about import NUMBER_OF_MODELS, UNLIKE_OTHERS


@pytest.fixture(autouse=True)
def not_said_yet() -> None:
    inherited_options._say.cache_clear()
    inherited_options._say_left_out.cache_clear()
    inherited_options._say_kept.cache_clear()


def clusters_of(config: RunConfig) -> dict[str, int | None]:
    return {entry.name: entry.values.get("clusters") for entry in config.against}


def run_against(method: dict[str, object], *against: object) -> RunConfig:
    return from_dict(
        {"data": {"name": "digits"}, "method": method, "run": {"against": list(against)}}
    )


def test_four_clusters_are_four_in_all_methods_of_a_run(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "fedkin"):
        config = run_against(
            {"name": "flexcfl", "clusters": 4},
            "fedavg",
            "ifca",
            "fesem",
            "flhc",
            "sattler",
            "fedsim",
        )
    assert clusters_of(config) == {
        "fedavg": None,
        "ifca": 4,
        "fesem": 4,
        "flhc": 4,
        "sattler": None,
        "fedsim": 5,
    }
    kept, line = [record.getMessage() for record in caplog.records]
    assert "ifca, fesem, flhc: clusters = 4" in line and "fedsim" not in line
    assert kept.endswith("another meaning: fedsim: clusters = 4")


def test_fedsims_clusters_are_others() -> None:
    assert clusters_of(run_against({"name": "ifca", "clusters": 2}, "fedsim")) == {"fedsim": 5}
    assert clusters_of(run_against({"name": "fedsim", "clusters": 2}, "ifca")) == {"ifca": 3}


def test_a_methods_own_options_take_precedence() -> None:
    config = run_against(
        {"name": "flexcfl", "clusters": 5}, {"name": "ifca", "clusters": 2}, "fesem"
    )
    assert clusters_of(config) == {"ifca": 2, "fesem": 5}


def test_a_default_is_not_carried() -> None:
    config = run_against({"name": "fedgroup"}, "fedgrouprox", "flexcfl")
    # Each its own; FedGroup's 0.01 was not written.
    assert [entry.values["eta_g"] for entry in config.against] == [0.01, 0.0]


def test_mechanisms_stay_where_they_were_written() -> None:
    """With migration, IFCA would be IFCA-MIG; with mu, FedGroup would be FedGrouProx."""
    flexcfl = {
        "name": "flexcfl",
        "migration": "label_aware",
        "eta_g": 0.1,
        "threshold": 0.4,
        "alpha": 7,
    }
    ifca, fedgroup, panm = (
        entry.values for entry in run_against(flexcfl, "ifca", "fedgroup", "panm").against
    )
    assert (ifca["migration"], ifca["eta_g"], ifca["threshold"]) == ("none", 0.0, 0.4)
    assert (fedgroup["eta_g"], fedgroup["alpha"]) == (0.1, 7)
    assert panm["alpha"] == 0.5  # the weight of a similarity
    fedgrouprox = {"name": "fedgrouprox", "mu": 0.5}
    fedgroup, fedprox = (
        entry.values for entry in run_against(fedgrouprox, "fedgroup", "fedprox").against
    )
    assert (fedgroup["mu"], fedprox["mu"]) == (0.0, 0.5)


def test_an_option_that_contradicts_the_methods_own_options_is_left_out() -> None:
    """DBSCAN takes no number of clusters, and FL+HC takes none if it has a distance."""
    main = {"name": "ifca", "clusters": 4}
    distance = {"name": "flhc", "distance": 2.0}
    config = run_against(main, "hierarchical", {"name": "athena", "algorithm": "kmeans"}, distance)
    assert clusters_of(config) == {"hierarchical": None, "athena": 4, "flhc": None}
    assert clusters_of(
        run_against({"name": "hierarchical", "algorithm": "kmeans", "clusters": 6}, "ifca")
    ) == {"ifca": 6}


def test_options_that_go_together_are_carried_together(caplog: pytest.LogCaptureFixture) -> None:
    """Neither k-means nor a number of clusters is possible without the other; layers have nothing
    to do with it."""
    main = {"name": "hierarchical", "algorithm": "kmeans", "clusters": 5}
    (athena,) = run_against(main, "athena").against
    assert (athena.values["algorithm"], athena.values["clusters"]) == (
        "kmeans",
        5,
    ) and "conflict" not in caplog.text


def test_options_left_out_are_told_with_the_reason(caplog: pytest.LogCaptureFixture) -> None:
    main = {"name": "ifca", "clusters": 4, "threshold": 0.4}
    (flhc,) = run_against(main, {"name": "flhc", "distance": 2.0}).against
    assert (flhc.values.get("clusters"), flhc.values["threshold"]) == (None, 0.4)
    (line,) = [one.getMessage() for one in caplog.records if "conflict" in one.getMessage()]
    assert "flhc: clusters = 4 (" in line and "distance" in line


def test_a_spelled_out_configuration_is_read_back_as_it_is(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A stored run of former versions, in which the methods had other numbers,
    goes on with these."""
    config = run_against(
        {"name": "flexcfl", "clusters": 5}, {"name": "ifca", "clusters": 3}, "fesem"
    )
    caplog.clear()
    assert from_dict(config.description().sections) == config
    assert not caplog.records


def test_a_comparison_carries_options_and_says_so_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "study.toml"
    file.write_text(
        '[data]\nname = "digits"\n[method]\nclusters = 5\n'
        '[compare]\nmethods = ["fedavg", "ifca", "flexcfl"]'
    )
    for names in (None, ["fedavg", "ifca", "flexcfl"]):
        grid = load(file, methods=names)
        assert [variant.entry.get("clusters") for variant in grid.methods] == [None, 5, 5]
    (line,) = [record.getMessage() for record in caplog.records]
    assert "ifca, flexcfl: clusters = 5" in line


def test_an_axis_decides_before_method(tmp_path: Path) -> None:
    file = tmp_path / "study.toml"
    file.write_text('[data]\nname = "digits"\n[method]\nname = "flexcfl"\nclusters = 5\n')
    grid = load(file, methods=["flexcfl", "ifca"], axes={"method.clusters": [2, 3]})
    assert [variant.entry["clusters"] for variant in grid.methods] == [2, 3, 2, 3]


def test_a_users_own_method_shares_the_number_of_clusters(monkeypatch: pytest.MonkeyPatch) -> None:
    assert inherited_options.shared_options("ifca", "mine:Mine") == {"clusters"}
    assert inherited_options.shared_options("mine:Mine", "mine:Other") == {"clusters"}
    assert inherited_options.shared_options("fedsim", "mine:Mine") == set()


def test_labels_and_other_keys_of_an_entry_stay() -> None:
    (entry,) = carry_over({"name": "ifca", "clusters": 4}, [{"name": "fesem", "label": "ours"}])
    assert entry == {"name": "fesem", "label": "ours", "clusters": 4}


@pytest.mark.parametrize("name", METHODS)
def test_meanings_are_of_options_that_exist_and_each_has_a_second_method(name: str) -> None:
    assert meanings(name).keys() <= {field.name for field in dataclasses.fields(METHODS[name])}
    others = [meanings(other) for other in METHODS if other != name]
    for option, meaning in meanings(name).items():
        shared = [other for other in others if other.get(option) == meaning]
        assert bool(shared) == (meaning != UNLIKE_OTHERS), option


def test_every_method_with_clusters_was_decided_upon() -> None:
    """A method says whether its ``clusters`` are models that clients share, or something else."""
    for name, kind in METHODS.items():
        if "clusters" in {field.name for field in dataclasses.fields(kind)}:
            assert meanings(name).get("clusters") in (NUMBER_OF_MODELS, UNLIKE_OTHERS), name
    assert [name for name in METHODS if meanings(name).get("clusters") == UNLIKE_OTHERS] == [
        "fedsim"
    ]


def test_only_methods_that_share_an_option_take_it_over() -> None:
    """IFCA and FeSEM both have ``weighting`` and ``newcomers``, of different steps."""
    assert inherited_options.shared_options("ifca", "fesem") == {"clusters", "threshold"}
    assert inherited_options.shared_options("ifca", "ifca_mig") >= {
        "averaging",
        "weighting",
        "newcomers",
    }
    assert inherited_options.shared_options("fedgroup", "flexcfl") == {
        "clusters",
        "alpha",
        "eta_g",
        "part",
    }
    assert inherited_options.shared_options("fedprox", "fedgrouprox") == {"mu"}
    assert inherited_options.shared_options("pens", "panm") == set()
    assert inherited_options.shared_options("panm", "cflgp") == {"part"}
    assert "part" not in inherited_options.shared_options("fesem", "flexcfl")


def test_the_configured_clusters_of_an_entry() -> None:
    assert (
        configured_clusters({"name": "ifca", "clusters": 4})
        == configured_clusters({"name": "m:Mine", "clusters": 4})
        == 4
    )
    # One model, whatever the clusters of a cohort.
    assert configured_clusters({"name": "fedsim", "clusters": 4}) is None
    assert configured_clusters({"name": "fedavg"}) is None
