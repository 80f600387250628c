"""Sites that are added, removed and given new keys, in a deployment that was never started;
Flower's programs are in tests/process."""

from __future__ import annotations

import shutil
import stat
from pathlib import Path

import pytest

pytest.importorskip("cryptography", reason="keys need pip install 'fedkin[flower]'")
from fedkin.config.server import load_client, load_server
from fedkin.core.errors import ConfigError, FedkinError
from fedkin.server.deploy import site_keys
from fedkin.server.deploy.check_keys import check_server_keys, check_site_keys
from fedkin.server.deploy.deployment_folder import read_environment
from fedkin.server.deploy.init import init
from fedkin.server.deploy.removed_sites import removed_names
from fedkin.server.deploy.selection import select
from fedkin.server.deploy.sites import add, remove, rotate, rotate_server


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four sites with keys."""
    return init(tmp_path_factory.mktemp("deploy") / "fed").folder


@pytest.fixture
def fed(original: Path, tmp_path: Path) -> Path:
    """Four sites that a test may change."""
    return Path(shutil.copytree(original, tmp_path / "fed"))


@pytest.fixture
def insecure(tmp_path: Path) -> Path:
    return init(tmp_path / "open", 2, secure=False).folder


def quiet(line: str) -> None:
    """Say nothing."""


def wait_for(folder: Path) -> int:
    return load_server(folder / "server.toml").federation.wait_for


def all_well(folder: Path) -> bool:
    return all(result.mark == "✓" for result in check_site_keys(folder))


# --- add


def test_an_added_site_is_like_the_others_with_its_own_client_port_and_key(fed: Path) -> None:
    said: list[str] = []
    add(fed, "berlin", say=said.append)
    own = load_client(fed / "berlin/client.toml")
    first = load_client(fed / "site-0/client.toml")
    assert own.site.name == "berlin" and own.site.clients == (4,)
    assert own.data == first.data and own.shared_digest == first.shared_digest
    assert read_environment(fed / "berlin")["SUPERNODE_PORT"] == "9098"
    assert all_well(fed / "berlin")
    assert (fed / "berlin/ca.pem").read_bytes() == (fed / "keys/ca.pem").read_bytes()
    keys = {(folder / "key").read_bytes() for folder in select(fed).sites.values()}
    assert len(keys) == 5
    assert "berlin" in (fed / "COMMANDS.md").read_text()
    # The run has not begun, so its first round waits for the new site too.
    assert wait_for(fed) == 5
    assert "berlin: its key will be registered when the server starts" in said


def test_an_added_site_takes_settings_for_its_own_data(tmp_path: Path) -> None:
    for site in ("site-0", "rome"):
        (tmp_path / "fed" / site).mkdir(parents=True)
        name = "own.csv" if site == "site-0" else "rome.csv"
        rows = [f"{i},{i % 3},{i % 2}" for i in range(20)]
        (tmp_path / "fed" / site / name).write_text("\n".join(["age,weight,y", *rows]))
    table = ["data.name=file", "data.path=own.csv", "data.partition=iid", "data.clients=1"]
    init(tmp_path / "fed", 1, settings=table)
    add(tmp_path / "fed", "rome", ["data.path=rome.csv"], say=quiet)
    data = load_client(tmp_path / "fed/rome/client.toml").data_values
    assert Path(data["path"]).name == "rome.csv"
    assert data["partition"] == "iid"


def test_a_site_that_made_its_own_key_sends_the_public_half(
    fed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    registered: list[object] = []
    monkeypatch.setattr(site_keys, "register", lambda *words: registered.append(words))
    add(fed, "rome", public_key=fed / "site-0/key.pub", say=quiet)
    assert registered == [(fed, "rome")]
    assert (fed / "rome/key.pub").read_bytes() == (fed / "site-0/key.pub").read_bytes()
    assert not (fed / "rome/key").exists()


@pytest.mark.parametrize(
    ("site", "words"),
    [
        ("site-1", "fedkin deploy rotate"),
        ("a/b", "cannot be the name of a site"),
        ("keys", "such as site-4"),
        ("", "cannot be the name of a site"),
    ],
)
def test_a_name_that_is_taken_or_invalid_is_refused(fed: Path, site: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        add(fed, site, say=quiet)
    assert wait_for(fed) == 4


def test_a_site_beyond_the_capacity_is_refused_and_nothing_is_written(fed: Path) -> None:
    for k in range(4, 8):
        add(fed, f"site-{k}", say=quiet)
    remove(fed, "site-7", say=quiet)
    # A removed site keeps its ids, so its place is not free for another.
    with pytest.raises(ConfigError, match=r"federation\.capacity is 8"):
        add(fed, "site-8", say=quiet)
    assert not (fed / "site-8").exists()
    add(fed, "site-7", say=quiet)


@pytest.mark.parametrize("setting", ["data.sampels=3", "run.rounds=3", "client.name=x"])
def test_an_invalid_setting_writes_nothing(fed: Path, setting: str) -> None:
    with pytest.raises(FedkinError, match=setting.partition("=")[0].replace(".", r"\.")):
        add(fed, "rome", [setting], say=quiet)
    assert not (fed / "rome").exists()


def test_a_port_of_the_server_is_no_port_of_a_new_site(tmp_path: Path) -> None:
    init(tmp_path / "fed", 2, port=9096, secure=False)
    add(tmp_path / "fed", "rome", say=quiet)
    assert read_environment(tmp_path / "fed/rome")["SUPERNODE_PORT"] == "9097"


# --- remove


def test_a_removed_site_leaves_its_folder_and_the_others_are_waited_for(fed: Path) -> None:
    (fed / "site-2/state").mkdir()
    (fed / "site-2/state/model").write_text("kept")
    said: list[str] = []
    remove(fed, "site-2", say=said.append)
    assert [*select(fed).sites] == ["site-0", "site-1", "site-3"]
    kept = next(fed.glob("removed/site-2-*"))
    assert (kept / "state/model").read_text() == "kept"
    assert removed_names(fed) == {"site-2"}
    assert wait_for(fed) == 3
    assert "site-2" not in (fed / "COMMANDS.md").read_text()
    assert any("federation.wait_for is now 3 (it was 4)" in line for line in said)


def test_a_wait_for_that_the_user_chose_stays(fed: Path) -> None:
    path = fed / "server.toml"
    path.write_text(path.read_text().replace("wait_for = 4", "wait_for = 2 # enough"))
    remove(fed, "site-2", say=quiet)
    add(fed, "rome", say=quiet)
    assert "wait_for = 2 # enough" in path.read_text()


def test_a_key_is_revoked_under_the_registered_name_before_the_folder_moves(
    fed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = fed / "site-1/client.toml"
    path.write_text(path.read_text().replace('name = "site-1"', 'name = "paris"'))
    revoked: list[str] = []

    def revoke(folder: Path, name: str) -> int:
        assert (folder / "site-1/client.toml").exists()
        revoked.append(name)
        return 1

    monkeypatch.setattr(site_keys, "was_started", lambda folder: True)
    monkeypatch.setattr(site_keys, "revoke", revoke)
    said: list[str] = []
    remove(fed, "site-1", say=said.append)
    assert revoked == ["paris"] and removed_names(fed) == {"paris"}
    assert "site-1: its key is revoked, and the server refuses it from now on" in said


def test_a_site_whose_key_cannot_be_revoked_stays(
    fed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(folder: Path, name: str) -> int:
        raise ConfigError("the SuperLink ended right after its start")

    monkeypatch.setattr(site_keys, "was_started", lambda folder: True)
    monkeypatch.setattr(site_keys, "revoke", fail)
    with pytest.raises(ConfigError, match="ended right after its start"):
        remove(fed, "site-1", say=quiet)
    assert "site-1" in select(fed).sites and removed_names(fed) == set() and wait_for(fed) == 4


def test_a_site_is_removed_only_once(fed: Path) -> None:
    remove(fed, "site-2", say=quiet)
    with pytest.raises(ConfigError) as refused:
        remove(fed, "site-2", say=quiet)
    message = str(refused.value)
    assert message.startswith(f"site-2 was removed from {fed} on 2")
    assert "the sites are: site-0, site-1, site-3" in message
    assert f"fedkin deploy add {fed} site-2" in message


def test_a_site_that_never_was_is_refused_with_the_names_of_all(fed: Path) -> None:
    """No site is suggested: the names differ by a digit, and the command removes a site."""
    with pytest.raises(ConfigError, match="unknown site 'site-9'; the sites are: site-0, site-1"):
        remove(fed, "site-9", say=quiet)


def test_a_removed_site_cannot_be_selected(fed: Path) -> None:
    remove(fed, "site-2", say=quiet)
    with pytest.raises(ConfigError, match=f"site-2 was removed from {fed}; .*deploy add"):
        select(fed, site="site-2")


def test_without_keys_the_firewall_must_refuse(insecure: Path) -> None:
    said: list[str] = []
    remove(insecure, "site-1", say=said.append)
    assert any("has no keys" in line and "firewall" in line for line in said)


def test_a_site_comes_back_with_its_client_and_another_key(fed: Path) -> None:
    before = (fed / "site-2/key.pub").read_bytes()
    remove(fed, "site-2", say=quiet)
    with pytest.raises(ConfigError, match=r"data\.samples=30: site-2 comes back"):
        add(fed, "site-2", ["data.samples=30"], say=quiet)
    said: list[str] = []
    add(fed, "site-2", say=said.append)
    assert "site-2 is back with its former folder and client ids" in said
    assert load_client(fed / "site-2/client.toml").site.clients == (2,)
    assert (fed / "site-2/key.pub").read_bytes() != before and all_well(fed / "site-2")
    assert removed_names(fed) == set() and wait_for(fed) == 4
    remove(fed, "site-2", say=quiet)  # and it can be removed again


def test_init_brings_no_removed_site_back_and_keeps_the_number_of_sites(fed: Path) -> None:
    remove(fed, "site-2", say=quiet)
    assert init(fed).new == []
    with pytest.raises(ConfigError, match=r"site-2 was removed.*fedkin deploy add"):
        init(fed, 4)
    assert init(fed, 2).sites == ["site-0", "site-1", "site-3"]


def test_init_again_adds_no_site_to_a_small_deployment(insecure: Path) -> None:
    assert init(insecure, secure=False).new == []
    assert [*select(insecure).sites] == ["site-0", "site-1"]


# --- rotate


def test_a_new_key_replaces_the_former_one(fed: Path) -> None:
    before = {path.name: path.read_bytes() for path in (fed / "site-1").iterdir()}
    rotate(fed, "site-1", say=quiet)
    after = {path.name: path.read_bytes() for path in (fed / "site-1").iterdir()}
    assert before.keys() == after.keys()
    assert {name for name in before if before[name] != after[name]} == {"key", "key.pub"}
    assert all_well(fed / "site-1")
    assert stat.S_IMODE((fed / "site-1/key").stat().st_mode) == 0o600


def test_a_key_that_the_server_refuses_leaves_the_former_one(
    fed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*words: object) -> int:
        raise ConfigError("Flower has refused the key")

    monkeypatch.setattr(site_keys, "was_started", lambda folder: True)
    monkeypatch.setattr(site_keys, "replace", fail)
    before = (fed / "site-1/key").read_bytes()
    with pytest.raises(ConfigError, match="Flower has refused"):
        rotate(fed, "site-1", say=quiet)
    assert (fed / "site-1/key").read_bytes() == before and all_well(fed / "site-1")


def test_a_site_on_another_machine_makes_its_key_there(fed: Path, tmp_path: Path) -> None:
    there = Path(shutil.copytree(fed / "site-1", tmp_path / "there"))
    (fed / "site-1/key").unlink()
    with pytest.raises(ConfigError, match=r"fedkin deploy rotate \. there"):
        rotate(fed, "site-1", say=quiet)
    said: list[str] = []
    rotate(there, say=said.append)
    assert all_well(there)
    assert any("fedkin deploy rotate FOLDER site-1 --public-key key.pub" in line for line in said)
    rotate(fed, "site-1", public_key=there / "key.pub", say=quiet)
    assert (fed / "site-1/key.pub").read_bytes() == (there / "key.pub").read_bytes()
    assert not (fed / "site-1/key").exists()


def test_a_file_that_is_no_public_key_is_refused(fed: Path) -> None:
    with pytest.raises(ConfigError, match=r"no public key in OpenSSH format; name the key\.pub"):
        rotate(fed, "site-1", public_key=fed / "server.toml", say=quiet)
    with pytest.raises(ConfigError, match=r"nowhere\.pub cannot be read"):
        rotate(fed, "site-1", public_key=fed / "nowhere.pub", say=quiet)
    assert all_well(fed / "site-1")


def test_without_keys_there_is_nothing_to_rotate(insecure: Path) -> None:
    with pytest.raises(ConfigError, match="without keys"):
        rotate(insecure, "site-1", say=quiet)
    with pytest.raises(ConfigError, match="has no keys"):
        rotate(insecure / "site-1", say=quiet)
    with pytest.raises(ConfigError, match="without keys"):
        rotate_server(insecure, say=quiet)


def test_the_server_gets_a_certificate_of_the_same_authority(fed: Path) -> None:
    before = {path.name: path.read_bytes() for path in (fed / "keys").iterdir()}
    rotate_server(fed, say=quiet)
    after = {path.name: path.read_bytes() for path in (fed / "keys").iterdir()}
    changed = {name for name in before if before[name] != after[name]}
    assert changed == {"server.pem", "server-key.pem"}
    assert all(result.mark == "✓" for result in check_server_keys(fed, "127.0.0.1"))


def test_without_the_key_of_the_authority_the_certificate_stays(fed: Path) -> None:
    before = (fed / "keys/server.pem").read_bytes()
    (fed / "keys/ca-key.pem").rename(fed / "ca-key.pem")
    with pytest.raises(ConfigError, match=r"ca-key\.pem is needed"):
        rotate_server(fed, say=quiet)
    assert (fed / "keys/server.pem").read_bytes() == before


# --- the authority


def test_a_lost_certificate_of_the_authority_is_put_back_and_not_made_again(fed: Path) -> None:
    (fed / "keys/ca.pem").unlink()
    with pytest.raises(ConfigError) as refused:
        init(fed)
    cure = f"cp {fed / 'site-0/ca.pem'} {fed / 'keys/ca.pem'}"
    assert cure in str(refused.value)
    shutil.copy(fed / "site-0/ca.pem", fed / "keys/ca.pem")
    init(fed)
    assert all(result.mark == "✓" for result in check_server_keys(fed, "127.0.0.1"))


def test_a_site_s_folder_is_no_place_for_the_server_s_commands(fed: Path) -> None:
    for command in (add, remove):
        with pytest.raises(ConfigError, match="where the server is"):
            command(fed / "site-0", "rome", say=quiet)
