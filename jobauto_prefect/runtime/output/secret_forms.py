"""The forms in which programs print a secret value; `docs/security.md` lists them."""

import base64
import html
import json
import re
from collections.abc import Callable, Iterable, Iterator
from urllib.parse import quote, quote_plus

SHORTEST = 4  # shorter values would mask ordinary text
SHORTEST_LINE = 8  # of a multi-line secret
LINE_BREAKS = re.compile(r"[\r\n]+")


def is_too_short(secret: str) -> bool:
    """Whether a value is too short to search for: below `SHORTEST`, without its line breaks."""
    return len(LINE_BREAKS.sub("", secret)) < SHORTEST


def forms_of(secrets: Iterable[str]) -> set[str]:
    """Return the stripped values, their long lines, and the forms of all these.

    A private key is often printed line by line, with a prefix on each.
    """
    plain = set()
    for secret in secrets:
        bare = secret.strip()
        plain.add(secret if is_too_short(bare) else bare)
        if "\n" in bare:
            lines = (line.strip() for line in bare.splitlines())
            plain.update(line for line in lines if len(line) >= SHORTEST_LINE)
    values = {secret for secret in plain if not is_too_short(secret)}
    encoded = {form for secret in values for encode in ENCODINGS for form in encode(secret)}
    return values | {form for form in encoded if not is_too_short(form)}


def _in_base64(secret: str) -> Iterator[str]:
    """Yield base64 forms inside a longer text, such as a Basic header, for each position in it."""
    encodable = _bytes(secret)
    for before in range(3):
        digits = base64.b64encode(bytes(before) + encodable).decode().rstrip("=")
        whole = (before + len(encodable)) * 8 // 6
        # The first and the last digit may also depend on the surrounding bytes.
        inside = digits[(before * 8 + 5) // 6 : whole]
        yield inside
        yield inside.translate(_URL_SAFE)


_URL_SAFE = str.maketrans("+/", "-_")


def _in_hex(secret: str) -> Iterator[str]:
    digits = _bytes(secret).hex()
    yield digits
    yield digits.upper()


def _in_urls(secret: str) -> Iterator[str]:
    encodable = _bytes(secret)
    for encoded in (
        quote(encodable, safe=""), quote(encodable), quote(encodable, safe="!'()*"),
        quote_plus(encodable),
    ):  # fmt: skip
        yield encoded
        yield _PERCENT.sub(lambda match: match[0].lower(), encoded)


_PERCENT = re.compile("%[0-9A-F]{2}")


def _in_json(secret: str) -> Iterator[str]:
    for ascii_only in (True, False):
        escaped = json.dumps(secret, ensure_ascii=ascii_only)[1:-1]
        for text in (
            escaped,
            escaped.replace("/", r"\/"),  # PHP
            _MARKUP.sub(lambda match: f"\\u{ord(match[0]):04x}", escaped),  # Go
        ):
            yield text
            yield _UNICODE.sub(lambda match: rf"\u{match[1].upper()}", text)


_MARKUP = re.compile("[<>&]")
_UNICODE = re.compile(r"\\u([0-9a-f]{4})")


def _in_html(secret: str) -> Iterator[str]:
    """Yield it as text and as attribute: escapers differ in how they write quotation marks."""
    escaped = html.escape(secret, quote=False)
    for double, single in _HTML_QUOTES:
        yield escaped.replace('"', double).replace("'", single)


_HTML_QUOTES = (
    ('"', "'"), ("&quot;", "'"), ("&quot;", "&#x27;"), ("&quot;", "&#39;"), ("&quot;", "&#039;"),
    ("&quot;", "&apos;"), ("&#34;", "&#39;"),
)  # fmt: skip


def _in_shell(secret: str) -> Iterator[str]:
    """Yield it as bash's `printf %q` does, with backslashes or `$'…'`, and in single quotes."""
    yield _SHELL_SPECIAL.sub(r"\\\g<0>", secret)
    ansi = "".join(map(_in_ansi_quotes, secret))
    yield ansi
    yield "".join(  # in the C locale
        char if char.isascii() else "".join(rf"\{byte:03o}" for byte in _bytes(char))
        for char in ansi
    )
    yield secret.replace("'", r"'\''")
    yield secret.replace("'", """'"'"'""")


_SHELL_SPECIAL = re.compile(r"""[ !"$&'()*,;<>?\[\\\]^`{|}]|(?<=[=:])~""")
_ANSI_LETTERS = {
    "\a": r"\a", "\b": r"\b", "\t": r"\t", "\n": r"\n", "\v": r"\v", "\f": r"\f", "\r": r"\r",
    "\x1b": r"\E", "\\": r"\\", "'": r"\'",
}  # fmt: skip


def _in_ansi_quotes(char: str) -> str:
    unprintable = char < " " or char == "\x7f"
    return _ANSI_LETTERS.get(char) or (rf"\{ord(char):03o}" if unprintable else char)


ENCODINGS: tuple[Callable[[str], Iterator[str]], ...] = (
    _in_base64, _in_hex, _in_urls, _in_json, _in_html, _in_shell,
)  # fmt: skip


def _bytes(secret: str) -> bytes:
    return secret.encode(errors="surrogatepass")
