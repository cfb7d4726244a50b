"""What people read has the order and the words of plain English.

Each phrase below has a plainer form: `anew`, again; `of ours`, our; `whoever`, the user who;
`is told`, an active verb with a subject; `nothing is to go`, nothing to delete.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.paths import ROOT

ODD = re.compile(
    r"\banew\b|\bof (?:ours|theirs)\b|\bwhoever\b|\b(?:is|are|was|were) told\b"
    r"|\bso (?:long before|often as)\b|\bas (?:many|much|often) as like\b"
    r"|\bnothing is to\b|\b(?:is|are|was|were) to go\b|\bgo(?:es)? no further\b"
    r"|\bthere is none of\b|\b(?:came|come|comes) of\b|\bat the latest\b|\bby then\b"
    r"|\bgives? (?:its|their) word\b|\bnobody's word\b|\b(?:by|for|of|to) who (?:asks|has|may)\b",
    re.IGNORECASE,
)
DOCUMENTS = [
    *(ROOT / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "ARCHITECTURE.md")),
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "docs" / "how-to").glob("*.md")),
]
PACKAGE = sorted(
    path
    for pattern in ("*.py", "*.html", "*.schema.json")
    for path in (ROOT / "jobauto_prefect").rglob(pattern)
)


def _odd(path: Path) -> Iterator[str]:
    for number, line in enumerate(path.read_text().splitlines(), 1):
        for found in ODD.finditer(line):
            yield f"{path.relative_to(ROOT)}:{number}: {found[0]}"


@pytest.mark.parametrize("paths", [DOCUMENTS, PACKAGE], ids=["documents", "package"])
def test_no_phrase_is_odd(paths: list[Path]) -> None:
    assert [found for path in paths for found in _odd(path)] == []
