"""A deployment knows its folder: a copy is refused, and one that was moved gets its new path."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

pytest.importorskip("cryptography", reason="keys need pip install 'fedkin[flower]'")
from fedkin.core.errors import ConfigError
from fedkin.server.deploy import deployment_folder as files
from fedkin.server.deploy.check import check, check_server
from fedkin.server.deploy.check_result import CheckResult
from fedkin.server.deploy.init import init
from fedkin.server.deploy.place import check_place, moved_from, original_of, recorded_folder, settle
from fedkin.server.deploy.site_node import run_site
from fedkin.server.deploy.status import log_lines
from fedkin.server.deploy.up import down, up
from tests.free_ports import free_ports


@pytest.fixture
def one(tmp_path: Path) -> Path:
    folder = tmp_path / "one"
    init(folder, 1, port=free_ports(1)[0])
    return folder


@pytest.fixture
def two(one: Path) -> Path:
    """A copy, in which the user has changed something."""
    folder = Path(shutil.copytree(one, one.parent / "two"))
    server = folder / files.SERVER
    server.write_text(server.read_text().replace("rounds = 5", "rounds = 7"))
    return folder


def content(folder: Path) -> dict[Path, bytes]:
    return {
        path: path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and path.name != ".deploy.lock"
    }


def test_a_folder_is_its_own(one: Path) -> None:
    assert recorded_folder(one) == one and original_of(one) is None and moved_from(one) is None
    assert check_place(one).mark == "✓"
    (one.parent / "link").symlink_to(one)
    assert original_of(one.parent / "link") is None and moved_from(one.parent / "link") is None


def test_a_copy_is_refused_and_nothing_is_started(one: Path, two: Path) -> None:
    before = content(one), content(two)
    for folder in (two, two / "site-0"):
        with pytest.raises(ConfigError) as refused:
            up(folder)
        for words in (
            f"is a copy of {one}",
            f"fedkin deploy up {one}",
            "fedkin deploy init",
            "--port",
        ):
            assert words in str(refused.value)
    assert (content(one), content(two)) == before
    assert down(two) == [] and list(log_lines(two, [], 5, follow=False)) == []


def test_a_check_of_a_copy_fails(one: Path, two: Path) -> None:
    failed = {result.name: result.detail for result in check_server(two) if result.mark == "✗"}
    assert failed.keys() == {"folder"} and f"is a copy of {one}" in failed["folder"]


def test_a_check_names_a_copy_once(two: Path) -> None:
    table = check(two)
    copies = [name for name, results in table.items() if has_failed(results)]
    assert copies == ["server"]
    assert has_failed(check(two, site="site-0")["site-0"])


def has_failed(results: list[CheckResult]) -> bool:
    """Whether the check of the folder failed."""
    return any(result.name == "folder" and result.mark == "✗" for result in results)


def test_a_copy_without_keys_is_recognised_too(tmp_path: Path) -> None:
    init(tmp_path / "one", 1, port=free_ports(1)[0], secure=False)
    shutil.copytree(tmp_path / "one", tmp_path / "two")
    assert original_of(tmp_path / "two") == tmp_path / "one"


def test_a_folder_that_was_moved_gets_its_new_path(one: Path) -> None:
    three = Path(shutil.move(one, one.parent / "th ree"))
    result = check_place(three)
    assert result.mark == "!" and f"was moved from {one}" in result.detail
    assert f"fedkin deploy up '{three}'" in result.detail
    assert not [other for other in check_server(three) if other.mark == "✗"]
    assert settle(three) == one
    assert (
        recorded_folder(three) == three and check_place(three).mark == "✓" and settle(three) is None
    )
    for name in (files.APP, files.FLOWER, files.COMMANDS):
        text = (three / name).read_text()
        assert str(three) in text and f"{one}/" not in text
    assert f"cd '{three}'\n" in (three / files.COMMANDS).read_text()


def test_a_path_that_cannot_be_replaced_is_refused_with_its_cure(one: Path) -> None:
    app = one / files.APP
    app.write_text(app.read_text().replace(f"{one}/server.toml", f"{one.parent}/./one/server.toml"))
    three = Path(shutil.move(one, one.parent / "three"))
    with pytest.raises(ConfigError) as refused:
        settle(three)
    assert str(three / files.APP) in str(refused.value)
    assert f'config = "{three / files.SERVER}"' in str(refused.value)


def test_the_path_of_another_folder_that_begins_with_the_former_one_stays(one: Path) -> None:
    """A virtual environment ``one-venv`` next to the deployment ``one``, and a folder below another
    ``one``."""
    others = f'["{one}-venv/bin", "/mnt{one}/data"]'
    app = one / files.APP
    app.write_text(f"{app.read_text()}\n[tool.own]\npaths = {others}\n")
    three = Path(shutil.move(one, one.parent / "three"))
    assert settle(three) == one
    assert others in (three / files.APP).read_text() and recorded_folder(three) == three


def test_the_commands_of_a_moved_folder_keep_the_folder_of_the_programs(
    one: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files.sys, "executable", f"{one}-venv/bin/python")
    init(one, 1)
    three = Path(shutil.move(one, one.parent / "three"))
    settle(three)
    commands = (three / files.COMMANDS).read_text()
    assert f"cd {three}\n" in commands and f"export PATH={one}-venv/bin:" in commands
    assert "for site in site-0; do" in commands


@pytest.mark.parametrize("secure", [True, False], ids=["keys", "no keys"])
def test_a_moved_folder_is_no_copy_of_a_new_deployment_at_its_former_place(
    tmp_path: Path, secure: bool
) -> None:
    former = tmp_path / "one"
    init(former, 1, port=free_ports(1)[0], secure=secure)
    moved = Path(shutil.move(former, tmp_path / "moved"))
    more = [] if secure else ["run.rounds=9", "client.folder=elsewhere"]
    init(former, 1, port=free_ports(1)[0], secure=secure, settings=more)
    assert original_of(moved) is None and moved_from(moved) == former
    assert check_place(moved).mark == "!" and settle(moved) == former
    assert (former / files.SERVER).exists() and check_place(former).mark == "✓"


def test_a_copy_without_keys_and_with_other_settings_is_a_copy(tmp_path: Path) -> None:
    init(tmp_path / "one", 1, port=free_ports(1)[0], secure=False)
    copy = Path(shutil.copytree(tmp_path / "one", tmp_path / "two"))
    (copy / files.SERVER).write_text(
        (copy / files.SERVER).read_text().replace("rounds = 5", "rounds = 7")
    )
    assert original_of(copy) == tmp_path / "one"


def test_the_cure_of_a_copy_keeps_the_original(one: Path, two: Path) -> None:
    detail = check_place(two).detail
    assert f"mv {one} {one}-old" in detail and "remove " not in detail and "rm " not in detail


def test_a_site_of_a_copy_does_not_start_in_the_foreground(one: Path, two: Path) -> None:
    with pytest.raises(ConfigError, match=f"is a copy of {one}"):
        run_site(two / "site-0")
