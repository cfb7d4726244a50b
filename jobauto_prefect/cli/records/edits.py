"""`create`, `set` and `delete` of records: sends names and fields, and the facade decides."""

import json
import sys
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import typer

from jobauto_prefect.cli.files.job_values import parse_assignment
from jobauto_prefect.cli.output.terminal import (
    print_grouped_hints,
    print_json,
    print_line,
    warning_messages,
)
from jobauto_prefect.cli.records.lookup import (
    Record,
    find_application,
    find_id,
    find_named,
    path_of,
)
from jobauto_prefect.definitions.validation.record_files import check_record, record_schema
from jobauto_prefect.errors import Conflict, InvalidInput, NotFound, RecordExists
from jobauto_prefect.facade.apply.record_kinds import MODES, to_field_actions
from jobauto_prefect.kinds import KINDS
from jobauto_prefect.wording import escape_controls, pluralize

if TYPE_CHECKING:
    from jobauto_prefect.cli.connection.client import Client

SLACK_ADDRESS = "notices.slack.uri"
"""The name of a secret that is not one of the values, whose names have no dots."""


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
            BadParameter: one is not FIELD=VALUE, or the field does not exist.
        """
        given = dict(_parse_member(kind, word) for word in members or ())
        values: dict[str, str | None] = dict(map(parse_assignment, env or ()))
        values |= dict.fromkeys(unset or ())
        member = KINDS[kind].values
        if values and member is None:
            raise typer.BadParameter(f"a {KINDS[kind].noun} has no values", param_hint="--env")
        return cls(given | ({str(member): values} if values else {}), tuple(secrets or ()))


def _parse_member(kind: str, word: str) -> tuple[str, Any]:
    name, value = parse_assignment(word, "FIELD=VALUE")
    properties = record_schema(kind)["properties"]
    if name not in properties or name in ("kind", "$schema"):
        keys = ", ".join(key for key in properties if key not in ("kind", "$schema"))
        message = f"a {KINDS[kind].noun} has no field {name!r}; there are {keys}"
        raise typer.BadParameter(message, param_hint="FIELD=VALUE")
    return name, _parse_value(properties[name], value)


def _parse_value(schema: Mapping[str, Any], value: str) -> Any:
    """Keep text if the field takes text; otherwise parse JSON, and keep what is not JSON."""
    types = schema.get("type", "string" if "enum" in schema else ["string"])
    types = [types] if isinstance(types, str) else types
    if value == "null" or "string" not in types:
        try:
            return json.loads(value)
        except ValueError:
            return value  # the schema reports what is wrong with it
    return value


def create_record(kind: str, name: str | None, edit: Edit, as_json: bool, url: str | None) -> None:
    """Create a record.

    Raises:
        Conflict: one with that name exists.
        InvalidInput: all errors.
    """
    named = _parse_name(kind, name) if name is not None else {}
    content = {"kind": kind, **named, **edit.members}
    if "name" in record_schema(kind)["required"]:  # the key is also the name, unless one is given
        content.setdefault("name", content[KINDS[kind].key[-1]])
    _raise_faults(check_record(kind, content))
    group, noun = KINDS[kind].command, KINDS[kind].noun

    async def write(client: "Client", secrets: Mapping[str, str]) -> Any:
        fields = await _fields(client, kind, content, secrets, None)
        if not KINDS[kind].known_by:
            await _require_other_rule(client, fields)
        try:
            return await client.create(kind, fields)
        except RecordExists:
            raise Conflict(
                f"such a {noun} already exists; change it: jobauto {group} set {name}"
            ) from None

    _write(kind, edit, write, as_json, url, "created")


def change_record(kind: str, name: str, edit: Edit, as_json: bool, url: str | None) -> None:
    """Change a record.

    Raises:
        NotFound: it does not exist.
        InvalidInput: all errors.
    """
    faults = check_record(kind, {"kind": kind, **edit.members})
    _raise_faults(each for each in faults if each.pointer)  # the others are about missing fields

    async def write(client: "Client", secrets: Mapping[str, str]) -> Any:
        word = name if KINDS[kind].named else str(await find_id(client, kind, name))
        try:
            fields = await _fields(client, kind, edit.members, secrets, word)
            return await client.post_to(f"{path_of(kind, word)}.json", fields)
        except NotFound:
            await find_id(client, kind, name)  # its error suggests similar names
            raise

    _write(kind, edit, write, as_json, url, "changed")


def _parse_name(kind: str, name: str) -> dict[str, str]:
    key = KINDS[kind].key
    if len(key) == 1 or KINDS[kind].owner == "shared":
        return {key[-1]: name}
    company, slash, own = name.partition("/")
    if not slash or not own:
        raise typer.BadParameter(f"{name!r} is not COMPANY/NAME", param_hint="COMPANY/NAME")
    return {"company": company, "name": own}


def _raise_faults(faults: Iterable[Any]) -> None:
    messages = [f"{fault.pointer.lstrip('/')} {fault.message}".strip() for fault in faults]
    if messages:
        raise InvalidInput((), f"{'; '.join(messages)}; nothing was changed")


def _write(
    kind: str,
    edit: Edit,
    write: Callable[["Client", Mapping[str, str]], Awaitable[Any]],
    as_json: bool,
    url: str | None,
    verb: str,
) -> None:
    from jobauto_prefect.cli.connection.client import Client, call_facade

    secrets = _read_secrets(edit.secrets)

    async def session(client: Client) -> Any:
        record = await write(client, secrets)
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


async def _fields(
    client: "Client",
    kind: str,
    content: Mapping[str, Any],
    secrets: Mapping[str, str],
    word: str | None,
) -> dict[str, Any]:
    """Return the fields to send: names remain names, under the contract's keys; secrets are added.

    `word` names the existing record; None: it is new.
    """
    fields = {name: value for name, value in content.items() if name != "kind"}
    before = _Before(client, kind, word)
    if "app" in fields:
        title = fields["app"]
        own = await find_named(client, "app", title, await before.company(fields))
        fields["app"] = (own or await find_application(client, title))["id"]
    if "app_uuid" in fields:
        fields["app"] = fields.pop("app_uuid")
    if "event_source" in fields:
        # A company's own source takes precedence over a shared one of the same name.
        title, template = fields["event_source"], fields.get("runtemplate")
        number = template or (await before.record())["runtemplate_id"]
        started = await client.get(f"{path_of('runtemplate', str(number))}.json")
        company = await client.get(f"/company/{started['company_id']}.json")
        source = await find_named(client, "eventsource", title, company["slug"])
        fields["event_source"] = source["id"] if source else title
    for name, reference in KINDS[kind].named_in_files.items():
        if name in fields:
            fields[reference.field] = fields.pop(name)
    for mode in MODES:
        if mode in fields:
            fields[mode] = to_field_actions(fields[mode], lambda _kind, title: title)
    await _refuse_secrets(client, kind, fields, before)
    values = {name: value for name, value in secrets.items() if name != SLACK_ADDRESS}
    if SLACK_ADDRESS in secrets:
        from jobauto_prefect.facade.apply.record_index import without_addresses

        noted = fields.get("notices") or (await before.record()).get("notices") or {}
        notices = without_addresses(noted)  # the existing addresses are masked
        slack = {**notices.get("slack", {}), "uri": secrets[SLACK_ADDRESS]}
        fields["notices"] = {**notices, "slack": slack}
    member = KINDS[kind].values
    if member is None:
        return fields | values
    return fields | ({member: {**fields.get(member, {}), **values}} if values else {})


class _Before:
    """The record to change, fetched when needed."""

    def __init__(self, client: "Client", kind: str, word: str | None) -> None:
        self._client = client
        self._kind = kind
        self._word = word
        self._record: Record | None = None

    async def record(self) -> Record:
        """Return the record; empty for a new one."""
        if self._record is None:
            address = f"{path_of(self._kind, self._word)}.json" if self._word else None
            self._record = await self._client.get(address) if address else {}
        return self._record

    async def company(self, fields: Mapping[str, Any]) -> str:
        """Return the company of a run template."""
        if said := fields.get("company"):
            return str(said)
        company = await self._client.get(f"/company/{(await self.record())['company_id']}.json")
        return str(company["slug"])


async def _require_other_rule(client: "Client", fields: Mapping[str, Any]) -> None:
    """Require that no equal rule exists, although the facade accepts several."""
    wanted = {**fields}
    if "runtemplate_source_id" in fields:
        source = str(fields["runtemplate_source_id"])
        wanted["runtemplate_source_id"] = await find_id(client, "runtemplate", source)
    asked = {"runtemplate_id": fields["runtemplate_id"]}
    properties = record_schema("eventrule")["properties"]
    for number, rule in (await client.newest("eventrules", None, **asked)).items():
        if all(
            (rule[name] or None) == (wanted.get(name) or properties.get(name, {}).get("default"))
            for name in (
                "event_source_id", "runtemplate_source_id", "evidence", "operation", "on",
            )
        ):  # fmt: skip
            raise Conflict(
                f"such an event rule already exists: {number}; change it: jobauto rule set {number}"
            )


async def _refuse_secrets(
    client: "Client", kind: str, fields: Mapping[str, Any], before: _Before
) -> None:
    """Refuse secret values that would end up in the shell's history."""
    from jobauto_prefect.definitions.values import MASK

    given = fields.get(KINDS[kind].values or "") or {}
    said = {name for name, value in given.items() if value not in (None, "", MASK)}
    if said and kind in SECRET_NAMES:
        for name in sorted(said & await SECRET_NAMES[kind](client, fields, before)):
            raise InvalidInput((), f"{name} is secret: use --secret {name}; nothing was changed")


async def _secrets_of_apps(
    client: "Client", _fields: Mapping[str, Any], before: _Before
) -> set[str]:
    """Return the secret keys of the applications that may get a company's values."""
    from jobauto_prefect.definitions import parse

    owners = None, (await before.record()).get("id")
    apps = [app for app in (await client.list("apps")).values() if app["company_id"] in owners]
    return {key for app in apps for key in parse(app).secret_keys}


async def _secrets_of_app(client: "Client", fields: Mapping[str, Any], before: _Before) -> set[str]:
    from jobauto_prefect.definitions import parse

    app = fields.get("app_id") or (await before.record())["app_id"]
    return set(parse(await client.get(f"{path_of('app', str(app))}.json")).secret_keys)


async def _secrets_of_type(
    client: "Client", fields: Mapping[str, Any], before: _Before
) -> set[str]:
    from jobauto_prefect.definitions.records.credentials import secret_keywords

    named = fields.get("credential_type_id") or (await before.record())["credential_type_id"]
    kind = await find_named(client, "credential_type", str(named), fields.get("company_id"))
    return set(secret_keywords(kind["fields"])) if kind else set()


SECRET_NAMES: Mapping[
    str, Callable[["Client", Mapping[str, Any], _Before], Awaitable[set[str]]]
] = {"company": _secrets_of_apps, "credential": _secrets_of_type, "runtemplate": _secrets_of_app}
"""How to find the names of secret values."""


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
    """Delete a record, after confirmation."""
    from jobauto_prefect.cli.connection.client import Client, call_facade

    if not yes and (as_json or not sys.stdin.isatty()):
        raise typer.BadParameter(
            "there is no terminal to ask on: confirm with --yes", param_hint="--yes"
        )

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
