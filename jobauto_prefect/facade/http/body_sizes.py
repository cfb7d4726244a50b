"""How large a body may be, by what its request says of it."""

import re

from starlette.datastructures import Headers

from jobauto_prefect.errors import Fault, InvalidInput, TooLarge
from jobauto_prefect.facade.http.addresses import CONTRACT
from jobauto_prefect.settings import Settings

INTERNAL = "/internal/"
"""Where workers send artifacts, which may be larger than other bodies."""

FILES = re.compile(rf"{CONTRACT}/apply(\.[^/]+)?")
"""Where files are applied: all of them are one body."""


def body_limit(path: str, settings: Settings) -> int:
    """Return how many bytes the body of a request to this path may have."""
    if FILES.fullmatch(path):
        return settings.apply_limit_bytes
    limit = settings.body_limit_bytes
    return max(limit, settings.artifact_limit_bytes) if path.startswith(INTERNAL) else limit


def refuse_too_large(headers: Headers, limit: int) -> None:
    """Refuse a body before it comes; who reads one counts what really comes.

    Raises:
        TooLarge: it says that it has more than `limit` bytes.
        InvalidInput: it says no number.
    """
    length = headers.get("content-length", "0")
    if not (length.isascii() and length.isdecimal()):
        raise InvalidInput([Fault("", "length", "Content-Length must be a number")])
    if len(length) > 18 or int(length) > limit:
        raise TooLarge(limit)
