"""How the console's pages are sent."""

from collections.abc import Mapping
from typing import Any

from fastapi import Request, Response

from jobauto_prefect.facade.console.texts import TEXTS, choose_page_language
from jobauto_prefect.facade.formats import View
from jobauto_prefect.facade.http.responses import languages_of

REFERRER_POLICY = "same-origin"
"""With `no-referrer` browsers would not say from where a form of ours is sent."""


def language_of(request: Request) -> str:
    """Return the language of the console's pages for the sender of a request."""
    return choose_page_language(languages_of(request))


def respond_with_page(
    template: str,
    view: View,
    status: int = 200,
    headers: Mapping[str, str] | None = None,
    **parts: Any,
) -> Response:
    """Send a page of one of the templates; it has the words of its language as `texts`."""
    # Templates are loaded by the first page: commands ask for none.
    from jobauto_prefect.facade.formats.html.page import CONTENT_SECURITY_POLICY, render_page

    body = render_page(template, view, texts=TEXTS[view.language], **parts)
    return Response(
        body,
        status_code=status,
        headers={
            "Content-Type": "text/html; charset=utf-8",
            "Content-Security-Policy": CONTENT_SECURITY_POLICY,
            "Referrer-Policy": REFERRER_POLICY,
            "Vary": "Accept-Language, Authorization, Cookie",
            **(headers or {}),
        },
    )
