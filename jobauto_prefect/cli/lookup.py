"""Applications as people name them on the command line."""

import contextlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from jobauto_prefect.errors import Conflict, Fault, InvalidInput, NotFound

if TYPE_CHECKING:
    from jobauto_prefect.cli.client import Client

Record = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Named:
    """A definition and how it is called in a comparison."""

    title: str
    document: Any = field(repr=False)


async def application(client: "Client", word: str) -> Record:
    """The application with this id, UUID, or name in any language.

    Raises:
        NotFound: there is none.
        Conflict: several have the name; the message has their ids.
    """
    apps = await client.list("apps")
    found = [app for app in apps.values() if word.lower() in _exact(app)]
    found = found or [app for app in apps.values() if word in _names(app)]
    if not found:
        names = [name for app in apps.values() for name in _names(app)]
        raise NotFound(_there_is_no("application", word, names, "app"))
    if len(found) > 1:
        ids = ", ".join(str(app["id"]) for app in found)
        raise Conflict(f"several applications are called {word!r}; say one of the ids {ids}")
    return found[0]


ADDRESSED = ("company", "runtemplate", "credential", "eventsource")
"""Kinds whose names mean one record wherever they are said, so the facade may be asked at once."""


async def number_of(client: "Client", kind: str, word: str) -> int:
    """The id of the record that is named by it, or by its name as files refer to it.

    Raises:
        NotFound: there is none of that name.
        Conflict: several applications have the name.
    """
    if kind == "user":
        return await _user(client, word)
    if word.isdecimal():
        return int(word)
    if kind == "app":
        found: int = (await application(client, word))["id"]
        return found
    if kind in ADDRESSED:
        with contextlib.suppress(NotFound):
            record = await client.get(f"/{kind}/{quote(word, safe='')}.json")
            return int(record["id"])
    return await _called(client, kind, word)


async def job_number(client: "Client", word: str) -> int:
    """The number of a job; of a run template's (COMPANY/NAME) newest job.

    Raises:
        NotFound: there is no such run template, or it has no job yet.
    """
    if word.isdecimal():
        return int(word)
    template = await number_of(client, "runtemplate", word)
    newest = await client.newest("jobs", 1, runtemplate_id=template)
    if not newest:
        raise NotFound(f"{word} has no job yet; start one: jobauto run {word}")
    return int(next(iter(newest)))


async def _called(client: "Client", kind: str, word: str) -> int:
    from jobauto_prefect.cli.known import known_of
    from jobauto_prefect.facade.apply.kinds import GROUPS, NOUNS

    known = await known_of(client, kind)
    number = known.called(kind, word)
    if number is None:
        raise NotFound(_there_is_no(NOUNS[kind], word, list(known.titles(kind)), GROUPS[kind]))
    return number


def _there_is_no(noun: str, word: str, known: Sequence[str], group: str) -> str:
    from jobauto_prefect.definitions.messages import like

    return f"there is no {noun} {word!r}{like(word, known) or ';'} see: jobauto {group} list"


async def _user(client: "Client", word: str) -> int:
    """By login first: one may have digits only."""
    found = list(await client.get("/users.json", login=word))
    if found:
        return int(found[0])
    if not word.isdecimal():
        raise NotFound(f"there is no user {word!r}; see: jobauto user list")
    return int(word)


def _exact(app: Record) -> tuple[str, str]:
    return str(app["id"]), str(app.get("uuid", "")).lower()


def _names(app: Record) -> Iterator[str]:
    for member in ("name", "title"):
        value = app.get(member, "")
        yield from value.values() if isinstance(value, Mapping) else (value,)


def is_file(word: str) -> bool:
    """Whether a word names a file, not an application."""
    from jobauto_prefect.cli.files import SUFFIXES

    return word == "-" or Path(word).suffix in SUFFIXES or Path(word).is_file()


def from_file(word: str) -> Named:
    """The definition in a file, valid or not.

    Raises:
        InvalidInput: it can't be read, or holds not just one.
    """
    from jobauto_prefect.cli.files import read

    documents, faults = read(Path(word))
    if not faults and len(documents) != 1:
        faults = [Fault("", "count", f"holds {len(documents)} records, not one", file=word)]
    if faults:
        raise InvalidInput(faults, f"{word} can't be compared")
    return Named(word, documents[0].content)


async def definition(client: "Client", word: str) -> Named:
    """The definition of an application, or one it had before: `WORD@NUMBER`, `WORD@VERSION`.

    Raises:
        NotFound: there is no such application or version.
    """
    try:
        app = await application(client, word)
    except NotFound:
        name, at, version = word.rpartition("@")
        if not at:
            raise
        return await _former(client, await application(client, name), version)
    source = await client.get_raw(f"/app/{app['id']}/definition.json")
    return Named(_title(app, "current"), json.loads(source.decode("utf-8-sig")))


async def _former(client: "Client", app: Record, version: str) -> Named:
    """The number counts first: it is unique, and a version may have been imported again."""
    known = await client.get(f"/app/{app['id']}/versions.json")
    of_version = [number for number, one in known.items() if one["version"] == version]
    for number in (*[one for one in known if one == version], *reversed(of_version)):
        return Named(_title(app, f"@{number}"), known[number]["definition"])
    if version == app.get("version"):
        return await definition(client, str(app["id"]))
    raise NotFound(
        f"application {app['id']} had no definition {version!r}; "
        f"see: jobauto app versions {app['id']}"
    )


def _title(app: Record, which: str) -> str:
    return f"application {app['id']} {which}"
