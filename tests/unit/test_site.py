"""The site of docs/ (mkdocs.yml): its menu has all its pages, its links stay in it."""

import posixpath
import re
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from scripts.site import spaced, without_links_out
from tests.support.paths import ROOT

DOCS = ROOT / "docs"
LINK = re.compile(r"\]\((?![a-z]+:|#)([^)#\s]+)")


class Loader(yaml.SafeLoader):
    """Reads the configuration without what mkdocs makes of its Python tags."""


Loader.add_multi_constructor("tag:yaml.org,2002:python/", lambda *_: None)
CONFIGURATION = yaml.load((ROOT / "mkdocs.yml").read_text(), Loader)
EXCLUDED = tuple(pattern.strip("/") for pattern in CONFIGURATION["exclude_docs"].split())
ALL = {str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md")}
UNPUBLISHED = {name for name in ALL if name.startswith(EXCLUDED)}
PAGES = ALL - UNPUBLISHED


def pages_of(menu: Any) -> Iterator[str]:
    if isinstance(menu, str):
        yield menu
        return
    for each in menu.values() if isinstance(menu, dict) else menu:
        yield from pages_of(each)


def test_the_menu_has_each_page_once() -> None:
    assert sorted(pages_of(CONFIGURATION["nav"])) == sorted(PAGES)


@pytest.mark.parametrize("name", sorted(PAGES - {"tutorial.md"}))
def test_a_page_begins_with_what_it_is_for(name: str) -> None:
    beginning = (DOCS / name).read_text().partition("\n## ")[0]
    assert re.search(r"\n\n(This page (explains|lists|compares)|Use this page) ", beginning)


@pytest.mark.parametrize("name", sorted(PAGES))
def test_links_of_a_page_stay_in_the_site(name: str) -> None:
    page = without_links_out((DOCS / name).read_text(), name, UNPUBLISHED)
    for target in LINK.findall(page):
        path = posixpath.normpath(posixpath.join(posixpath.dirname(name), target))
        assert (DOCS / path).is_file(), target
        assert path not in UNPUBLISHED, target


def test_a_link_out_of_the_site_becomes_the_name_of_its_file() -> None:
    page = "[why](../decisions/1.md#so), [`schemas/a.json`](../../schemas/a.json), [how](b.md#x)"

    assert without_links_out(page, "how-to/a.md", {"decisions/1.md"}) == (
        "why (`docs/decisions/1.md`), `schemas/a.json`, [how](b.md#x)"
    )


def test_what_belongs_to_an_item_is_indented_by_four() -> None:
    page = "1. One\n   more\n\n       code\n2. Two\n\n- A\n  - B\n\nText\n   as it is\n"

    assert spaced(page) == (
        "1. One\n    more\n\n        code\n\n2. Two\n\n\n- A\n    - B\n\nText\n   as it is"
    )
    assert spaced("```yaml\n- a:\n  - b\n```") == "```yaml\n- a:\n  - b\n```"
