"""`create`, `set` and `delete` of records: as a file with one record would do it."""

import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import typer

from jobauto_prefect.definitions.files import record_schema
from jobauto_prefect.errors import Conflict, InvalidInput, NotFound
from jobauto_prefect.facade.apply.kinds import GROUPS, KINDS, NOUNS, OWNED
from jobauto_prefect.wording import counted

if TYPE_CHECKING:
    from jobauto_prefect.cli.client import Client
    from jobauto_prefect.facade.apply.known import Known

COMMAND_LINE = "command line"
SLACK_ADDRESS = "notices.slack.uri"
"""A secret that is no value; no name of a value has a dot."""


@dataclass(frozen=True, slots=True)
class Edit:
    """Members as files have them; `secrets` are the names of values to ask for."""

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
        """What the words of a command line say.

        Raises:
            BadParameter: one is not MEMBER=VALUE, or there is no such member.
        """
        given = dict(_member(kind, word) for word in members or ())
        values = dict(_assignment(word, "--env") for word in env or ())
        values |= dict.fromkeys(unset or ())
        member = KINDS[kind].values
        if values and member is None:
            raise typer.BadParameter(f"a {NOUNS[kind]} has no values", param_hint="--env")
        return cls(given | ({str(member): values} if values else {}), tuple(secrets or ()))


def _assignment(word: str, hint: str) -> tuple[str, Any]:
    name, equals, value = word.partition("=")
    if not equals or not name:
        raise typer.BadParameter(f"{word!r} is not KEY=VALUE", param_hint=hint)
    return name, value


def _member(kind: str, word: str) -> tuple[str, Any]:
    name, value = _assignment(word, "MEMBER=VALUE")
    properties = record_schema(kind)["properties"]
    if name not in properties or name in ("kind", "$schema"):
        known = ", ".join(one for one in properties if one not in ("kind", "$schema"))
        message = f"a {NOUNS[kind]} has no member {name!r}; there are {known}"
        raise typer.BadParameter(message, param_hint="MEMBER=VALUE")
    return name, _read(properties[name], value)


def _read(said: Mapping[str, Any], value: str) -> Any:
    """Text where the member takes text; else JSON, as far as it is JSON."""
    types = said.get("type", "string" if "enum" in said else ["string"])
    types = [types] if isinstance(types, str) else types
    if value == "null" or "string" not in types:
        try:
            return json.loads(value)
        except ValueError:
            return value  # the schema says what is wrong with it
    return value


def make(kind: str, name: str | None, edit: Edit, as_json: bool, url: str | None) -> None:
    """Create a record.

    Raises:
        Conflict: there is one of that name.
        InvalidInput: with everything that is wrong.
    """

    async def work(_client: "Client", known: "Known") -> tuple[int | None, dict[str, Any]]:
        named = _named(kind, name) if name is not None else {}
        content = {"kind": kind, **named, **edit.members}
        _default_name(kind, content)
        _refuse_faults(kind, content)
        if (number := known.id_of(kind, content)) is not None:
            group = GROUPS[kind]
            raise Conflict(
                f"there is such a {NOUNS[kind]} already, {number}; "
                f"change it: jobauto {group} set {number}"
            )
        return None, content

    _write(kind, edit, work, as_json, url, "created")


def change(kind: str, name: str, edit: Edit, as_json: bool, url: str | None) -> None:
    """Change a record.

    Raises:
        NotFound: there is none.
        InvalidInput: with everything that is wrong.
    """

    async def work(client: "Client", known: "Known") -> tuple[int | None, dict[str, Any]]:
        from jobauto_prefect.cli.exporting import as_file
        from jobauto_prefect.cli.lookup import number_of

        number = await number_of(client, kind, name)
        record = known.records[kind].get(number)
        if record is None:
            raise NotFound(f"there is no {NOUNS[kind]} {number}; see: jobauto {GROUPS[kind]} list")
        whole, _ = as_file(known, kind, record)
        if {"app", "app_uuid"} & set(edit.members):
            whole.pop("app", None)
            whole.pop("app_uuid", None)
        if KINDS[kind].values not in edit.members:
            whole.pop(KINDS[kind].values or "", None)  # values that stay are judged by nobody
        content = {**whole, **edit.members}
        _refuse_faults(kind, content)
        return number, content

    _write(kind, edit, work, as_json, url, "changed")


def _named(kind: str, name: str) -> dict[str, str]:
    key = KINDS[kind].key
    if len(key) == 1 or kind in OWNED:
        return {key[-1]: name}
    company, slash, own = name.partition("/")
    if not slash or not own:
        raise typer.BadParameter(f"{name!r} is not COMPANY/NAME", param_hint="COMPANY/NAME")
    return {"company": company, "name": own}


def _default_name(kind: str, content: dict[str, Any]) -> None:
    """What is known by something else is called so, too, until somebody says its name."""
    if "name" in record_schema(kind)["required"]:
        content.setdefault("name", content[KINDS[kind].key[-1]])


def _refuse_faults(kind: str, content: Mapping[str, Any]) -> None:
    from jobauto_prefect.definitions.files import check_record

    faults = check_record(kind, content)
    if faults:
        raise InvalidInput((), _one_line(faults))


def _one_line(faults: Iterable[Any]) -> str:
    said = [f"{fault.pointer.lstrip('/')} {fault.message}".strip() for fault in faults]
    return f"{'; '.join(said)}; nothing was changed"


def _write(kind: str, edit: Edit, work: Any, as_json: bool, url: str | None, verb: str) -> None:
    from jobauto_prefect.cli.client import Client, speak
    from jobauto_prefect.cli.known import known_of
    from jobauto_prefect.cli.show import hint_in_common, print_json, printable, say, warnings_in

    secrets = _asked_secrets(edit.secrets)

    async def session(client: Client) -> Any:
        known = await known_of(client)
        number, content = await work(client, known)
        record = await _post(client, known, kind, number, content, edit.members, secrets)
        await client.wait_for_prefect()
        return record

    record = speak(url, session, writes=True)
    if as_json:
        print_json(record)
    else:
        say(printable(f"{NOUNS[kind]} {record['id']} is {verb}"))
        hint_in_common((NOUNS[kind], str(record["id"]), one) for one in warnings_in(record))


async def _post(
    client: "Client",
    known: "Known",
    kind: str,
    number: int | None,
    content: dict[str, Any],
    edited: Mapping[str, Any],
    secrets: Mapping[str, str],
) -> Any:
    """Checked as a file would be; secrets go along, past what files may hold.

    Of a record that is there only what is edited is sent.
    """
    from jobauto_prefect.facade.apply.checking import Checker
    from jobauto_prefect.facade.apply.documents import Document
    from jobauto_prefect.facade.apply.references import References

    document = Document(COMMAND_LINE, content, lambda _pointer: None)
    faults = list(Checker(known, [document], secrets).faults())
    if faults:
        raise InvalidInput((), _one_line(faults))
    members = References(known).members(document)
    if number is not None:
        sent = {*edited, *_references(kind, edited)}
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


def _references(kind: str, edited: Mapping[str, Any]) -> Iterator[str]:
    """The members that bear the ids of the references among those edited."""
    for name, reference in KINDS[kind].references.items():
        if name in edited or (reference.kind == "app" and {"app", "app_uuid"} & edited.keys()):
            yield reference.member


def _asked_secrets(names: tuple[str, ...]) -> dict[str, str]:
    if not names or sys.stdin.isatty():
        return {name: typer.prompt(name, hide_input=True) for name in names}
    lines = sys.stdin.read().splitlines()
    if len(lines) != len(names):
        message = (
            f"standard input has {counted(len(lines), 'line')} for {counted(len(names), 'secret')}"
        )
        raise typer.BadParameter(message, param_hint="--secret")
    return dict(zip(names, lines, strict=True))


def remove(kind: str, name: str, yes: bool, as_json: bool, url: str | None) -> None:
    """Delete a record, after a question."""
    from jobauto_prefect.cli.client import Client, speak
    from jobauto_prefect.cli.lookup import number_of
    from jobauto_prefect.cli.show import print_json, say

    if not yes and (as_json or not sys.stdin.isatty()):
        raise typer.BadParameter("there is nobody to ask: confirm with --yes", param_hint="--yes")

    async def work(client: Client) -> int:
        number = await number_of(client, kind, name)
        await client.get(f"/{kind}/{number}.json")
        if not yes:
            typer.confirm(f"Delete the {NOUNS.get(kind, kind)} {name}?", abort=True)
        await client.delete(f"/{kind}/{number}.json")
        await client.wait_for_prefect()
        return number

    number = speak(url, work, writes=True)
    if as_json:
        print_json({"id": number, "deleted": True})
    else:
        say(f"{NOUNS.get(kind, kind)} {number} is deleted")
