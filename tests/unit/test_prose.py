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


MADE = re.compile(r"<!-- (\w+): by make publish -->.*?<!-- end of \1 -->", re.DOTALL)
BLOCK = re.compile(r"^```.*?^```$|(?<=\n\n)(?: {4,}[^\n]*\n|\n(?= {4}))+", re.DOTALL | re.MULTILINE)
TARGET = re.compile(r"\]\([^)]*\)")
GENERATED = {"bounds.md", "performance.md"}
WORDS = {"pages that explain": 36_450, "how-to pages": 7_080}
"""A page that grows needs another one that shrinks: readers have no more time."""


def _words(path: Path) -> int:
    """Words by hand: no blocks of code, no addresses, nothing that is generated."""
    text = TARGET.sub("]", BLOCK.sub("", MADE.sub("", path.read_text())))
    return sum(1 for word in text.split() if re.search(r"\w", word))


@pytest.mark.parametrize("kind", WORDS)
def test_pages_have_no_more_words(kind: str) -> None:
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    if kind == "how-to pages":
        pages = sorted((ROOT / "docs" / "how-to").glob("*.md"))
    counted = {page.name: _words(page) for page in pages if page.name not in GENERATED}
    assert sum(counted.values()) <= WORDS[kind], counted


@pytest.mark.parametrize("paths", [DOCUMENTS, PACKAGE], ids=["documents", "package"])
def test_no_phrase_is_odd(paths: list[Path]) -> None:
    assert [found for path in paths for found in _odd(path)] == []
