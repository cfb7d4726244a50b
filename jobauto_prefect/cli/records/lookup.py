"""Finds the records that people name on the command line."""

import contextlib
import json
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from jobauto_prefect.errors import Conflict, Fault, InvalidInput, NotFound
from jobauto_prefect.kinds import FILE_KINDS, KINDS

if TYPE_CHECKING:
    from jobauto_prefect.cli.connection.client import Client
    from jobauto_prefect.facade.apply.record_index import RecordIndex

Record = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class NamedDefinition:
    """A definition, and its title in a comparison."""

    title: str
    document: Any = field(repr=False)


async def find_application(client: "Client", word: str) -> Record:
    """Find the application with this id, UUID, or name in any language.

    Raises:
        NotFound: no such application exists.
        Conflict: several have the name; the message lists their ids.
    """
    record = await find_named(client, "app", word)
    if record is not None:
        return record
    # Only the whole list has the titles in every language.
    apps = await client.list("apps")
    matching = [app for app in apps.values() if word in _names(app)]
    if not matching:
        names = [name for app in apps.values() for name in _names(app)]
        raise NotFound(_not_found_message("application", word, names, "app"))
    if len(matching) > 1:
        ids = ", ".join(str(app["id"]) for app in matching)
        raise Conflict(f"several applications are named {word!r}; use one of the ids {ids}")
    return matching[0]


def is_number(word: str) -> bool:
    """Whether a word is a record's number; digits of other scripts make a name."""
    return re.fullmatch("[0-9]{1,19}", word) is not None


async def find_id(client: "Client", kind: str, word: str) -> int:
    """Find the id of a record by its number, or by its name as in files.

    Raises:
        NotFound: no record has that name.
        Conflict: several applications have the name.
    """
    if kind in FINDERS:
        return await FINDERS[kind](client, word)
    if is_number(word):
        return int(word)
    record = await find_named(client, kind, word) if KINDS[kind].named else None
    return await _find_by_title(client, kind, word) if record is None else int(record["id"])


async def _find_user(client: "Client", word: str) -> int:
    # First by login, which may consist of digits.
    users = list(await client.get("/users.json", login=word))
    if users:
        return int(users[0])
    if not is_number(word):
        raise NotFound(f"there is no user {word!r}; see: jobauto user list")
    return int(word)


async def _find_app(client: "Client", word: str) -> int:
    # By name in any language; a word of digits is always an id.
    return int(word) if is_number(word) else int((await find_application(client, word))["id"])


FINDERS: Mapping[str, Callable[["Client", str], Awaitable[int]]] = {
    "app": _find_app,
    "user": _find_user,
}
"""Finders of kinds with more names than the facade accepts in a path."""


def path_of(kind: str, word: str) -> str:
    """Return the path of a record by its number or name."""
    return f"/{kind}/{quote(word, safe='')}"


async def find_named(
    client: "Client", kind: str, word: str, company: str | None = None
) -> Record | None:
    """Find the record that the facade knows by a name, a company's own first, or return None."""
    for meant in (*([f"{company}/{word}"] if company else ()), word):
        with contextlib.suppress(NotFound):
            record: Record = await client.get(f"{path_of(kind, meant)}.json")
            return record
    return None


async def find_job_id(client: "Client", word: str) -> int:
    """Find a job by its number, or as the newest one of a run template (COMPANY/NAME).

    Raises:
        NotFound: the run template does not exist, or has no job yet.
    """
    if is_number(word):
        return int(word)
    template = await find_id(client, "runtemplate", word)
    newest = await client.newest("jobs", 1, runtemplate_id=template)
    if not newest:
        raise NotFound(f"{word} has no job yet; start one: jobauto run {word}")
    return int(next(iter(newest)))


async def _find_by_title(client: "Client", kind: str, word: str) -> int:
    index = await fetch_record_index(client, kind)
    number = index.find_by_word(kind, word)
    if number is None:
        raise NotFound(
            _not_found_message(
                KINDS[kind].noun, word, list(index.titles(kind)), KINDS[kind].command
            )
        )
    return number


def _not_found_message(noun: str, word: str, names: Sequence[str], group: str) -> str:
    from jobauto_prefect.definitions.findings import did_you_mean

    return (
        f"there is no {noun} {word!r}{did_you_mean(word, names) or ';'} see: jobauto {group} list"
    )


def _names(app: Record) -> Iterator[str]:
    for member in ("name", "title"):
        value = app.get(member, "")
        yield from value.values() if isinstance(value, Mapping) else (value,)


def is_file(word: str) -> bool:
    """Whether a word names a file rather than an application."""
    from jobauto_prefect.cli.files.reader import SUFFIXES

    return word == "-" or Path(word).suffix in SUFFIXES or Path(word).is_file()


def read_definition(word: str) -> NamedDefinition:
    """Read the definition in a file, valid or not.

    Raises:
        InvalidInput: it can't be read, or does not contain exactly one.
    """
    from jobauto_prefect.cli.files.reader import load_documents

    documents, faults = load_documents(Path(word))
    if not faults and len(documents) != 1:
        faults = [Fault("", "count", f"holds {len(documents)} records, not one", file=word)]
    if faults:
        raise InvalidInput(faults, f"{word} can't be compared")
    return NamedDefinition(word, documents[0].content)


async def fetch_definition(client: "Client", word: str) -> NamedDefinition:
    """Fetch the definition of an application, or a former one: `WORD@NUMBER`, `WORD@VERSION`.

    Raises:
        NotFound: the application or version does not exist.
    """
    try:
        app = await find_application(client, word)
    except NotFound:
        name, at, version = word.rpartition("@")
        if not at:
            raise
        return await _fetch_former(client, await find_application(client, name), version)
    source = await client.get_raw(f"/app/{app['id']}/definition.json")
    return NamedDefinition(_title(app, "current"), json.loads(source.decode("utf-8-sig")))


async def _fetch_former(client: "Client", app: Record, version: str) -> NamedDefinition:
    """Fetch a former definition.

    The number takes precedence: it is unique, while a version may have been imported again.
    """
    former = await client.get(f"/app/{app['id']}/versions.json")
    of_version = [
        number for number, definition in former.items() if definition["version"] == version
    ]
    for number in (
        *[definition for definition in former if definition == version],
        *reversed(of_version),
    ):
        return NamedDefinition(_title(app, f"@{number}"), former[number]["definition"])
    if version == app.get("version"):
        return await fetch_definition(client, str(app["id"]))
    raise NotFound(
        f"application {app['id']} had no definition {version!r}; "
        f"see: jobauto app versions {app['id']}"
    )


def _title(app: Record, which: str) -> str:
    return f"application {app['id']} {which}"


async def fetch_record_index(client: "Client", *kinds: str) -> "RecordIndex":
    """Fetch the records of these kinds and those they refer to; without kinds, all."""
    from jobauto_prefect.facade.apply.record_index import RecordIndex, with_references

    wanted = with_references(kinds or FILE_KINDS)
    return RecordIndex(
        {
            kind: await client.list(record_kind.collection)
            for kind, record_kind in FILE_KINDS.items()
            if kind in wanted
        },
        (await client.get("/status"))["extra_env"] if "runtemplate" in wanted else (),
    )
