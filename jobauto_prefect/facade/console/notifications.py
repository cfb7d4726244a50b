"""What a page says after a form was sent: a cookie names it, and the page takes it away.

The cookie counts for one page, so that no address says what was not done. Warnings of the contract
go along.
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
MOST_WARNED = 3000  # characters; cookies of 4 KB are all that browsers promise

NOTIFICATIONS: Mapping[str, str] = {
    "lost": "The worker was declared lost; its jobs are tried again.",
    "member_removed": "The membership was ended.",
    "member_saved": "The membership was saved.",
    "paused": "The run template was paused: nothing starts until it is resumed.",
    "reachable": "The connection works.",
    "unreachable": "The connection does not work.",
    "replayed": "What failed was started again.",
    "resumed": "The run template was resumed.",
    "revoked": "The token was revoked.",
    "saved": "Saved.",
    "started": "The job was created.",
    "cancelled": "The job was asked to end.",
    "excused": "The window was excused.",
    "retried": "This job was created to try again.",
}
"""By their key; English, as the catalogs of translations have them."""

BAD_NEWS = frozenset({"unreachable"})


@dataclass(frozen=True, slots=True)
class Notification:
    """What was done, and what the contract warned of."""

    text: str = ""
    is_bad: bool = False
    warnings: Sequence[str] = ()


def redirect_after(
    request: Request, address: str, done: str, warnings: Sequence[str] = ()
) -> Response:
    """Lead to a page that says what was done, with these warnings as far as there is room."""
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
    """Return what the page before left for this one; what a cookie has otherwise is nothing."""
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
    """Take away what was shown."""
    response.delete_cookie(COOKIE, path=CONSOLE)


def _encode(address: str, done: str, warnings: Sequence[str]) -> str:
    kept = json.dumps({"address": address, "done": done, "warnings": warnings})
    return base64.urlsafe_b64encode(kept.encode()).decode().rstrip("=")
