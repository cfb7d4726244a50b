"""What `make docs` does to pages on their way into the site (mkdocs.yml).

Pages are written as GitHub reads them. Python-Markdown wants more blanks in lists; and links to
files of the repository that are not in the site become the names of these files.
"""

import posixpath
import re
from typing import Any

LINK = re.compile(r"\[([^]]*)\]\((?![a-z]+:|#)([^)#\s]+)(?:#[^)\s]*)?\)")
ITEM = re.compile(r"(?:-|\d+\.) ")


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Return a page as the site has it; its keywords are tags, which the search ranks first."""
    page.meta["tags"] = config.extra["keywords"].get(page.file.src_uri, "").split()
    published = {each.src_uri for each in files if not each.inclusion.is_excluded()}
    existing = {each.src_uri for each in files}
    return without_links_out(spaced(markdown), page.file.src_uri, existing - published)


def without_links_out(markdown: str, name: str, unpublished: set[str]) -> str:
    """Return a page of docs/ without its links to files outside docs/ or to unpublished ones."""

    def link(found: re.Match[str]) -> str:
        label, target = found.groups()
        path = posixpath.normpath(posixpath.join(posixpath.dirname(name), target))
        if not path.startswith("../") and path not in unpublished:
            return found[0]
        file = posixpath.normpath(posixpath.join("docs", path))
        return label if file in label else f"{label} (`{file}`)"

    return LINK.sub(link, markdown)


def spaced(markdown: str) -> str:
    """Return a page with four spaces before what belongs to an item of a list.

    A blank line follows an item of several paragraphs.
    """
    lines: list[str] = []
    width, paragraphs, in_block = 0, False, False
    for line in markdown.splitlines():
        in_block ^= line.startswith("```")
        if item := None if in_block else ITEM.match(line):
            lines += [""] if paragraphs else []
            width, paragraphs = item.end(), False
        elif line and not line.startswith(" "):
            width, paragraphs = 0, False
        elif not line:
            paragraphs = width > 0
        belongs = width and line.startswith(" " * width)
        lines.append(" " * (4 - width) + line if belongs else line)
    return "\n".join(lines)
