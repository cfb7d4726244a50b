"""Previews of a job's files."""

import json
import mimetypes
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup
from starlette.concurrency import run_in_threadpool

from jobauto_prefect.console_addresses import CONSOLE
from jobauto_prefect.facade.concurrency import long_work
from jobauto_prefect.facade.console.contract import Contract

MAX_PREVIEWED = 64 * 1024  # bytes of a text
MAX_CELLS = 10_000  # of the tables in a text
MAX_PICTURE = 4 * 1024 * 1024  # bytes
MAX_PREVIEWS = 8  # texts of a page
MAX_MARKDOWN = 32 * 1024  # bytes rendered per page; further ones are shown as text
MAX_VALUES = 100  # rows of a table
PICTURES = frozenset({"image/png", "image/jpeg"})
"""Images that are shown; an SVG may contain scripts."""

MARKDOWN = "text/markdown"
TEXTS = frozenset({"text/plain", "text/csv", "application/json", MARKDOWN})


@dataclass(frozen=True, slots=True)
class ArtifactPreview:
    """A file; at most one of `picture`, `values`, `document` and `text` is set.

    `values` are the members of a flat JSON object, `document` is Markdown as HTML.
    """

    name: str
    path: str
    href: str
    size: str
    picture: str = ""
    values: Sequence[tuple[str, str]] = ()
    document: Markup | None = None
    text: str = ""


async def preview_artifacts(
    contract: Contract, artifacts: Sequence[Mapping[str, Any]]
) -> list[ArtifactPreview]:
    """Read the previews of a job's files.

    Raises:
        ContractError: a file no longer exists.
    """
    previews, texts, laid_out = [], 0, 0
    for artifact in artifacts:
        kind = mimetypes.guess_type(artifact["path"])[0] or ""
        is_text = kind in TEXTS and artifact["size"] <= MAX_PREVIEWED and texts < MAX_PREVIEWS
        content = b""
        if is_text:
            texts += 1
            content = await contract.fetch_bytes(f"/artifact/{artifact['id']}")
        if kind == MARKDOWN and content and laid_out + len(content) <= MAX_MARKDOWN:
            laid_out += len(content)
        elif kind == MARKDOWN:
            kind = "text/plain"
        shown = await run_in_threadpool(long_work.compute, _preview, artifact, kind, content)
        previews.append(shown)
    return previews


def _preview(artifact: Mapping[str, Any], kind: str, content: bytes) -> ArtifactPreview:
    href = f"{CONSOLE}/artifacts/{artifact['id']}"
    is_picture = kind in PICTURES and artifact["size"] <= MAX_PICTURE
    text = content.decode("utf-8", "replace").replace("\0", "")
    values: list[tuple[str, str]] = []
    if kind == "application/json":
        with suppress(ValueError, RecursionError):  # what is no JSON is shown as it is
            data = json.loads(text)
            text = json.dumps(data, indent=2, ensure_ascii=False)
            is_short = isinstance(data, dict) and len(data) <= MAX_VALUES
            if is_short and not any(isinstance(value, dict | list) for value in data.values()):
                values = [
                    (name, value if isinstance(value, str) else json.dumps(value))
                    for name, value in data.items()
                ]
    document = render_markdown(text) if kind == MARKDOWN else None
    return ArtifactPreview(
        name=artifact["name"],
        path=artifact["path"],
        href=href,
        size=format_size(artifact["size"]),
        picture=href if is_picture else "",
        values=values,
        document=document,
        text="" if values or document else text,
    )


def render_markdown(text: str) -> Markup:
    """Render Markdown; HTML in it stays text, and images are left out.

    Tables stay text if they could have too many cells: a row may be a single character.
    """
    from markdown_it import MarkdownIt  # imported late: commands load all pages

    markdown = MarkdownIt("commonmark", {"html": False}).disable("image")
    lines = text.splitlines()
    if max((line.count("|") for line in lines), default=0) * len(lines) <= MAX_CELLS:
        markdown.enable("table")
    return Markup(markdown.render(text))  # noqa: S704 - it has no HTML but the renderer's own


def format_size(size: int) -> str:
    """Format a number of bytes: `999 B`, `1.5 kB`, `20.0 MB`."""
    if size < 1000:
        return f"{size} B"
    return f"{size / 1000:.1f} kB" if size < 1_000_000 else f"{size / 1_000_000:.1f} MB"
