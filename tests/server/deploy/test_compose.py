"""The compose file: server and sites, none of them root, none with the files of another."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from fedkin.server.deploy.init import init

yaml = pytest.importorskip("yaml", reason="a deployment needs pip install 'fedkin[flower]'")


def services(folder: Path, **options: Any) -> dict[str, Any]:
    init(folder, 2, compose=True, **options)
    return yaml.safe_load((folder / "compose.yaml").read_text())["services"]


def test_server_run_and_sites_are_services_without_root(tmp_path: Path) -> None:
    found = services(tmp_path / "fed")
    assert [*found] == ["server", "run", "site-0", "site-1"]
    for name, service in found.items():
        assert service["user"] == f"{os.getuid()}:{os.getgid()}"
        assert service["cap_drop"] == ["ALL"] and service["security_opt"] == ["no-new-privileges:true"]
        assert "ports" not in service and "privileged" not in service
        assert service["build"]["context"] == str(tmp_path / "fed" / "app")
        assert ("healthcheck" in service) == (name != "run")
        for path in service["env_file"]:
            assert Path(path).exists()
    assert found["site-1"]["depends_on"] == {"server": {"condition": "service_healthy"}}
    assert found["site-1"]["command"] == ["fedkin", "deploy", "node", str(tmp_path / "fed/site-1")]
    assert found["site-1"]["healthcheck"]["test"][1:] == ["fedkin", "deploy", "status", str(tmp_path / "fed/site-1")]


def test_no_container_has_the_private_files_of_another(tmp_path: Path) -> None:
    root = tmp_path / "fed"
    found = services(root)
    assert found["site-0"]["volumes"] == [f"{root}/site-0:{root}/site-0"]
    assert set(found["server"]["tmpfs"]) == {f"{root}/site-0", f"{root}/site-1"}
    mounted = [entry.split(":")[0] for entry in found["run"]["volumes"]]
    assert {Path(path).name for path in mounted} == {"app", "flwr", "ca.pem", "key.pub"}


def test_sites_find_the_server_by_its_containers_name(tmp_path: Path) -> None:
    services(tmp_path / "fed", port=8123)
    assert "SUPERLINK=server:8123\n" in (tmp_path / "fed/site-0/flower.env").read_text()
    from cryptography import x509

    certificate = x509.load_pem_x509_certificate((tmp_path / "fed/keys/server.pem").read_bytes())
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert "server" in names.get_values_for_type(x509.DNSName)
    services(tmp_path / "fed")  # again: the address stays
    assert "SUPERLINK=server:8123\n" in (tmp_path / "fed/site-0/flower.env").read_text()


def test_the_health_check_is_a_program_that_fails_where_nothing_replies(tmp_path: Path) -> None:
    test = services(tmp_path / "fed", port=1, secure=False)["server"]["healthcheck"]["test"]
    assert test[:3] == ["CMD", "python", "-c"]
    done = subprocess.run([sys.executable, "-c", test[3]], capture_output=True, text=True)
    assert done.returncode == 1 and "URLError" in done.stderr


@pytest.mark.parametrize("name", ['a "quoted" one', "a # hash", "ünï"])
def test_odd_folders_are_written_as_they_are(tmp_path: Path, name: str) -> None:
    found = services(tmp_path / name, secure=False)
    assert found["server"]["working_dir"] == str(tmp_path / name)
