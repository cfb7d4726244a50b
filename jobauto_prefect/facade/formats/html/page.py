"""HTML: the frame of pages for people, without scripts or external resources."""

import base64
import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, partial
from importlib import resources
from typing import Any, Final
from urllib.parse import quote, urlencode

from jinja2 import DictLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from jobauto_prefect.facade.formats.html.page_language import tell, translator
from jobauto_prefect.facade.formats.negotiation import FORMATS
from jobauto_prefect.facade.formats.view import PageLink, View
from jobauto_prefect.kinds import KINDS
from jobauto_prefect.wording import escape_controls

STYLE: Final = (resources.files(__package__) / "templates" / "style.css").read_text("utf-8")

CONSOLE: Final = "jobauto_prefect.facade.console"
"""The package with the templates."""

_STYLE_HASH = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()


def content_security_policy(style: str = "", script: str = "") -> str:
    """Return the header to send with a page; it allows the page's own style and pictures.

    `style` and `script` are the digests of an extra stylesheet and of the script it may load, like
    `sha384-…`.
    """
    styles = f"'sha256-{_STYLE_HASH}'" + (f" '{style}'" if style else "")
    scripts = f"script-src '{script}'; connect-src 'self'; " if script else ""
    return (
        f"default-src 'none'; style-src {styles}; {scripts}img-src 'self' data: https:; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    )


CONTENT_SECURITY_POLICY: Final = content_security_policy()
"""The header sent with every page of the contract."""


def is_error(view: View) -> bool:
    """Whether the page shows an error rather than a record."""
    return not view.item and isinstance(view.data, dict) and "error" in view.data


def render_page(
    template: str,
    view: View,
    *,
    here: str = "",
    navigation: Sequence[PageLink] | None = None,
    **parts: Any,
) -> bytes:
    """Render a page from a template; `parts` are the template's variables.

    `here` is the label of the navigation's current entry if the view does not set it.
    `navigation`: None means the contract's.
    """
    translate = translator(view.language)
    text = (
        load_templates()
        .get_template(template)
        .render(
            view=view,
            _=translate,
            told=partial(tell, translate=translate),
            style=Markup(STYLE),  # noqa: S704 - it is our own file
            navigation=_navigation(view) if navigation is None else navigation,
            here=here or _current_entry(view),
            formats=list(_formats(view)),
            **parts,
        )
    )
    return _show_hidden(text).encode("utf-8", "replace")


# Templates escape quotation marks and angle brackets in all inserted values.
_KEPT = re.compile(r'([ \n](?:action|href|name|src|value)="[^"]*"|<textarea\b[^>]*>[^<]*)')


def _show_hidden(page: str) -> str:
    """Show bidirectional and invisible characters as codes; addresses and forms keep them."""
    characters = set(page) - set("\t\n\r")
    codes = {each: code for each in characters if (code := escape_controls(each)) != each}
    if not codes:
        return page
    parts = _KEPT.split(page)
    table = str.maketrans(codes)
    parts[::2] = [part.translate(table) for part in parts[::2]]
    return "".join(parts)


_NAVIGATION: Final = (
    *((kind.collection, kind.many) for kind in KINDS.values()),
    ("status", "Status"),
    ("index", "Index"),
)


def _navigation(view: View) -> list[PageLink]:
    start = [PageLink("Start", "/")] if view.session else []
    links = [PageLink(name, f"{view.base}/{path}.html") for path, name in _NAVIGATION]
    return [*start, *links]


@cache
def load_templates() -> Environment:
    """Load all templates now, as their files may be replaced; compile each on first use."""
    texts: dict[str, str] = {}
    for package in (CONSOLE, __package__):
        loader = PackageLoader(package)
        environment = Environment(autoescape=True)
        for name in loader.list_templates():
            if name.endswith(".html"):
                texts[name] = loader.get_source(environment, name)[0]
    return Environment(
        loader=DictLoader(texts),
        autoescape=True,
        undefined=StrictUndefined,
        auto_reload=False,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _current_entry(view: View) -> str:
    """Return the label of the navigation's current entry."""
    path = KINDS[view.item].collection if view.item in KINDS else view.path.rpartition("/")[2]
    return dict(_NAVIGATION).get(path, "")


def _formats(view: View) -> Iterator[PageLink]:
    """Yield links to the page's other formats, but not in a session: it is valid for pages only."""
    if not view.path or view.session or is_error(view):
        return
    for name, body_format in FORMATS.items():
        if name != "html" and (view.is_list or not body_format.for_lists_only):
            yield PageLink(name.upper(), page_address(view, view.query, name))


def page_address(view: View, query: Mapping[str, str], suffix: str = "html") -> str:
    """Return the address of this page with another query or in another format."""
    # A single leading slash: two would name another host.
    path = quote("/" + view.path.lstrip("/"), errors="replace")
    fields = f"?{urlencode(query, errors='replace')}" if query else ""
    return f"{path}.{suffix}{fields}"
