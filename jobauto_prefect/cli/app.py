"""All commands. A command's modules are imported when it runs, which keeps `--help` fast."""

from typing import Annotated

import typer

from jobauto_prefect import __version__
from jobauto_prefect.cli.commands import (
    apply,
    apps,
    audit,
    backup,
    database,
    demo,
    doctor,
    events,
    export,
    files,
    forecast,
    jobs,
    maintenance,
    parts,
    prune,
    reconcile,
    record_groups,
    tasks,
    top,
    up,
    users,
    workers,
)
from jobauto_prefect.cli.completion import use_safe_completion

use_safe_completion()
app = typer.Typer(
    name="jobauto",
    help="Job automation on Prefect: describe applications once, run them per company, "
    "know how each run ended.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"jobauto {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
) -> None:
    """Job automation on Prefect."""


WHOLE = "Everything on one machine"
WORK = "Applications and jobs"
RECORDS = "Records"
PEOPLE = "People"
INSTALLATION = "The installation and its parts"

app.command(rich_help_panel=WHOLE)(up.up)
app.command(rich_help_panel=WHOLE)(demo.demo)
app.command(rich_help_panel=WORK)(apply.plan)
app.command(rich_help_panel=WORK)(apply.apply)
app.command(rich_help_panel=WORK)(reconcile.reconcile)
app.command(rich_help_panel=WORK)(export.export)
app.command(rich_help_panel=WORK)(jobs.run)
app.command(rich_help_panel=WORK)(forecast.forecast)
app.command(rich_help_panel=WORK)(top.top)
app.command(rich_help_panel=INSTALLATION)(doctor.doctor)
app.command(rich_help_panel=INSTALLATION)(files.files)
app.command(rich_help_panel=INSTALLATION)(maintenance.pause)
app.command(rich_help_panel=INSTALLATION)(maintenance.resume)
app.command(rich_help_panel=INSTALLATION)(prune.prune)
app.command(rich_help_panel=INSTALLATION)(backup.backup)
app.command(rich_help_panel=INSTALLATION)(backup.restore)
parts.worker.command("list")(workers.list_workers)
parts.worker.command("lost")(workers.mark_worker_lost)
for _name, _group, _panel in (
    ("job", jobs.group, WORK),
    ("app", apps.group, WORK),
    ("task", tasks.group, WORK),
    ("event", events.group, WORK),
    *((name, group, RECORDS) for name, group in record_groups.ALL.items()),
    ("user", users.users, PEOPLE),
    ("token", users.tokens, PEOPLE),
    ("audit", audit.group, PEOPLE),
    ("db", database.database, INSTALLATION),
    ("secrets", database.secrets, INSTALLATION),
    ("api", parts.api, INSTALLATION),
    ("prefect", parts.prefect, INSTALLATION),
    ("services", parts.services, INSTALLATION),
    ("worker", parts.worker, INSTALLATION),
):
    app.add_typer(_group, name=_name, rich_help_panel=_panel)
