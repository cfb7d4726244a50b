"""Values and forms of text of definitions, read a second time from the format's words.

A reader yields the JSON pointers at which a value breaks its rule: of the object where a member is
missing, is not allowed or has a bad name, else of the value.
"""

import ipaddress
import string
from collections.abc import Callable, Iterator
from typing import Any

Pointers = Iterator[str]
Reader = Callable[[str, Any], Pointers]

CODES = (
    "en cs sk de fr es it pl nl pt sv fi da no hu ro bg el tr hr sl et lt lv ru uk ja zh ko ar he"
    " hi"
)
LANGUAGES = set(CODES.split())
DIGITS = set(string.digits)
LOWER = set(string.ascii_lowercase)
UPPER = set(string.ascii_uppercase)
LETTERS = LOWER | UPPER
WORD = LETTERS | DIGITS | {"_"}


def only(text: str, characters: set[str]) -> bool:
    """Whether a text has these characters and no others, and one at least."""
    return text != "" and set(text) <= characters


def at(pointer: str, key: str) -> str:
    """The pointer of a member."""
    return pointer + "/" + key.replace("~", "~0").replace("/", "~1")


def kind(test: Callable[[Any], bool]) -> Reader:
    """A value that passes a test."""

    def read(pointer: str, value: Any) -> Pointers:
        if not test(value):
            yield pointer

    return read


def is_whole(value: Any) -> bool:
    """Whether it is a whole number as JSON has them: 1.0 is one."""
    if isinstance(value, bool):
        return False
    return isinstance(value, int) or (isinstance(value, float) and value == int(value))


def anything(_pointer: str, _value: Any) -> Pointers:
    """Any value at all."""
    return iter(())


text = kind(lambda value: isinstance(value, str))
json_path = kind(
    # All that is made up here: the grammar is the library's, and tested with what uses it.
    lambda value: isinstance(value, str) and value[:2] == "$." and only(value[2:], WORD)
)
boolean = kind(lambda value: isinstance(value, bool))
object_or_array = kind(lambda value: isinstance(value, dict | list))
scalar = kind(lambda value: isinstance(value, str | bool | int | float))


def form(test: Callable[[str], bool]) -> Reader:
    """A text that passes a test."""
    return kind(lambda value: isinstance(value, str) and test(value))


def one_of(*words: str) -> Reader:
    """One of these texts."""
    return kind(lambda value: isinstance(value, str) and value in words)


def array(item: Reader, least: int = 0) -> Reader:
    """An array of such items."""

    def read(pointer: str, value: Any) -> Pointers:
        if not isinstance(value, list) or len(value) < least:
            yield pointer
            return
        for index, member in enumerate(value):
            yield from item(f"{pointer}/{index}", member)

    return read


def localized(pointer: str, value: Any) -> Pointers:
    """A text, or a text for each of some languages."""
    if isinstance(value, str):
        return
    if not isinstance(value, dict) or not value:
        yield pointer
        return
    for language, words in value.items():
        if language not in LANGUAGES:
            yield pointer
        elif not isinstance(words, str):
            yield at(pointer, language)


def obj(members: dict[str, Reader], *required: str, closed: bool = False) -> Reader:
    """An object with these members; a closed one has no others."""

    def read(pointer: str, value: Any) -> Pointers:
        if not isinstance(value, dict):
            yield pointer
            return
        if any(name not in value for name in required):
            yield pointer
        for name, member in value.items():
            if name in members:
                yield from members[name](at(pointer, name), member)
            elif closed:
                yield pointer

    return read


def keyed(key_fits: Callable[[str], bool], entry: Reader) -> Reader:
    """An object of such entries under keys that fit."""

    def read(pointer: str, value: Any) -> Pointers:
        if not isinstance(value, dict):
            yield pointer
            return
        for key, member in value.items():
            if not key_fits(key):
                yield pointer
            yield from entry(at(pointer, key), member)

    return read


def is_uri(value: str) -> bool:
    """Whether it is a URI by RFC 3986."""
    scheme, colon, rest = value.partition(":")
    if not colon or not only(scheme, LETTERS | DIGITS | set("+-.")) or scheme[0] not in LETTERS:
        return False
    rest, _, fragment = rest.partition("#")
    rest, _, query = rest.partition("?")
    authority, path = "", rest
    if rest.startswith("//"):
        authority, slash, path = rest[2:].partition("/")
        path = slash + path
    tails_fit = all(spelled(part, ":@/?") for part in (query, fragment))
    return spelled(path, ":@/") and tails_fit and is_authority(authority)


def spelled(value: str, extra: str) -> bool:
    """Unreserved characters, delimiters, those extra, and percent signs with two hex digits."""
    allowed = LETTERS | DIGITS | set("-._~!$&'()*+,;=") | set(extra)
    pieces = value.split("%")
    first, encoded = pieces[0], pieces[1:]
    return set(first) <= allowed and all(
        len(piece) >= 2 and set(piece[:2]) <= set(string.hexdigits) and set(piece[2:]) <= allowed
        for piece in encoded
    )


def is_authority(value: str) -> bool:
    """Whether it is a host, with a user before it and a port after it where there are such."""
    user, sign, host = value.rpartition("@")
    if sign and not spelled(user, ":"):
        return False
    if host.startswith("["):
        address, bracket, port = host[1:].partition("]")
        if not bracket or not (port == "" or port[0] == ":") or not set(port[1:]) <= DIGITS:
            return False
        return is_address(address)
    name, _, port = host.partition(":")
    return spelled(name, "") and set(port) <= DIGITS


def is_address(value: str) -> bool:
    """Whether it may stand in brackets as a host."""
    if value[:1] in ("v", "V"):
        number, dot, rest = value[1:].partition(".")
        fits = only(number, set(string.hexdigits)) and rest != "" and "%" not in rest
        return bool(dot) and fits and spelled(rest, ":")
    try:
        ipaddress.IPv6Address(value)
    except ValueError:
        return False
    return "%" not in value


def is_uuid(value: str) -> bool:
    """Whether it is a UUID, in either case."""
    groups = value.split("-")
    return [len(group) for group in groups] == [8, 4, 4, 4, 12] and all(
        only(group, set(string.hexdigits)) for group in groups
    )


def is_version(value: str) -> bool:
    """Whether it is one to four numbers with dots between them, without leading zeros."""
    parts = value.split(".")
    return len(parts) <= 4 and all(
        only(part, DIGITS) and (part == "0" or part[0] != "0") for part in parts
    )


def is_image(value: str) -> bool:
    """Whether it is the name of an image, with a tag where there is one."""

    def named(name: str) -> bool:
        return only(name, WORD | set("./:-"))

    name, colon, tag = value.rpartition(":")
    return named(value) or (bool(colon) and named(name) and only(tag, WORD | set(".-")))


def is_label(value: str) -> bool:
    """Whether it is a label of DNS."""
    ends = LOWER | DIGITS
    return only(value, ends | {"-"}) and value[0] in ends and value[-1] in ends and len(value) <= 63


def is_chart(value: str) -> bool:
    """Whether it is a chart of a registry, of a repository or of a folder, and only one of them."""
    reference = value.startswith("oci://") and only(value[6:], WORD | set(".:/@+-"))
    names = value.split("/")
    pair = len(names) == 2 and all(
        only(name, WORD | set(".-")) and name[0] in WORD for name in names
    )
    path = value.startswith(("./", "../", "/")) and all(
        ord(character) >= 32 and ord(character) != 127 for character in value
    )
    return [reference, pair, path].count(True) == 1
