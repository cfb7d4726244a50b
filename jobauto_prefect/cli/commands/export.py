"""`jobauto export`: writes the existing records as files for `jobauto apply`."""

from pathlib import Path
from typing import Annotated

import typer

from jobauto_prefect.cli.options import Url
from jobauto_prefect.cli.output.terminal import print_line
from jobauto_prefect.cli.records.lookup import fetch_record_index
from jobauto_prefect.errors import Conflict
from jobauto_prefect.wording import escape_controls, pluralize


def export(
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="FOLDER", help="A new folder; default: standard output."
        ),
    ] = None,
    company: Annotated[
        list[str] | None,
        typer.Option(
            "--company", metavar="SLUG", help="Only records of this company, and what they need."
        ),
    ] = None,
    label: Annotated[
        list[str] | None,
        typer.Option("--label", metavar="LABEL", help="Only records with this label."),
    ] = None,
    url: Url = None,
) -> None:
    """Write records to files from which jobauto apply can create them.

    Files contain no secret values: a comment names those left out. With --output, the folder gets a
    file for each company, and the definitions exactly as they were imported. Standard output gets
    everything as one YAML text.

    Examples: jobauto export -o deployments/ · jobauto export --company acme > acme.yaml
    """
    from jobauto_prefect.cli.connection.client import Client, call_facade
    from jobauto_prefect.cli.files.writer import select_records, write_records

    if output is not None and output.exists() and any(output.iterdir()):
        raise Conflict(f"{output} is not empty; name a new folder")

    async def read(client: Client) -> dict[str, bytes]:
        index = await fetch_record_index(client)
        chosen = select_records(index, company or (), label or ())
        return await write_records(client, index, chosen, apart=output is not None)

    files = call_facade(url, read)
    if output is None:
        typer.echo(files.get("records.yaml", b"").decode(), nl=False)
        return
    for name, content in files.items():
        (output / name).parent.mkdir(parents=True, exist_ok=True)
        (output / name).write_bytes(content)
        print_line(escape_controls(str(output / name)))
    print_line(pluralize(len(files), "file"))
