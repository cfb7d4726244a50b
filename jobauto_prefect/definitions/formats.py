"""The formats the schema asserts: `uri` (RFC 3986, absolute) and `uuid` (RFC 4122)."""

import ipaddress
import re

_UNRESERVED = r"A-Za-z0-9._~\-"
_DELIMS = r"!$&'()*+,;="
_ENCODED = r"%[0-9A-Fa-f]{2}"
_PCHAR = rf"(?:[{_UNRESERVED}{_DELIMS}:@]|{_ENCODED})"
_AUTHORITY = (
    rf"(?:(?:[{_UNRESERVED}{_DELIMS}:]|{_ENCODED})*@)?"
    rf"(?:\[(?P<literal>[^\[\]]*)\]|(?:[{_UNRESERVED}{_DELIMS}]|{_ENCODED})*)"
    r"(?::[0-9]*)?"
)
_SEGMENTS = rf"(?:/{_PCHAR}*)*"
_URI = re.compile(
    r"[A-Za-z][A-Za-z0-9+.\-]*:"
    rf"(?://{_AUTHORITY}{_SEGMENTS}|/(?:{_PCHAR}+{_SEGMENTS})?|{_PCHAR}+{_SEGMENTS}|)"
    rf"(?:\?(?:{_PCHAR}|[/?])*)?"
    rf"(?:#(?:{_PCHAR}|[/?])*)?"
)
_FUTURE_ADDRESS = re.compile(rf"[vV][0-9A-Fa-f]+\.[{_UNRESERVED}{_DELIMS}:]+")
_UUID = re.compile(r"[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}")


def is_uri(text: str) -> bool:
    """Whether a text is a URI with a scheme; ASCII only, as RFC 3986 requires."""
    match = _URI.fullmatch(text)
    if match is None:
        return False
    literal = match["literal"]
    return literal is None or _is_address(literal)


def is_uuid(text: str) -> bool:
    """Whether a text is a UUID in the canonical form with hyphens; `uuid.UUID` accepts more."""
    return _UUID.fullmatch(text) is not None


def _is_address(literal: str) -> bool:
    if _FUTURE_ADDRESS.fullmatch(literal):
        return True
    try:
        ipaddress.IPv6Address(literal)
    except ValueError:
        return False
    return "%" not in literal  # a zone is not part of a URI
