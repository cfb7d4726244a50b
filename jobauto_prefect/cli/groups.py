"""`jobauto company|template|credential|credential-type|topic|calendar|rule|source`: groups."""

import sys
from collections.abc import Mapping
from typing import Annotated, Any

import typer

from jobauto_prefect.cli import members, tables
from jobauto_prefect.cli.attachments import attach, detach
from jobauto_prefect.cli.completing import names_of
from jobauto_prefect.cli.listing import Kind, add_list
from jobauto_prefect.cli.options import Json, Paths, Url, Yes
from jobauto_prefect.cli.suggesting import suggest
from jobauto_prefect.facade.apply.kinds import GROUPS, KINDS, NOUNS

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
Members = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="MEMBER=VALUE",
        help="Members as files have them; MEMBER=null removes a value.",
    ),
]
Env = Annotated[
    list[str] | None,
    typer.Option("--env", "-e", metavar="KEY=VALUE", help="A value; may be given repeatedly."),
]
Secret = Annotated[
    list[str] | None,
    typer.Option(
        "--secret",
        metavar="KEY",
        help="A secret value, asked for, or a line of standard input for each.",
    ),
]
Unset = Annotated[list[str] | None, typer.Option("--unset", metavar="KEY", help="Remove a value.")]


def group_of(table: Kind) -> typer.Typer:
    """The commands of a kind."""
    kind = table.item
    group = typer.Typer(help=HELP[kind], no_args_is_help=True)
    add_list(group, table)
    _add_show(group, kind)
    _add_create(group, kind)
    _add_set(group, kind)
    _add_delete(group, kind)
    return group


def _name(kind: str) -> Any:
    metavar = NAMED[kind]
    if metavar == "ID":
        return Annotated[str, typer.Argument(metavar=metavar, help="Its number.")]
    words = f"Its number, or {metavar}."
    return Annotated[
        str, typer.Argument(metavar=metavar, help=words, autocompletion=names_of(kind))
    ]


def _add_show(group: typer.Typer, kind: str) -> None:
    def show(name: str, as_json: Json = False, url: Url = None) -> None:
        _show(kind, name, as_json, url)

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
        _show(kind, name, as_json, url, reveal)

    function = show_or_reveal if kind == "credential" else show
    function.__annotations__["name"] = _name(kind)
    function.__doc__ = f"Show one {NOUNS[kind]}.\n\nExample: jobauto {GROUPS[kind]} show 1"
    group.command("show")(function)


def _show(kind: str, name: str, as_json: bool, url: str | None, reveal: bool = False) -> None:
    from jobauto_prefect.cli.client import Client, speak
    from jobauto_prefect.cli.lookup import number_of
    from jobauto_prefect.cli.show import print_json, print_members

    async def read(client: Client) -> Any:
        path = f"/{kind}/{await number_of(client, kind, name)}"
        record = await client.get(f"{path}.json")
        return record | await client.post_to(f"{path}/reveal.json") if reveal else record

    record = speak(url, read)
    if as_json:
        print_json(record)
    else:
        print_members(record)


def confirm_reveal(name: str, as_json: bool) -> None:
    """Ask, where there is somebody to ask.

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
        from jobauto_prefect.cli.editing import Edit, make

        make(kind, name, Edit.of(kind, members, env, secret, ()), as_json, url)

    def create_unnamed(members: Members = None, as_json: Json = False, url: Url = None) -> None:
        from jobauto_prefect.cli.editing import Edit, make

        make(kind, None, Edit.of(kind, members, (), (), ()), as_json, url)

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
        from jobauto_prefect.cli.editing import Edit, change

        change(kind, name, Edit.of(kind, members, env, secret, unset), as_json, url)

    set_.__annotations__["name"] = _name(kind)
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
        from jobauto_prefect.cli.editing import remove

        remove(kind, name, yes, as_json, url)

    delete.__annotations__["name"] = _name(kind)
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
        from jobauto_prefect.cli.client import Client, speak
        from jobauto_prefect.cli.lookup import number_of
        from jobauto_prefect.cli.show import print_json, printable, say

        async def ask(client: Client) -> Any:
            number = await number_of(client, "eventsource", name)
            return await client.post_to(f"/eventsource/{number}/test.json")

        found = speak(url, ask)
        if as_json:
            print_json(found)
        else:
            say(printable(found["message"]), style="green" if found["reachable"] else "red")
        if not found["reachable"]:
            raise typer.Exit(1)

    test.__annotations__["name"] = _name("eventsource")
    group.command("test")(test)


def _add_import(group: typer.Typer) -> None:
    @group.command("import")
    def import_(paths: Paths, as_json: Json = False, url: Url = None) -> None:
        """Take credential types into the service: by their UUID, else their code.

        Files of older programs are understood. A fault in any file stops before the first import.

        Examples: jobauto credential-type import bank.json · jobauto credential-type import types/
        """
        from jobauto_prefect.cli.client import Client, speak
        from jobauto_prefect.cli.importing import Imported, documents_in, tell
        from jobauto_prefect.cli.importing_types import KIND, take_in_types
        from jobauto_prefect.cli.judging import tell_faults
        from jobauto_prefect.cli.show import messages, print_json

        documents, warnings = documents_in(paths, KIND, (KIND,))
        imported: list[Imported] = []

        def done(one: Imported) -> None:
            imported.append(one)
            if not as_json:
                tell(one)

        async def work(client: Client) -> None:
            await take_in_types(client, documents, done)
            await client.wait_for_prefect()

        tell_faults(warnings, "warning", (), messages())
        speak(url, work, writes=True)
        if as_json:
            print_json({"imported": [one.as_dict() for one in imported]})


ALL: Mapping[str, typer.Typer] = {
    GROUPS[table.item]: group_of(table)
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
