"""How large a body may be, by what its request says of it, and what it is once it is unpacked."""

import re
import zlib

from starlette.datastructures import Headers
from starlette.types import Message, Receive

from jobauto_prefect.errors import Fault, InvalidInput, TooLarge, UnknownEncoding
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


GZIP = zlib.MAX_WBITS | 16


def unpacked(receive: Receive, headers: Headers, limit: int) -> Receive:
    """Return what receives the body as it was before its Content-Encoding.

    Receiving raises TooLarge for more than `limit` bytes, InvalidInput for a broken body.

    Raises:
        UnknownEncoding: the body is packed in another way than by gzip.
    """
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
