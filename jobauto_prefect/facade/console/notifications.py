"""Notifications after a form was sent: a cookie carries one to the next page, which deletes it.

In the address instead, a reloaded or shared page would repeat it. Warnings of the contract are in
the cookie, too.
"""

import base64
import binascii
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import unquote

from fastapi import Request, Response
from fastapi.responses import RedirectResponse

from jobauto_prefect.console_addresses import CONSOLE

COOKIE = "jobauto_done"
KEPT_FOR = 60  # seconds
MOST_WARNED = 3000  # characters; browsers guarantee room for cookies of 4 KB only

NOTIFICATIONS: Mapping[str, str] = {
    "lost": "The worker was declared lost; its jobs will be retried.",
    "member_removed": "The membership was removed.",
    "member_saved": "The membership was saved.",
    "paused": "The run template was paused: no jobs start until it is resumed.",
    "reachable": "The connection works.",
    "unreachable": "The connection does not work.",
    "replayed": "The starts were repeated.",
    "resumed": "The run template was resumed.",
    "revoked": "The token was revoked.",
    "saved": "Saved.",
    "started": "The job was created.",
    "cancelled": "The job is being stopped.",
    "excused": "The window was excused.",
    "retried": "This job was created as a retry.",
}
"""By key, in English; pages translate them."""

BAD_NEWS = frozenset({"unreachable"})


@dataclass(frozen=True, slots=True)
class Notification:
    """What was done, and the warnings of the contract."""

    text: str = ""
    is_bad: bool = False
    warnings: Sequence[str] = ()


def redirect_after(
    request: Request, address: str, done: str, warnings: Sequence[str] = ()
) -> Response:
    """Redirect to a page that shows what was done, and as many warnings as the cookie can hold."""
    response = RedirectResponse(address, 303)
    kept = list(warnings)
    while len(_encode(address, done, kept)) > MOST_WARNED and kept:
        kept.pop()
    response.set_cookie(
        COOKIE,
        _encode(address, done, kept),
        max_age=KEPT_FOR,
        path=CONSOLE,
        secure=request.url.scheme == "https",
        httponly=True,
        samesite="strict",
    )
    return response


def read_notification(request: Request) -> Notification:
    """Return the notification for this page; any other content of the cookie is ignored."""
    text = request.cookies.get(COOKIE, "")
    try:
        kept = json.loads(base64.urlsafe_b64decode(text.encode() + b"=" * (-len(text) % 4)))
        address, done, warnings = (str(kept["address"]), str(kept["done"]), list(kept["warnings"]))
    except (ValueError, TypeError, KeyError, binascii.Error, RecursionError):
        return Notification()
    if done not in NOTIFICATIONS or unquote(address) != request.url.path:
        return Notification()
    return Notification(NOTIFICATIONS[done], done in BAD_NEWS, [str(each) for each in warnings])


def forget_notification(response: Response) -> None:
    """Delete the notification's cookie."""
    response.delete_cookie(COOKIE, path=CONSOLE)


def _encode(address: str, done: str, warnings: Sequence[str]) -> str:
    kept = json.dumps({"address": address, "done": done, "warnings": warnings})
    return base64.urlsafe_b64encode(kept.encode()).decode().rstrip("=")
