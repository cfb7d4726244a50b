"""`jobauto company|template|credential|credential-type|topic|calendar|rule|source`: groups."""

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from jobauto_prefect.cli.commands import members
from jobauto_prefect.cli.commands.suggestions import suggest
from jobauto_prefect.cli.commands.topics import attach, detach
from jobauto_prefect.cli.completion import complete_names
from jobauto_prefect.cli.options import Env, Json, Members, Paths, Secret, Unset, Url, Yes
from jobauto_prefect.cli.output.results import call_and_print
from jobauto_prefect.cli.output.terminal import error_console, print_json, print_line
from jobauto_prefect.cli.records import tables
from jobauto_prefect.cli.records.lists import ListedKind, add_list
from jobauto_prefect.cli.records.lookup import find_id
from jobauto_prefect.facade.apply.record_kinds import GROUPS, KINDS, NOUNS
from jobauto_prefect.wording import escape_controls

if TYPE_CHECKING:
    from jobauto_prefect.cli.connection.client import Client


HELP: Mapping[str, str] = {
    "company": "Companies: who applications are run for.",
    "runtemplate": "Run templates: how a company runs an application.",
    "credential": "Credentials: values of a company, the secret ones encrypted.",
    "credential_type": "Credential types: which values credentials have.",
    "topic": "Topics: tags with a colour.",
    "calendar": "Calendars: when windows are closed.",
    "eventrule": "Event rules: what a change, or the end of a run template, starts.",
    "eventsource": "Event sources: databases whose changes are events.",
}
EXAMPLES: Mapping[str, str] = {
    "company": "acme email=it@acme.example --env TOWN=Prague",
    "runtemplate": "acme/Nightly app=Probe interv=d --env COUNT=3 --secret API_KEY",
    "credential": "acme/Bank credential_type=bank --env BANK_USER=anna --secret BANK_PIN",
    "credential_type": 'bank name=Bank fields=\'[{"keyword": "BANK_USER"}]\'',
    "topic": "money color=00AA00",
    "calendar": 'Closing country=CZ days=\'[{"date": "2026-12-31", "yearly": true}]\'',
    "eventrule": "event_source=Accounting evidence=invoice runtemplate=acme/Nightly",
    "eventsource": "Accounting db_connection=pgsql db_database=hooks --secret db_password",
}
"""What may follow `create`."""

NAMED: Mapping[str, str] = {
    "company": "SLUG",
    "runtemplate": "COMPANY/NAME",
    "credential": "COMPANY/NAME",
    "credential_type": "CODE",
    "topic": "NAME",
    "calendar": "NAME",
    "eventsource": "NAME",
    "eventrule": "ID",
}


def make_group(table: ListedKind) -> typer.Typer:
    """Make the commands of a kind of records."""
    kind = table.item
    group = typer.Typer(help=HELP[kind], no_args_is_help=True)
    add_list(group, table)
    _add_show(group, kind)
    _add_create(group, kind)
    _add_set(group, kind)
    _add_delete(group, kind)
    return group


def _name_argument(kind: str) -> Any:
    metavar = NAMED[kind]
    if metavar == "ID":
        return Annotated[str, typer.Argument(metavar=metavar, help="Its number.")]
    words = f"Its number, or {metavar}."
    return Annotated[
        str, typer.Argument(metavar=metavar, help=words, autocompletion=complete_names(kind))
    ]


def _add_show(group: typer.Typer, kind: str) -> None:
    def show(name: str, as_json: Json = False, url: Url = None) -> None:
        _show_record(kind, name, as_json, url)

    def show_or_reveal(
        name: str,
        reveal: Annotated[
            bool, typer.Option("--reveal", help="With the secret values in clear; is audited.")
        ] = False,
        yes: Yes = False,
        as_json: Json = False,
        url: Url = None,
    ) -> None:
        if reveal and not yes:
            confirm_reveal(name, as_json)
        _show_record(kind, name, as_json, url, reveal)

    function = show_or_reveal if kind == "credential" else show
    function.__annotations__["name"] = _name_argument(kind)
    function.__doc__ = f"Show one {NOUNS[kind]}.\n\nExample: jobauto {GROUPS[kind]} show 1"
    group.command("show")(function)


def _show_record(
    kind: str, name: str, as_json: bool, url: str | None, reveal: bool = False
) -> None:

    async def read(client: "Client") -> Any:
        path = f"/{kind}/{await find_id(client, kind, name)}"
        record = await client.get(f"{path}.json")
        return record | await client.post_to(f"{path}/reveal.json") if reveal else record

    call_and_print(url, read, as_json)


def confirm_reveal(name: str, as_json: bool) -> None:
    """Ask whether secret values may be shown.

    Raises:
        BadParameter: there is nobody.
    """
    if as_json or not sys.stdin.isatty():
        raise typer.BadParameter("there is nobody to ask: confirm with --yes", param_hint="--yes")
    typer.confirm(f"Show the secret values of {name} here? It is audited.", abort=True)


def _add_create(group: typer.Typer, kind: str) -> None:
    def create(
        name: str,
        members: Members = None,
        env: Env = None,
        secret: Secret = None,
        as_json: Json = False,
        url: Url = None,
    ) -> None:
        from jobauto_prefect.cli.records.edits import Edit, create_record

        create_record(kind, name, Edit.of(kind, members, env, secret, ()), as_json, url)

    def create_unnamed(members: Members = None, as_json: Json = False, url: Url = None) -> None:
        from jobauto_prefect.cli.records.edits import Edit, create_record

        create_record(kind, None, Edit.of(kind, members, (), (), ()), as_json, url)

    function = create_unnamed if NAMED[kind] == "ID" else create
    if function is create:
        named = Annotated[str, typer.Argument(metavar=NAMED[kind], help="What it is known by.")]
        create.__annotations__["name"] = named
    function.__doc__ = (
        f"Create one {NOUNS[kind]}.\n\nExample: jobauto {GROUPS[kind]} create {EXAMPLES[kind]}"
    )
    group.command("create")(function)


def _add_set(group: typer.Typer, kind: str) -> None:
    def set_(
        name: str,
        members: Members = None,
        env: Env = None,
        secret: Secret = None,
        unset: Unset = None,
        as_json: Json = False,
        url: Url = None,
    ) -> None:
        from jobauto_prefect.cli.records.edits import Edit, change_record

        change_record(kind, name, Edit.of(kind, members, env, secret, unset), as_json, url)

    set_.__annotations__["name"] = _name_argument(kind)
    example = {"values": "--secret KEY", None: "labels='[\"team\"]'"}.get(
        KINDS[kind].values, "--env KEY=VALUE --unset OTHER"
    )
    set_.__doc__ = (
        f"Change one {NOUNS[kind]}: what is not said stays.\n\n"
        f"Example: jobauto {GROUPS[kind]} set 1 {example}"
    )
    group.command("set")(set_)


def _add_delete(group: typer.Typer, kind: str) -> None:
    def delete(
        name: str,
        yes: Yes = False,
        as_json: Json = False,
        url: Url = None,
    ) -> None:
        from jobauto_prefect.cli.records.edits import delete_record

        delete_record(kind, name, yes, as_json, url)

    delete.__annotations__["name"] = _name_argument(kind)
    delete.__doc__ = (
        f"Delete one {NOUNS[kind]}; it is kept for history.\n\n"
        f"Example: jobauto {GROUPS[kind]} delete 1 --yes"
    )
    group.command("delete")(delete)


def _add_test(group: typer.Typer) -> None:
    def test(name: str, as_json: Json = False, url: Url = None) -> None:
        """Test whether the database of an event source answers and can be read.

        Exit code 1: it can't.

        Example: jobauto source test Accounting
        """
        from jobauto_prefect.cli.connection.client import Client, call_facade

        async def ask(client: Client) -> Any:
            number = await find_id(client, "eventsource", name)
            return await client.post_to(f"/eventsource/{number}/test.json")

        outcome = call_facade(url, ask)
        if as_json:
            print_json(outcome)
        else:
            print_line(
                escape_controls(outcome["message"]),
                style="green" if outcome["reachable"] else "red",
            )
        if not outcome["reachable"]:
            raise typer.Exit(1)

    test.__annotations__["name"] = _name_argument("eventsource")
    group.command("test")(test)


def _add_import(group: typer.Typer) -> None:
    @group.command("import")
    def import_(paths: Paths, as_json: Json = False, url: Url = None) -> None:
        """Take credential types into the service: by their UUID, else their code.

        Files of older programs are understood. An error in any file stops before the first import.

        Examples: jobauto credential-type import bank.json · jobauto credential-type import types/
        """
        from jobauto_prefect.cli.connection.client import Client, call_facade
        from jobauto_prefect.cli.files.definition_import import (
            Imported,
            import_credential_types,
            print_imported,
            read_valid_documents,
        )
        from jobauto_prefect.cli.files.validation_report import print_faults

        documents, warnings = read_valid_documents(paths, "credential_type", ("credential_type",))
        imported: list[Imported] = []

        def done(credential_type: Imported) -> None:
            imported.append(credential_type)
            if not as_json:
                print_imported(credential_type)

        async def work(client: Client) -> None:
            await import_credential_types(client, documents, done)
            await client.wait_for_prefect()

        print_faults(warnings, "warning", (), error_console())
        call_facade(url, work, writes=True)
        if as_json:
            print_json({"imported": [credential_type.as_dict() for credential_type in imported]})


ALL: Mapping[str, typer.Typer] = {
    GROUPS[table.item]: make_group(table)
    for table in (
        tables.COMPANIES,
        tables.TEMPLATES,
        tables.CREDENTIALS,
        tables.CREDENTIAL_TYPES,
        tables.TOPICS,
        tables.CALENDARS,
        tables.RULES,
        tables.SOURCES,
    )
}
"""By the names of the commands."""

ALL["company"].add_typer(members.group, name="member")
_add_import(ALL["credential-type"])
_add_test(ALL["source"])
ALL["rule"].command()(suggest)
ALL["topic"].command()(attach)
ALL["topic"].command()(detach)
