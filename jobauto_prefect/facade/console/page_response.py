"""Responses of the console: frame, navigation and content security policy of its pages."""

import base64
import functools
import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import resources
from typing import Any, Final

from fastapi import FastAPI, Request, Response
from markupsafe import Markup
from starlette.concurrency import run_in_threadpool
from starlette.types import Receive, Scope, Send

from jobauto_prefect.console_addresses import CONSOLE
from jobauto_prefect.facade.auth.identity import Identity
from jobauto_prefect.facade.concurrency import long_work
from jobauto_prefect.facade.console.contract import ContractError
from jobauto_prefect.facade.console.navigation import entry_of, navigation_of, subpages_of
from jobauto_prefect.facade.console.notifications import (
    forget_notification,
    read_notification,
)
from jobauto_prefect.facade.formats import View
from jobauto_prefect.facade.formats.html.page_language import (
    Text,
    choose_page_language,
    tell,
    translator,
)
from jobauto_prefect.facade.http import late_routes
from jobauto_prefect.facade.http.responses import languages_of

REFERRER_POLICY = "same-origin"
"""With `no-referrer` browsers would not say which page sends a form."""

HTMX: Final = f"{CONSOLE}/static/htmx.js"

router = late_routes.router(include_in_schema=False)


@router.get(HTMX)
def send_htmx() -> Response:
    """Send htmx (https://htmx.org, 0BSD); pages load it with its integrity hash."""
    script = _file("static", "htmx.min.js")
    headers = {"ETag": f'"{script.digest}"', "Cache-Control": "private, max-age=86400"}
    return Response(script.text, media_type="text/javascript", headers=headers)


def language_of(request: Request) -> str:
    """Return the language of the console's answer to a request."""
    return choose_page_language(languages_of(request))


class _PageResponse(Response):
    """A page that is rendered on sending, in a thread: a log with many colours takes long."""

    def __init__(
        self, render: Callable[[], bytes], *, status_code: int, headers: Mapping[str, str]
    ) -> None:
        super().__init__(status_code=status_code, headers=headers)
        self._render = render

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.body = await run_in_threadpool(long_work.compute, self._render)
        self.headers["content-length"] = str(len(self.body))
        await super().__call__(scope, receive, send)


def respond_in_console(
    request: Request,
    who: Identity,
    template: str,
    title: str,
    *,
    here: str | None = None,
    status: int = 200,
    is_live: bool = False,
    **parts: Any,
) -> Response:
    """Send a page of the console to a signed-in visitor.

    `here` is the label of the current menu entry; None: the entry that the address is below.
    `is_live`: the page loads htmx and updates itself; without scripts it stays as it was loaded.
    """
    here = entry_of(request.url.path) if here is None else here
    language = language_of(request)
    view = View(
        title=tell(title, translator(language)),
        item="",
        data={},
        user=who.actor.name,
        language=language,
        languages=languages_of(request),
        session=who.in_session,
    )
    notification = read_notification(request)
    response = respond_with_page(
        template,
        view,
        status,
        is_live=is_live,
        here=here,
        navigation=navigation_of(who),
        subpages=subpages_of(who, here, request.url.path),
        notification=notification,
        **parts,
    )
    if notification.text:
        forget_notification(response)
    return response


def respond_with_page(
    template: str,
    view: View,
    status: int = 200,
    headers: Mapping[str, str] | None = None,
    *,
    is_live: bool = False,
    **parts: Any,
) -> Response:
    """Send a page made from a template."""
    # Imported late: commands load this module but render no page.
    from jobauto_prefect.facade.formats.html.page import content_security_policy, render_page

    style = _file("templates", "console.css")
    script = _file("static", "htmx.min.js") if is_live else None
    render = functools.partial(
        render_page,
        template,
        view,
        console_style=Markup(style.text),  # noqa: S704 - it is our own file
        script=script and {"address": HTMX, "digest": script.digest},
        **parts,
    )
    policy = content_security_policy(style.digest, script.digest if script else "")
    # A page that follows its record asks again after any error; after these it would for ever.
    reload = {"HX-Refresh": "true"} if status in (401, 403, 404) else {}
    return _PageResponse(
        render,
        status_code=status,
        headers={
            "Content-Type": "text/html; charset=utf-8",
            "Content-Security-Policy": policy,
            "Referrer-Policy": REFERRER_POLICY,
            "Vary": "Accept-Language, Authorization, Cookie",
            **reload,
            **(headers or {}),
        },
    )


@dataclass(frozen=True, slots=True)
class _File:
    """A file of the console; `digest` is its SHA-384 as in `integrity` attributes."""

    text: str
    digest: str


def load_console_files() -> None:
    """Load style and script of all pages now, before an upgrade replaces their files."""
    _file("templates", "console.css")
    _file("static", "htmx.min.js")


@functools.cache
def _file(folder: str, name: str) -> _File:
    content = (resources.files(__package__) / folder / name).read_bytes()
    digest = base64.b64encode(hashlib.sha384(content).digest()).decode()
    return _File(content.decode(), f"sha384-{digest}")


def add_error_pages(app: FastAPI) -> None:
    """Show each `ContractError` as a page of the console."""

    @app.exception_handler(ContractError)
    def _refused(request: Request, error: ContractError) -> Response:
        who: Identity = request.state.identity
        title = Text("This is not possible")
        return respond_in_console(
            request, who, "refusal.html", title, here="", status=error.status, error=error
        )
