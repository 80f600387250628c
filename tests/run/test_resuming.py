"""What resumes a run depends on where it takes place."""

from __future__ import annotations

from pathlib import Path

import pytest

from fedkin.cli.common import load_config
from fedkin.config.description import Description
from fedkin.core.errors import ConfigError
from fedkin.run.export_folder import export_folder
from fedkin.run.folder.resuming import how_to_resume

CONFIG = '[method]\nname = "fedavg"\n[run]\nrounds = 3\n'


def test_each_kind_of_run_has_its_own_way() -> None:
    folder = Path("my runs/one")
    assert "fedkin run --resume 'my runs/one'" in how_to_resume(folder, Description({}))
    assert "simulate(..., out='my runs/one', resume=True)" in how_to_resume(
        folder, Description({"python": {}})
    )
    assert "fedkin deploy up the folder of its server.toml" in how_to_resume(
        folder, Description({"federation": {}})
    )


@pytest.fixture
def deployed(tmp_path: Path) -> Path:
    """The folder of a deployed run that is not finished."""
    (tmp_path / "wards/run").mkdir(parents=True)
    (tmp_path / "wards/server.toml").write_text("")
    (tmp_path / "wards/run/config.toml").write_text(f'{CONFIG}[federation]\nname = "trial"\n')
    return tmp_path / "wards/run"


def test_a_deployed_run_is_resumed_with_its_sites(deployed: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as refused:
        export_folder(deployed, tmp_path / "out", "safetensors")
    message = str(refused.value)
    assert f"fedkin deploy up {deployed.parent}" in message and "--checkpoint" in message
    assert "fedkin run --resume" not in message and not (tmp_path / "out").exists()


def test_a_deployed_run_is_not_resumed_by_a_simulation(deployed: Path) -> None:
    with pytest.raises(ConfigError, match="fedkin deploy up"):
        load_config([], deployed)
