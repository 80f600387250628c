"""The sections "What we measured" of the methods' pages."""

from __future__ import annotations

import pytest

from fedkin.core.errors import ConfigError
from papers.measured_sections import with_section

PAGE = "# A\n\n## Run it\n\nx\n\n## What we measured\n\nold\n\nolder\n\n## Next\n\n* b\n"


def test_only_the_section_is_replaced() -> None:
    assert with_section(PAGE, "new") == PAGE.replace("old\n\nolder", "new")
    assert with_section(with_section(PAGE, "new"), "old\n\nolder") == PAGE


@pytest.mark.parametrize("missing", ["## What we measured\n\n", "\n\n## Next\n"])
def test_a_page_without_the_section_is_refused(missing: str) -> None:
    with pytest.raises(ConfigError, match="What we measured and Next"):
        with_section(PAGE.replace(missing, ""), "new")
