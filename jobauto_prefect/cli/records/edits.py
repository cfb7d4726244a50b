"""`create`, `set` and `delete` of records: what a file with one record would do."""

import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import typer

from jobauto_prefect.cli.output.terminal import (
    print_grouped_hints,
    print_json,
    print_line,
    warning_messages,
)
from jobauto_prefect.cli.records.lookup import fetch_record_index, find_id
from jobauto_prefect.definitions.kinds import KINDS
from jobauto_prefect.definitions.validation.record_files import record_schema
from jobauto_prefect.errors import Conflict, InvalidInput, NotFound
from jobauto_prefect.facade.apply.record_kinds import FILES
from jobauto_prefect.wording import escape_controls, pluralize

if TYPE_CHECKING:
    from jobauto_prefect.cli.connection.client import Client
    from jobauto_prefect.facade.apply.record_index import RecordIndex

COMMAND_LINE = "command line"
SLACK_ADDRESS = "notices.slack.uri"
"""A secret that is no value; no name of a value has a dot."""


@dataclass(frozen=True, slots=True)
class Edit:
    """The fields of a record as files have them; `secrets` are the names of values to ask for."""

    members: Mapping[str, Any]
    secrets: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        kind: str,
        members: Iterable[str] | None,
        env: Iterable[str] | None,
        secrets: Iterable[str] | None,
        unset: Iterable[str] | None,
    ) -> "Edit":
        """Parse the words of a command line.

        Raises:
            BadParameter: one is not FIELD=VALUE, or there is no such field.
        """
        given = dict(_parse_member(kind, word) for word in members or ())
        values = dict(_parse_assignment(word, "--env") for word in env or ())
        values |= dict.fromkeys(unset or ())
        member = KINDS[kind].values
        if values and member is None:
            raise typer.BadParameter(f"a {KINDS[kind].noun} has no values", param_hint="--env")
        return cls(given | ({str(member): values} if values else {}), tuple(secrets or ()))


def _parse_assignment(word: str, hint: str) -> tuple[str, Any]:
    name, equals, value = word.partition("=")
    if not equals or not name:
        raise typer.BadParameter(f"{word!r} is not KEY=VALUE", param_hint=hint)
    return name, value


def _parse_member(kind: str, word: str) -> tuple[str, Any]:
    name, value = _parse_assignment(word, "FIELD=VALUE")
    properties = record_schema(kind)["properties"]
    if name not in properties or name in ("kind", "$schema"):
        keys = ", ".join(key for key in properties if key not in ("kind", "$schema"))
        message = f"a {KINDS[kind].noun} has no field {name!r}; there are {keys}"
        raise typer.BadParameter(message, param_hint="FIELD=VALUE")
    return name, _parse_value(properties[name], value)


def _parse_value(schema: Mapping[str, Any], value: str) -> Any:
    """Take text where the field takes text; else JSON, as far as it is JSON."""
    types = schema.get("type", "string" if "enum" in schema else ["string"])
    types = [types] if isinstance(types, str) else types
    if value == "null" or "string" not in types:
        try:
            return json.loads(value)
        except ValueError:
            return value  # the schema says what is wrong with it
    return value


def create_record(kind: str, name: str | None, edit: Edit, as_json: bool, url: str | None) -> None:
    """Create a record.

    Raises:
        Conflict: there is one of that name.
        InvalidInput: with everything that is wrong.
    """

    async def work(_client: "Client", index: "RecordIndex") -> tuple[int | None, dict[str, Any]]:
        named = _parse_name(kind, name) if name is not None else {}
        content = {"kind": kind, **named, **edit.members}
        _add_default_name(kind, content)
        _require_valid(kind, content)
        if (number := index.id_of(kind, content)) is not None:
            group = KINDS[kind].command
            raise Conflict(
                f"there is such a {KINDS[kind].noun} already, {number}; "
                f"change it: jobauto {group} set {number}"
            )
        return None, content

    _send(kind, edit, work, as_json, url, "created")


def change_record(kind: str, name: str, edit: Edit, as_json: bool, url: str | None) -> None:
    """Change a record.

    Raises:
        NotFound: there is none.
        InvalidInput: with everything that is wrong.
    """

    async def work(client: "Client", index: "RecordIndex") -> tuple[int | None, dict[str, Any]]:
        from jobauto_prefect.cli.files.writer import file_content

        number = await find_id(client, kind, name)
        record = index.records[kind].get(number)
        if record is None:
            raise NotFound(
                f"there is no {KINDS[kind].noun} {number}; see: jobauto {KINDS[kind].command} list"
            )
        content, _ = file_content(index, kind, record)
        if {"app", "app_uuid"} & set(edit.members):
            content.pop("app", None)
            content.pop("app_uuid", None)
        if KINDS[kind].values not in edit.members:
            content.pop(KINDS[kind].values or "", None)  # values that stay are judged by nobody
        changed = {**content, **edit.members}
        _require_valid(kind, changed)
        return number, changed

    _send(kind, edit, work, as_json, url, "changed")


def _parse_name(kind: str, name: str) -> dict[str, str]:
    key = KINDS[kind].key
    if len(key) == 1 or FILES[kind].is_shared:
        return {key[-1]: name}
    company, slash, own = name.partition("/")
    if not slash or not own:
        raise typer.BadParameter(f"{name!r} is not COMPANY/NAME", param_hint="COMPANY/NAME")
    return {"company": company, "name": own}


def _add_default_name(kind: str, content: dict[str, Any]) -> None:
    """Use the key as the name, too, until a name is given."""
    if "name" in record_schema(kind)["required"]:
        content.setdefault("name", content[KINDS[kind].key[-1]])


def _require_valid(kind: str, content: Mapping[str, Any]) -> None:
    from jobauto_prefect.definitions.validation.record_files import check_record

    faults = check_record(kind, content)
    if faults:
        raise InvalidInput((), _join_faults(faults))


def _join_faults(faults: Iterable[Any]) -> str:
    messages = [f"{fault.pointer.lstrip('/')} {fault.message}".strip() for fault in faults]
    return f"{'; '.join(messages)}; nothing was changed"


def _send(kind: str, edit: Edit, work: Any, as_json: bool, url: str | None, verb: str) -> None:
    from jobauto_prefect.cli.connection.client import Client, call_facade

    secrets = _read_secrets(edit.secrets)

    async def session(client: Client) -> Any:
        index = await fetch_record_index(client)
        number, content = await work(client, index)
        record = await _post(client, index, kind, number, content, edit.members, secrets)
        await client.wait_for_prefect()
        return record

    record = call_facade(url, session, writes=True)
    if as_json:
        print_json(record)
    else:
        print_line(escape_controls(f"{KINDS[kind].noun} {record['id']} is {verb}"))
        print_grouped_hints(
            (KINDS[kind].noun, str(record["id"]), message) for message in warning_messages(record)
        )


async def _post(
    client: "Client",
    index: "RecordIndex",
    kind: str,
    number: int | None,
    content: dict[str, Any],
    edited: Mapping[str, Any],
    secrets: Mapping[str, str],
) -> Any:
    """Validate a record as a file would be, and post it; secrets go along.

    Files could not hold these. Of a record that is there only what is edited is sent.
    """
    from jobauto_prefect.facade.apply.documents import Document
    from jobauto_prefect.facade.apply.references import ReferenceResolver
    from jobauto_prefect.facade.apply.validation import Validator

    document = Document(COMMAND_LINE, content, lambda _pointer: None)
    faults = list(Validator(index, [document], secrets).faults())
    if faults:
        raise InvalidInput((), _join_faults(faults))
    members = ReferenceResolver(index).members(document)
    if number is not None:
        sent = {*edited, *_reference_keys(kind, edited)}
        members = {name: value for name, value in members.items() if name in sent}
    member = KINDS[kind].values
    values = {name: value for name, value in secrets.items() if name != SLACK_ADDRESS}
    if SLACK_ADDRESS in secrets:
        members["notices"] = _with_address(content.get("notices", {}), secrets[SLACK_ADDRESS])
    if member is None:
        members |= values
    elif values:
        members[member] = {**members.get(member, {}), **values}
    return await client.post(kind, members | ({"id": number} if number else {}))


def _with_address(notices: Mapping[str, Any], uri: str) -> dict[str, Any]:
    return {**notices, "slack": {**notices.get("slack", {}), "uri": uri}}


def _reference_keys(kind: str, edited: Mapping[str, Any]) -> Iterator[str]:
    """Yield the keys for the ids of the references among those edited."""
    for name, reference in KINDS[kind].named_in_files.items():
        if name in edited or (reference.kind == "app" and {"app", "app_uuid"} & edited.keys()):
            yield reference.field


def _read_secrets(names: tuple[str, ...]) -> dict[str, str]:
    if not names or sys.stdin.isatty():
        return {name: typer.prompt(name, hide_input=True) for name in names}
    lines = sys.stdin.read().splitlines()
    if len(lines) != len(names):
        wanted = pluralize(len(names), "secret")
        message = f"standard input has {pluralize(len(lines), 'line')} for {wanted}"
        raise typer.BadParameter(message, param_hint="--secret")
    return dict(zip(names, lines, strict=True))


def delete_record(kind: str, name: str, yes: bool, as_json: bool, url: str | None) -> None:
    """Delete a record, after a question."""
    from jobauto_prefect.cli.connection.client import Client, call_facade

    if not yes and (as_json or not sys.stdin.isatty()):
        raise typer.BadParameter("there is nobody to ask: confirm with --yes", param_hint="--yes")

    async def work(client: Client) -> int:
        number = await find_id(client, kind, name)
        await client.get(f"/{kind}/{number}.json")
        if not yes:
            typer.confirm(f"Delete the {KINDS[kind].noun} {name}?", abort=True)
        await client.delete(f"/{kind}/{number}.json")
        await client.wait_for_prefect()
        return number

    number = call_facade(url, work, writes=True)
    if as_json:
        print_json({"id": number, "deleted": True})
    else:
        print_line(f"{KINDS[kind].noun} {number} is deleted")
