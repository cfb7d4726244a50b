"""ARCHITECTURE.md, CONTRIBUTING.md and the index of decisions name what is there."""

import re

import pytest

from tests.support.paths import ROOT

PACKAGE = ROOT / "jobauto_prefect"
NAMED = re.compile(r"`([\w./-]+/[\w.-]*|[\w-]+\.(?:py|md|toml))`")
LINKED = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")


@pytest.mark.parametrize("page", ["ARCHITECTURE.md", "CONTRIBUTING.md"])
def test_every_path_is_there(page: str) -> None:
    named = set(NAMED.findall((ROOT / page).read_text()))

    assert len(named) > 5
    assert [path for path in sorted(named) if not _is_there(path)] == []


def _is_there(path: str) -> bool:
    return any((folder / path).exists() for folder in (PACKAGE, ROOT)) or "LAYER" in path


@pytest.mark.parametrize("page", ["ARCHITECTURE.md", "docs/decisions/README.md"])
def test_every_link_leads_somewhere(page: str) -> None:
    folder = (ROOT / page).parent

    links = LINKED.findall((ROOT / page).read_text())

    assert [link for link in links if not (folder / link).exists()] == []


def test_the_index_has_every_decision_with_its_title() -> None:
    folder = ROOT / "docs" / "decisions"
    pages = sorted(folder.glob("0*.md"))
    titles = {page.name: page.read_text().splitlines()[0].removeprefix("# ") for page in pages}

    index = (folder / "README.md").read_text()

    assert [name for name, title in titles.items() if f"- [{title}]({name})" not in index] == []
