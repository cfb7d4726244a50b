"""What a page says after a form was sent: addresses name one of these as `?done=`.

Warnings of the contract go along in a cookie that the next page takes away: an address would say
whatever somebody writes into it.
"""

import base64
import binascii
import json
from collections.abc import Mapping, Sequence

from fastapi import Request, Response

from jobauto_prefect.console_addresses import CONSOLE

COOKIE = "jobauto_warnings"
KEPT_FOR = 60  # seconds
MOST_WARNED = 3500  # characters; cookies of 4 KB are all that browsers promise

NOTIFICATIONS: Mapping[str, str] = {
    "lost": "It is lost; its jobs are tried again.",
    "paused": "Paused: nothing starts until it is resumed.",
    "reachable": "It answers.",
    "replayed": "It is tried again.",
    "resumed": "Resumed.",
    "revoked": "It counts no more.",
    "saved": "Saved.",
    "started": "The job is on its way.",
    "cancelled": "The job is being cancelled.",
    "excused": "The window is excused.",
    "retried": "One more attempt is on its way.",
}
"""By their key; English, as the catalogs of translations have them."""


def keep_warnings(request: Request, response: Response, warnings: Sequence[str]) -> None:
    """Let the next page show these, as far as there is room."""
    kept = list(warnings)
    while len(_encode(kept)) > MOST_WARNED:
        kept.pop()
    if kept:
        response.set_cookie(
            COOKIE,
            _encode(kept),
            max_age=KEPT_FOR,
            path=CONSOLE,
            secure=request.url.scheme == "https",
            httponly=True,
            samesite="strict",
        )


def read_warnings(request: Request) -> list[str]:
    """Return what the page before has kept; what a cookie has otherwise is none."""
    text = request.cookies.get(COOKIE, "")
    try:
        warnings = json.loads(base64.urlsafe_b64decode(text.encode() + b"=" * (-len(text) % 4)))
    except (ValueError, binascii.Error, RecursionError):
        return []
    return [str(warning) for warning in warnings] if isinstance(warnings, list) else []


def forget_warnings(request: Request, response: Response) -> None:
    """Take away what was shown."""
    if COOKIE in request.cookies:
        response.delete_cookie(COOKIE, path=CONSOLE)


def _encode(warnings: Sequence[str]) -> str:
    return base64.urlsafe_b64encode(json.dumps(warnings).encode()).decode().rstrip("=")
