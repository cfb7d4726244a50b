"""A second reading of the format, written from its text and not from the schema.

`faults` yields the JSON pointers at which a document breaks a rule: of the object where a member
is missing, is not allowed or has a bad name, else of the value.
"""

import ipaddress
import string
from collections.abc import Callable, Iterator
from typing import Any

Found = Iterator[str]
Reader = Callable[[str, Any], Found]

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
    return text != "" and set(text) <= characters


def at(pointer: str, key: str) -> str:
    return pointer + "/" + key.replace("~", "~0").replace("/", "~1")


# Values ---------------------------------------------------------------------------------------


def kind(test: Callable[[Any], bool]) -> Reader:
    def read(pointer: str, value: Any) -> Found:
        if not test(value):
            yield pointer

    return read


def is_whole(value: Any) -> bool:
    if isinstance(value, bool):
        return False
    return isinstance(value, int) or (isinstance(value, float) and value == int(value))


def anything(_pointer: str, _value: Any) -> Found:
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
    return kind(lambda value: isinstance(value, str) and test(value))


def one_of(*words: str) -> Reader:
    return kind(lambda value: isinstance(value, str) and value in words)


def array(item: Reader, least: int = 0) -> Reader:
    def read(pointer: str, value: Any) -> Found:
        if not isinstance(value, list) or len(value) < least:
            yield pointer
            return
        for index, each in enumerate(value):
            yield from item(f"{pointer}/{index}", each)

    return read


def localized(pointer: str, value: Any) -> Found:
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
    def read(pointer: str, value: Any) -> Found:
        if not isinstance(value, dict):
            yield pointer
            return
        if any(name not in value for name in required):
            yield pointer
        for name, each in value.items():
            if name in members:
                yield from members[name](at(pointer, name), each)
            elif closed:
                yield pointer

    return read


def keyed(key_fits: Callable[[str], bool], entry: Reader) -> Reader:
    def read(pointer: str, value: Any) -> Found:
        if not isinstance(value, dict):
            yield pointer
            return
        for key, each in value.items():
            if not key_fits(key):
                yield pointer
            yield from entry(at(pointer, key), each)

    return read


# Forms of text --------------------------------------------------------------------------------


def is_uri(value: str) -> bool:
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
    groups = value.split("-")
    return [len(group) for group in groups] == [8, 4, 4, 4, 12] and all(
        only(group, set(string.hexdigits)) for group in groups
    )


def is_version(value: str) -> bool:
    parts = value.split(".")
    return len(parts) <= 4 and all(
        only(part, DIGITS) and (part == "0" or part[0] != "0") for part in parts
    )


def is_image(value: str) -> bool:
    def named(name: str) -> bool:
        return only(name, WORD | set("./:-"))

    name, colon, tag = value.rpartition(":")
    return named(value) or (bool(colon) and named(name) and only(tag, WORD | set(".-")))


def is_label(value: str) -> bool:
    ends = LOWER | DIGITS
    return only(value, ends | {"-"}) and value[0] in ends and value[-1] in ends and len(value) <= 63


def is_chart(value: str) -> bool:
    reference = value.startswith("oci://") and only(value[6:], WORD | set(".:/@+-"))
    names = value.split("/")
    pair = len(names) == 2 and all(
        only(name, WORD | set(".-")) and name[0] in WORD for name in names
    )
    path = value.startswith(("./", "../", "/")) and all(
        ord(character) >= 32 and ord(character) != 127 for character in value
    )
    return [reference, pair, path].count(True) == 1


# Sections -------------------------------------------------------------------------------------


def is_name(key: str) -> bool:
    return only(key, WORD | {"-"})


def is_event(key: str) -> bool:
    return only(key, WORD | set(".-"))


FORMATS = one_of("file", "json", "text", "url", "custom")
SCALARS = one_of("string", "integer", "float", "boolean")

VARIABLE = obj(
    {
        "type": one_of(
            "string",
            "file-path",
            "email",
            "url",
            "integer",
            "float",
            "bool",
            "password",
            "set",
            "text",
        ),
        "category": one_of("API", "Database", "Behavior", "Security", "Other"),
        "description": localized,
        "hint": localized,
        "defval": anything,
        "required": boolean,
        "options": object_or_array,
    }
)
ARTIFACT = obj(
    {"name": localized, "path": text, "type": text, "description": localized},
    "name",
    "path",
    "type",
    closed=True,
)
OUTPUT = obj(
    {
        "description": localized,
        "patterns": array(text),
        "format": FORMATS,
        "fields": keyed(
            is_name, obj({"type": SCALARS, "description": localized, "path": json_path}, "type")
        ),
    },
    "format",
)
INPUT = obj(
    {
        "description": localized,
        "required": boolean,
        "format": FORMATS,
        "target": text,
        "fields": keyed(is_name, obj({"target": text, "format": SCALARS}, "target")),
    },
    "format",
)
EMITTED = obj(
    {
        "description": localized,
        "evidence": text,
        "operation": one_of("create", "update", "delete", "any"),
    }
)
CONSUMED = obj({"description": localized, "format": FORMATS})
EXIT_CODE = obj(
    {
        "description": localized,
        "severity": one_of("success", "info", "warning", "error", "critical"),
        "retry": boolean,
    },
    "description",
    closed=True,
)
HELM_MEMBERS = obj(
    {
        "enabled": boolean,
        "releaseName": form(is_label),
        "namespace": form(is_label),
        "chart": form(is_chart),
        "valuesFiles": array(text, least=1),
        "set": keyed(lambda _: True, scalar),
        "upgradeInstall": boolean,
        "timeoutSeconds": kind(lambda value: is_whole(value) and 1 <= value <= 3600),
        "atomic": boolean,
        "wait": boolean,
    },
    closed=True,
)


def helm(pointer: str, value: Any) -> Found:
    yield from HELM_MEMBERS(pointer, value)
    enabled = isinstance(value, dict) and value.get("enabled") is True
    if enabled and not {"chart", "releaseName"} <= value.keys():
        yield pointer


KUBERNETES = obj(
    {
        "helm": helm,
        "artifacts": obj(
            {"enabled": boolean, "outputPath": text, "keepPodOnFailure": boolean}, closed=True
        ),
    },
    "helm",
    closed=True,
)
DOCUMENT = obj(
    {
        "$schema": form(is_uri),
        "image": text,
        "title": localized,
        "name": localized,
        "description": localized,
        "author": text,
        "license": text,
        "category": text,
        "tags": array(text),
        "homepage": form(is_uri),
        "uuid": form(is_uuid),
        "version": form(is_version),
        "schemaVersion": text,
        "ociimage": form(is_image),
        "executable": text,
        "cmdparamsTemplate": text,
        "environment": keyed(lambda key: only(key, UPPER | DIGITS | {"_"}), VARIABLE),
        "artifacts": array(ARTIFACT),
        "produces": keyed(is_name, OUTPUT),
        "consumes": keyed(is_name, INPUT),
        "events": obj(
            {"emits": keyed(is_event, EMITTED), "consumes": keyed(is_event, CONSUMED)}, closed=True
        ),
        "exitCodes": keyed(lambda key: only(key, DIGITS), EXIT_CODE),
        "kubernetes": KUBERNETES,
        "requirements": array(text),
    },
    "$schema",
    "name",
    "description",
    "executable",
    "environment",
)


def faults(document: Any) -> set[str]:
    """Where a document breaks a rule."""
    return set(DOCUMENT("", document))
