"""`jobauto app`: application definitions."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from jobauto_prefect.cli.completing import names_of
from jobauto_prefect.cli.listing import add_list
from jobauto_prefect.cli.options import Json, Lang, Paths, Url, Yes
from jobauto_prefect.cli.tables import APPS

if TYPE_CHECKING:
    from jobauto_prefect.cli.importing import Imported
    from jobauto_prefect.cli.lookup import Named

group = typer.Typer(help="Applications and their definitions.", no_args_is_help=True)

App = Annotated[
    str,
    typer.Argument(
        metavar="APP",
        help="Its id, its UUID, or its name in any language.",
        autocompletion=names_of("app"),
    ),
]
Side = Annotated[
    str,
    typer.Argument(
        help="A file, or an application by id, UUID or name, or with @NUMBER or @VERSION "
        "one of its former definitions."
    ),
]
Output = Annotated[
    Path | None, typer.Option("--output", "-o", metavar="OUT", help="Write to this new file.")
]
STDIN = "-"


@group.command()
def validate(paths: Paths, as_json: Json = False) -> None:
    """Judge application definitions and records: every fault and warning, with its place and line.

    In folders all JSON and YAML files are judged. What refers to what, `jobauto plan` judges.

    Examples: jobauto app validate probe.app.json · jobauto app validate apps/ --json
    """
    from jobauto_prefect.cli.files import files_of
    from jobauto_prefect.cli.judging import judged, tell
    from jobauto_prefect.cli.show import print_json

    verdicts = [judged(file) for file in files_of(paths)]
    valid = not any(verdict.faults for verdict in verdicts)
    if as_json:
        print_json({"valid": valid, "files": [verdict.as_dict() for verdict in verdicts]})
    else:
        tell(verdicts)
    if not valid:
        raise typer.Exit(1)


@group.command()
def upgrade(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A definition, or - for stdin.")],
    output: Output = None,
    in_place: Annotated[bool, typer.Option("--in-place", help="Change the file itself.")] = False,
    allow_invalid: Annotated[
        bool, typer.Option("--allow-invalid", help="Write the file also where faults are left.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Turn an older definition into a valid one, and tell what was changed.

    What is not changed stays as it is written. Without -o and --in-place the new definition is
    printed. Exit code 1: something is left that only a person can decide; where the definition
    would still be invalid, no file is written.

    Examples: jobauto app upgrade old.json -o new.json · jobauto app upgrade old.json --in-place
    """
    from jobauto_prefect.cli.show import hint
    from jobauto_prefect.cli.upgrading import replace_file, report, upgraded, write_new

    if str(file) != STDIN and not file.is_file():
        raise typer.BadParameter(f"there is no file {file}", param_hint="FILE")
    if in_place and (output or str(file) == STDIN):
        raise typer.BadParameter("--in-place is for a file, and without --output")
    target = output if output and str(output) != STDIN else file if in_place else None
    done = upgraded(file, str(target or STDIN))
    if done.is_valid or allow_invalid:
        if target and in_place and done.changes:
            replace_file(target, done.text.encode())
        elif target and not in_place:
            write_new(target, done.text.encode())
    elif target:
        hint(f"{target} is not written: it would be invalid still; to write it: --allow-invalid")
        target = None if as_json else target
    report(done, target, as_json)
    if done.undecided:
        raise typer.Exit(1)


@group.command("import")
def import_(
    paths: Paths,
    force: Annotated[
        bool, typer.Option("--force", help="Take an older version over a newer one.")
    ] = False,
    as_json: Json = False,
    url: Url = None,
) -> None:
    """Take definitions into the service: by their UUID, else their name, new or in place of one.

    A fault in any file stops before the first import. The former definition is kept.

    Examples: jobauto app import probe.app.json · jobauto app import apps/ --force
    """
    from jobauto_prefect.cli.client import Client, speak
    from jobauto_prefect.cli.importing import documents_in, hint_warnings, take_in, tell
    from jobauto_prefect.cli.judging import tell_faults
    from jobauto_prefect.cli.show import hint, messages, print_json
    from jobauto_prefect.wording import counted

    documents, warnings = documents_in(paths, "app", ("app", None))
    imported: list[Imported] = []

    def done(one: "Imported") -> None:
        imported.append(one)
        if not as_json:
            tell(one)

    async def work(client: Client) -> int:
        await take_in(client, documents, force, done)
        return await client.wait_for_prefect()

    tell_faults(warnings, "warning", (), messages())
    waiting = speak(url, work, writes=True)
    hint_warnings(imported)
    if as_json:
        listed = [one.as_dict() for one in imported]
        print_json({"imported": listed, "waiting_for_prefect": waiting})
    elif waiting:
        left = counted(waiting, "change")
        hint(f"Prefect does not know {left} yet; it is told when it answers")
    if any(one.action == "refused" for one in imported):
        raise typer.Exit(1)


@group.command()
def export(app: App, output: Output = None, url: Url = None) -> None:
    """Print the definition of an application, byte for byte as it was imported.

    Example: jobauto app export Probe -o probe.app.json
    """
    import sys

    from jobauto_prefect.cli.client import Client, speak
    from jobauto_prefect.cli.lookup import application
    from jobauto_prefect.cli.upgrading import write_new

    async def read(client: Client) -> bytes:
        found = await application(client, app)
        return await client.get_raw(f"/app/{found['id']}/definition.json")

    source = speak(url, read)
    if output and str(output) != STDIN:
        write_new(output, source)
    else:
        sys.stdout.buffer.write(source)


add_list(group, APPS)


@group.command()
def show(app: App, as_json: Json = False, url: Url = None, lang: Lang = None) -> None:
    """Show an application: what it is, its variables, exit codes and data.

    Example: jobauto app show Probe --lang cs
    """
    from jobauto_prefect.cli.client import speak
    from jobauto_prefect.cli.lookup import application
    from jobauto_prefect.cli.show import print_json, print_markdown, print_members
    from jobauto_prefect.compiler import describe_application
    from jobauto_prefect.definitions import parse
    from jobauto_prefect.settings import load_settings

    record = speak(url, lambda client: application(client, app))
    if as_json:
        print_json(record)
        return
    ours = ("id", "uuid", "enabled", "executable", "prefect_url", "created_at", "updated_at")
    print_members({name: record.get(name) for name in ours})
    print_markdown(describe_application(parse(record), lang or load_settings().language))


@group.command()
def enable(app: App, as_json: Json = False, url: Url = None) -> None:
    """Let an application be started again.

    Example: jobauto app enable Probe
    """
    _switch(app, True, as_json, url)


@group.command()
def disable(app: App, as_json: Json = False, url: Url = None) -> None:
    """Let nothing of an application start any more; what runs goes on.

    Example: jobauto app disable Probe
    """
    _switch(app, False, as_json, url)


def _switch(app: str, enabled: bool, as_json: bool, url: str | None) -> None:
    from jobauto_prefect.cli.client import Client, speak
    from jobauto_prefect.cli.lookup import application
    from jobauto_prefect.cli.show import print_json, say

    async def work(client: Client) -> Any:
        found = await application(client, app)
        changed = await client.post("app", {"id": found["id"], "enabled": enabled})
        await client.wait_for_prefect()
        return changed

    record = speak(url, work, writes=True)
    if as_json:
        print_json(record)
    else:
        say(f"application {record['id']} is {'enabled' if enabled else 'disabled'}")


@group.command()
def delete(app: App, yes: Yes = False, as_json: Json = False, url: Url = None) -> None:
    """Delete an application that no run template uses; it is kept for history.

    Example: jobauto app delete Probe --yes
    """
    from jobauto_prefect.cli.editing import remove

    remove("app", app, yes, as_json, url)


@group.command()
def versions(app: App, as_json: Json = False, url: Url = None) -> None:
    """List the definitions an application had before, the latest first.

    Their numbers are for: jobauto app diff APP@NUMBER APP

    Example: jobauto app versions Probe
    """
    from jobauto_prefect.cli.client import Client, speak
    from jobauto_prefect.cli.lookup import application
    from jobauto_prefect.cli.show import hint, moment, print_json, print_table

    async def read(client: Client) -> Mapping[str, Any]:
        found = await application(client, app)
        known: Mapping[str, Any] = await client.get(f"/app/{found['id']}/versions.json")
        return known

    known = speak(url, read)
    if as_json:
        print_json(known)
        return
    columns = ("number", "version", "replaced at", "replaced by")
    rows = [
        (number, one["version"], moment(one["replaced_at"]), one["replaced_by"])
        for number, one in reversed([*known.items()])
    ]
    print_table(columns, rows)
    if not rows:
        hint("there are none: it was imported once")


@group.command()
def diff(a: Side, b: Side, as_json: Json = False, url: Url = None) -> None:
    """Show what is different between two definitions, member by member.

    Examples: jobauto app diff Probe probe.app.json · jobauto app diff Probe@2 Probe
    """
    from jobauto_prefect.cli.differences import differences, tell
    from jobauto_prefect.cli.lookup import from_file, is_file
    from jobauto_prefect.cli.show import print_json

    sides = {word: from_file(word) for word in (a, b) if is_file(word)}
    if len(sides) < len({a, b}):
        sides |= _definitions([word for word in (a, b) if not is_file(word)], url)
    found = list(differences(sides[a].document, sides[b].document))
    if as_json:
        print_json({"equal": not found, "differences": [each.as_dict() for each in found]})
    else:
        tell(sides[a].title, sides[b].title, found)


def _definitions(words: list[str], url: str | None) -> "dict[str, Named]":
    from jobauto_prefect.cli.client import Client, speak
    from jobauto_prefect.cli.lookup import definition

    async def read(client: Client) -> "dict[str, Named]":
        return {word: await definition(client, word) for word in words}

    return speak(url, read)
