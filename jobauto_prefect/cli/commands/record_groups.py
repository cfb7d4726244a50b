"""`jobauto company|template|credential|credential-type|topic|calendar|rule|source`."""

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
from jobauto_prefect.kinds import KINDS, Kind
from jobauto_prefect.wording import escape_controls

if TYPE_CHECKING:
    from jobauto_prefect.cli.connection.client import Client


def make_group(table: ListedKind) -> typer.Typer:
    """Make the commands of a kind of records."""
    kind = table.kind
    group = typer.Typer(help=f"{kind.many}: {kind.about}", no_args_is_help=True)
    add_list(group, table)
    _add_show(group, kind)
    _add_create(group, kind)
    _add_set(group, kind)
    _add_delete(group, kind)
    return group


def _name_argument(kind: Kind) -> Any:
    metavar = kind.metavar
    if metavar == "ID":
        return Annotated[str, typer.Argument(metavar=metavar, help="Its number.")]
    words = f"Its number, or {metavar}."
    return Annotated[
        str, typer.Argument(metavar=metavar, help=words, autocompletion=complete_names(kind.item))
    ]


def _add_show(group: typer.Typer, kind: Kind) -> None:
    def show(name: str, as_json: Json = False, url: Url = None) -> None:
        _show_record(kind.item, name, as_json, url)

    def show_or_reveal(
        name: str,
        reveal: Annotated[
            bool,
            typer.Option(
                "--reveal", help="Include the secret values in clear text; this is audited."
            ),
        ] = False,
        yes: Yes = False,
        as_json: Json = False,
        url: Url = None,
    ) -> None:
        if reveal and not yes:
            confirm_reveal(name, as_json)
        _show_record(kind.item, name, as_json, url, reveal)

    function = show_or_reveal if kind.item == "credential" else show
    function.__annotations__["name"] = _name_argument(kind)
    function.__doc__ = f"Show one {kind.noun}.\n\nExample: jobauto {kind.command} show 1"
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
    """Ask whether to show secret values.

    Raises:
        BadParameter: there is no terminal.
    """
    if as_json or not sys.stdin.isatty():
        raise typer.BadParameter(
            "there is no terminal to ask on: confirm with --yes", param_hint="--yes"
        )
    typer.confirm(f"Show the secret values of {name} here? This is audited.", abort=True)


def _add_create(group: typer.Typer, kind: Kind) -> None:
    def create(
        name: str,
        members: Members = None,
        env: Env = None,
        secret: Secret = None,
        as_json: Json = False,
        url: Url = None,
    ) -> None:
        from jobauto_prefect.cli.records.edits import Edit, create_record

        create_record(kind.item, name, Edit.of(kind.item, members, env, secret, ()), as_json, url)

    def create_unnamed(members: Members = None, as_json: Json = False, url: Url = None) -> None:
        from jobauto_prefect.cli.records.edits import Edit, create_record

        create_record(kind.item, None, Edit.of(kind.item, members, (), (), ()), as_json, url)

    function = create_unnamed if kind.metavar == "ID" else create
    if function is create:
        named = Annotated[
            str, typer.Argument(metavar=kind.metavar, help="The name of the new record.")
        ]
        create.__annotations__["name"] = named
    example = f"jobauto {kind.command} create {kind.example}"
    function.__doc__ = f"Create one {kind.noun}.\n\nExample: {example}"
    group.command("create")(function)


def _add_set(group: typer.Typer, kind: Kind) -> None:
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

        change_record(
            kind.item, name, Edit.of(kind.item, members, env, secret, unset), as_json, url
        )

    set_.__annotations__["name"] = _name_argument(kind)
    example = {"values": "--secret KEY", None: "labels='[\"team\"]'"}.get(
        kind.values, "--env KEY=VALUE --unset OTHER"
    )
    set_.__doc__ = (
        f"Change one {kind.noun}: fields that are not given stay.\n\n"
        f"Example: jobauto {kind.command} set 1 {example}"
    )
    group.command("set")(set_)


def _add_delete(group: typer.Typer, kind: Kind) -> None:
    def delete(
        name: str,
        yes: Yes = False,
        as_json: Json = False,
        url: Url = None,
    ) -> None:
        from jobauto_prefect.cli.records.edits import delete_record

        delete_record(kind.item, name, yes, as_json, url)

    delete.__annotations__["name"] = _name_argument(kind)
    delete.__doc__ = (
        f"Delete one {kind.noun}: lists no longer show it, but it is kept for history.\n\n"
        f"Example: jobauto {kind.command} delete 1 --yes"
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

    test.__annotations__["name"] = _name_argument(KINDS["eventsource"])
    group.command("test")(test)


def _add_import(group: typer.Typer) -> None:
    @group.command("import")
    def import_(paths: Paths, as_json: Json = False, url: Url = None) -> None:
        """Import credential types.

        Each type replaces the one with the same UUID, or else the one with the same code. If there
        is neither, it is created. Files of older programs are accepted. An error in any file stops
        the command before the first import.

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
    table.kind.command: make_group(table)
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
"""By command name."""

ALL["company"].add_typer(members.group, name="member")
_add_import(ALL["credential-type"])
_add_test(ALL["source"])
ALL["rule"].command()(suggest)
ALL["topic"].command()(attach)
ALL["topic"].command()(detach)
