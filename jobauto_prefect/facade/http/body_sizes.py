"""Limits of body sizes, as declared by the request and after decompression."""

import re
import zlib

from starlette.datastructures import Headers
from starlette.types import Message, Receive

from jobauto_prefect.console_addresses import CONTRACT
from jobauto_prefect.errors import Fault, InvalidInput, TooLarge, UnknownEncoding
from jobauto_prefect.settings import Settings

INTERNAL = "/internal/"
"""Where workers send output, reports and artifacts."""

INTERNAL_BYTES = 8 * 1024 * 1024
"""A worker's batch of output may have this many, whatever the limit of other bodies."""

SIGN_IN_BYTES = 8 * 1024
"""For a login and a password: anybody may send them."""

FORM_BYTES = 256 * 1024
"""For the sign-in page: it may carry a form that outlived its session (`sign_in_page.MAX_KEPT`)."""

ARTIFACTS = re.compile(rf"{INTERNAL}v1/jobs/[^/]+/artifacts")
FILES = re.compile(rf"{CONTRACT}/apply(\.[^/]+)?")
SIGNING_IN = re.compile(rf"{CONTRACT}/(ping|login)(\.[^/]+)?")
SIGN_IN_PAGE = "/login.html"


def body_limit(path: str, settings: Settings) -> int:
    """Return the maximum bytes of a body for this path."""
    if SIGNING_IN.fullmatch(path):
        return SIGN_IN_BYTES
    if path == SIGN_IN_PAGE:
        return FORM_BYTES
    if FILES.fullmatch(path):
        return settings.apply_limit_bytes
    if ARTIFACTS.fullmatch(path):
        return settings.artifact_limit_bytes
    limit = settings.body_limit_bytes
    return max(limit, INTERNAL_BYTES) if path.startswith(INTERNAL) else limit


def refuse_too_large(headers: Headers, limit: int) -> None:
    """Refuse a body by its declared length; `bounded` counts what is received.

    Raises:
        TooLarge: it declares more than `limit` bytes.
        InvalidInput: the declared length is not a number.
    """
    length = headers.get("content-length", "0")
    if not (length.isascii() and length.isdecimal()):
        raise InvalidInput([Fault("", "length", "Content-Length must be a number")])
    if len(length) > 18 or int(length) > limit:
        raise TooLarge(limit)


def bounded(receive: Receive, limit: int) -> Receive:
    """Return what receives a body of at most `limit` bytes; receiving more raises TooLarge."""
    size = 0

    async def receive_bounded() -> Message:
        nonlocal size
        message = await receive()
        size += len(message.get("body", b""))
        if size > limit:
            raise TooLarge(limit)
        return message

    return receive_bounded


async def received(receive: Receive) -> Receive:
    """Wait for the whole body; return a `receive` for it and what follows.

    Receiving raises as `receive` does.
    """
    messages: list[Message] = []
    while not messages or messages[-1].get("more_body"):
        messages.append(await receive())
    kept = iter(messages)

    async def receive_kept() -> Message:
        for message in kept:
            return message
        return await receive()

    return receive_kept


GZIP = zlib.MAX_WBITS | 16


def unpacked(receive: Receive, headers: Headers, limit: int) -> Receive:
    """Return a `receive` for the body decoded from its Content-Encoding.

    Receiving raises TooLarge for more than `limit` bytes, InvalidInput for a broken body.

    Raises:
        UnknownEncoding: the encoding is not gzip.
    """
    receive = bounded(receive, limit)
    encoding = ", ".join(headers.getlist("content-encoding")).strip().lower()
    if encoding in ("", "identity"):
        return receive
    if encoding not in ("gzip", "x-gzip"):
        raise UnknownEncoding
    size, unpacking = 0, zlib.decompressobj(GZIP)

    async def receive_unpacked() -> Message:
        nonlocal size, unpacking
        message = await receive()
        if message["type"] != "http.request":
            return message
        packed, content = message.get("body", b""), bytearray()
        try:
            while packed:
                if unpacking.eof:  # a body may have several parts
                    unpacking = zlib.decompressobj(GZIP)
                content += unpacking.decompress(packed, limit + 1 - size - len(content))
                if size + len(content) > limit:
                    raise TooLarge(limit)
                packed = unpacking.unused_data
        except zlib.error:
            raise InvalidInput([Fault("", "gzip", "the body is not packed by gzip")]) from None
        size += len(content)
        if not message.get("more_body") and size and not unpacking.eof:
            raise InvalidInput([Fault("", "gzip", "the end of the packed body is missing")])
        return {**message, "body": bytes(content)}

    return receive_unpacked
