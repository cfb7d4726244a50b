"""`jobauto app`: application definitions."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from jobauto_prefect.cli.completion import complete_names
from jobauto_prefect.cli.options import Json, Lang, Paths, Url, Yes
from jobauto_prefect.cli.output.results import call_and_print
from jobauto_prefect.cli.output.terminal import (
    error_console,
    format_time,
    print_hint,
    print_json,
    print_markdown,
    print_record,
    print_table,
)
from jobauto_prefect.cli.records.lists import add_list
from jobauto_prefect.cli.records.lookup import (
    NamedDefinition,
    fetch_definition,
    find_application,
    is_file,
    read_definition,
)
from jobauto_prefect.cli.records.tables import APPS
from jobauto_prefect.wording import pluralize

if TYPE_CHECKING:
    from jobauto_prefect.cli.connection.client import Client
    from jobauto_prefect.cli.files.definition_import import Imported

group = typer.Typer(help="Applications and their definitions.", no_args_is_help=True)

App = Annotated[
    str,
    typer.Argument(
        metavar="APP",
        help="Its id, its UUID, or its name in any language.",
        autocompletion=complete_names("app"),
    ),
]
Side = Annotated[
    str,
    typer.Argument(
        help="A file, or an application by id, UUID or name. @NUMBER or @VERSION after it means "
        "one of its former definitions."
    ),
]
Output = Annotated[
    Path | None, typer.Option("--output", "-o", metavar="OUT", help="Write to this new file.")
]
STDIN = "-"


@group.command()
def validate(paths: Paths, as_json: Json = False) -> None:
    """Validate application definitions and records: every error and warning, with place and line.

    In folders all JSON and YAML files are validated. `jobauto plan` checks references between
    records.

    Examples: jobauto app validate probe.app.json · jobauto app validate apps/ --json
    """
    from jobauto_prefect.cli.files.reader import find_files
    from jobauto_prefect.cli.files.validation_report import print_verdicts, validate_file

    verdicts = [validate_file(file) for file in find_files(paths)]
    valid = not any(verdict.faults for verdict in verdicts)
    if as_json:
        print_json({"valid": valid, "files": [verdict.as_dict() for verdict in verdicts]})
    else:
        print_verdicts(verdicts)
    if not valid:
        raise typer.Exit(1)


@group.command()
def upgrade(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A definition, or - for stdin.")],
    output: Output = None,
    in_place: Annotated[bool, typer.Option("--in-place", help="Change the file itself.")] = False,
    allow_invalid: Annotated[
        bool, typer.Option("--allow-invalid", help="Write the file even if errors remain.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Turn an older definition into a valid one, and report what was changed.

    Unchanged parts keep their formatting. Without -o and --in-place the new definition is printed.
    Exit code 1: something is left that only a person can decide. If the definition would still be
    invalid, no file is written.

    Examples: jobauto app upgrade old.json -o new.json · jobauto app upgrade old.json --in-place
    """
    from jobauto_prefect.cli.files.upgrade import print_upgrade, upgrade_file
    from jobauto_prefect.cli.files.writer import replace_file, write_new

    if str(file) != STDIN and not file.is_file():
        raise typer.BadParameter(f"there is no file {file}", param_hint="FILE")
    if in_place and (output or str(file) == STDIN):
        raise typer.BadParameter("--in-place needs a file, and can't be used with --output")
    target = output if output and str(output) != STDIN else file if in_place else None
    done = upgrade_file(file, str(target or STDIN))
    if done.is_valid or allow_invalid:
        if target and in_place and done.changes:
            replace_file(target, done.text.encode())
        elif target and not in_place:
            write_new(target, done.text.encode())
    elif target:
        print_hint(
            f"{target} was not written: it would still be invalid; to write it: --allow-invalid"
        )
        target = None if as_json else target
    print_upgrade(done, target, as_json)
    if done.undecided:
        raise typer.Exit(1)


@group.command("import")
def import_(
    paths: Paths,
    force: Annotated[
        bool, typer.Option("--force", help="Replace a newer version by an older one.")
    ] = False,
    as_json: Json = False,
    url: Url = None,
) -> None:
    """Import definitions.

    Each definition replaces the application with the same UUID. If the definition has no UUID, it
    replaces the one with the same name. If there is none, it creates an application. An error in
    any file stops the command before the first import. Former definitions are kept.

    Examples: jobauto app import probe.app.json · jobauto app import apps/ --force
    """
    from jobauto_prefect.cli.connection.client import call_facade
    from jobauto_prefect.cli.files.definition_import import (
        hint_warnings,
        import_definitions,
        print_imported,
        read_valid_documents,
    )
    from jobauto_prefect.cli.files.validation_report import print_faults

    documents, warnings = read_valid_documents(paths, "app", ("app", None))
    imported: list[Imported] = []

    def done(definition: "Imported") -> None:
        imported.append(definition)
        if not as_json:
            print_imported(definition)

    async def work(client: "Client") -> int:
        await import_definitions(client, documents, force, done)
        return await client.wait_for_prefect()

    print_faults(warnings, "warning", (), error_console())
    waiting = call_facade(url, work, writes=True)
    hint_warnings(imported)
    if as_json:
        listed = [definition.as_dict() for definition in imported]
        print_json({"imported": listed, "waiting_for_prefect": waiting})
    elif waiting:
        left = pluralize(waiting, "change")
        print_hint(f"Prefect does not have {left} yet; the rest follows when it answers")
    if any(definition.action == "refused" for definition in imported):
        raise typer.Exit(1)


@group.command()
def export(app: App, output: Output = None, url: Url = None) -> None:
    """Print the definition of an application exactly as it was imported.

    Example: jobauto app export Probe -o probe.app.json
    """
    import sys

    from jobauto_prefect.cli.connection.client import call_facade
    from jobauto_prefect.cli.files.writer import write_new

    async def read(client: "Client") -> bytes:
        application = await find_application(client, app)
        return await client.get_raw(f"/app/{application['id']}/definition.json")

    source = call_facade(url, read)
    if output and str(output) != STDIN:
        write_new(output, source)
    else:
        sys.stdout.buffer.write(source)


add_list(group, APPS)


@group.command()
def show(app: App, as_json: Json = False, url: Url = None, lang: Lang = None) -> None:
    """Show an application: its description, variables, exit codes and data.

    Example: jobauto app show Probe --lang cs
    """
    from jobauto_prefect.cli.connection.client import call_facade
    from jobauto_prefect.compiler import describe_application
    from jobauto_prefect.definitions import parse
    from jobauto_prefect.settings import load_settings

    record = call_facade(url, lambda client: find_application(client, app))
    if as_json:
        print_json(record)
        return
    ours = ("id", "uuid", "enabled", "executable", "prefect_url", "created_at", "updated_at")
    print_record({name: record.get(name) for name in ours})
    print_markdown(describe_application(parse(record), lang or load_settings().language))


@group.command()
def enable(app: App, as_json: Json = False, url: Url = None) -> None:
    """Allow an application to start again.

    Example: jobauto app enable Probe
    """
    _set_enabled(app, True, as_json, url)


@group.command()
def disable(app: App, as_json: Json = False, url: Url = None) -> None:
    """Stop an application from starting; running jobs continue.

    Example: jobauto app disable Probe
    """
    _set_enabled(app, False, as_json, url)


def _set_enabled(app: str, enabled: bool, as_json: bool, url: str | None) -> None:

    async def work(client: "Client") -> Any:
        application = await find_application(client, app)
        changed = await client.post("app", {"id": application["id"], "enabled": enabled})
        await client.wait_for_prefect()
        return changed

    call_and_print(
        url,
        work,
        as_json,
        lambda record: f"application {record['id']} is {'enabled' if enabled else 'disabled'}",
        writes=True,
    )


@group.command()
def delete(app: App, yes: Yes = False, as_json: Json = False, url: Url = None) -> None:
    """Delete an application that no run template uses.

    Lists no longer show it, but it is kept for history.

    Example: jobauto app delete Probe --yes
    """
    from jobauto_prefect.cli.records.edits import delete_record

    delete_record("app", app, yes, as_json, url)


@group.command()
def versions(app: App, as_json: Json = False, url: Url = None) -> None:
    """List an application's former definitions, the latest first.

    To compare one with the current definition: jobauto app diff APP@NUMBER APP

    Example: jobauto app versions Probe
    """
    from jobauto_prefect.cli.connection.client import call_facade

    async def read(client: "Client") -> Mapping[str, Any]:
        application = await find_application(client, app)
        former: Mapping[str, Any] = await client.get(f"/app/{application['id']}/versions.json")
        return former

    former = call_facade(url, read)
    if as_json:
        print_json(former)
        return
    columns = ("number", "version", "replaced at", "replaced by")
    rows = [
        (
            number,
            definition["version"],
            format_time(definition["replaced_at"]),
            definition["replaced_by"],
        )
        for number, definition in reversed([*former.items()])
    ]
    print_table(columns, rows)
    if not rows:
        print_hint("no former definitions: it was imported once")


@group.command()
def diff(a: Side, b: Side, as_json: Json = False, url: Url = None) -> None:
    """Show the differences between two definitions, key by key.

    Examples: jobauto app diff Probe probe.app.json · jobauto app diff Probe@2 Probe
    """
    from jobauto_prefect.cli.connection.client import call_facade
    from jobauto_prefect.cli.files.differences import find_differences, print_differences

    async def fetch(client: "Client") -> "dict[str, NamedDefinition]":
        words = [word for word in (a, b) if not is_file(word)]
        return {word: await fetch_definition(client, word) for word in words}

    sides = {word: read_definition(word) for word in (a, b) if is_file(word)}
    if len(sides) < len({a, b}):
        sides |= call_facade(url, fetch)
    changes = list(find_differences(sides[a].document, sides[b].document))
    if as_json:
        print_json({"equal": not changes, "differences": [change.as_dict() for change in changes]})
    else:
        print_differences(sides[a].title, sides[b].title, changes)
