"""The site, built once in a run of the tests."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from filelock import FileLock

from tests.conftest import ROOT

QUIET = {"NO_MKDOCS_2_WARNING": "1", "DISABLE_MKDOCS_2_WARNING": "true"}


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built as ``make docs`` builds it: a link that cannot be resolved is an error.

    The first process of pytest-xdist that needs the site builds it for the others.
    """
    pytest.importorskip("mkdocs", reason="the site needs pip install 'fedkin[docs]'")
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent
    built = folder / "site"
    with FileLock(folder / "site.lock"):
        if not built.exists():
            build(folder / "unfinished").rename(built)
    return built


def build(folder: Path) -> Path:
    """The folder, with the site in it."""
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet"]
    done = subprocess.run(
        [*command, "--site-dir", str(folder)],
        cwd=ROOT,
        env={**os.environ, **QUIET},
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    return folder
