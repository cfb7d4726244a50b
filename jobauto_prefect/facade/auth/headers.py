"""The Authorization header, and which strings can be logins."""

import base64
import unicodedata

from starlette.datastructures import Headers

from jobauto_prefect.errors import Unauthorized


def parse_authorization(headers: Headers) -> tuple[str, str]:
    """Return the scheme in lower case and the credentials; both are empty without a header.

    Raises:
        Unauthorized: there are several headers: a good Basic one must not stand in for a bad
            token.
    """
    given = headers.getlist("authorization")
    if len(given) > 1:
        raise Unauthorized("send one Authorization header")
    scheme, _, credentials = "".join(given).partition(" ")
    return scheme.lower(), credentials.strip()


def decode_basic(credentials: str) -> tuple[str, str]:
    """Return login and password of a Basic header; a password may contain colons.

    It is read as UTF-8, else as Latin-1, which Prefect's pages and older clients send.

    Raises:
        Unauthorized: it is not such a header.
    """
    try:
        given = base64.b64decode(credentials, validate=True)
    except ValueError:
        given = b""
    try:
        text = given.decode()
    except UnicodeDecodeError:
        text = given.decode("latin-1")
    login, colon, password = text.partition(":")
    if not colon:
        raise Unauthorized("the Basic credentials can't be read; send base64 of login:password")
    return login, password


def is_possible_login(text: str) -> bool:
    """Whether a user may have this login, and a query may contain it."""
    odd = (unicodedata.category(character) in ("Cc", "Cs") for character in text)
    return 0 < len(text) <= 250 and not any(odd)
