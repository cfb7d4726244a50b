"""All commands. What a command needs is imported when it runs: `--help` stays quick."""

from typing import Annotated

import typer

from jobauto_prefect import __version__
from jobauto_prefect.cli import (
    applying,
    apps,
    audit,
    backup,
    demo,
    doctor,
    events,
    exporting,
    forecasting,
    groups,
    jobs,
    local,
    maintenance,
    parts,
    pruning,
    reconciling,
    tasks,
    top,
    up,
    users,
    workers,
)

app = typer.Typer(
    name="jobauto",
    help="Job automation on Prefect: describe applications once, run them per company, "
    "know what came of it.",
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
    debug: Annotated[bool, typer.Option("--debug", help="Show where an error came from.")] = False,
) -> None:
    """Job automation on Prefect."""


WHOLE = "Everything on one machine"
WORK = "Applications and jobs"
RECORDS = "Records"
PEOPLE = "People"
INSTALLATION = "The installation and its parts"

app.command(rich_help_panel=WHOLE)(up.up)
app.command(rich_help_panel=WHOLE)(demo.demo)
app.command(rich_help_panel=WORK)(applying.plan)
app.command(rich_help_panel=WORK)(applying.apply)
app.command(rich_help_panel=WORK)(reconciling.reconcile)
app.command(rich_help_panel=WORK)(exporting.export)
app.command(rich_help_panel=WORK)(jobs.run)
app.command(rich_help_panel=WORK)(forecasting.forecast)
app.command(rich_help_panel=WORK)(top.top)
app.command(rich_help_panel=INSTALLATION)(doctor.doctor)
app.command(rich_help_panel=INSTALLATION)(maintenance.pause)
app.command(rich_help_panel=INSTALLATION)(maintenance.resume)
app.command(rich_help_panel=INSTALLATION)(pruning.prune)
app.command(rich_help_panel=INSTALLATION)(backup.backup)
app.command(rich_help_panel=INSTALLATION)(backup.restore)
parts.worker.command("list")(workers.list_workers)
parts.worker.command("lost")(workers.lose_worker)
for _name, _group, _panel in (
    ("job", jobs.group, WORK),
    ("app", apps.group, WORK),
    ("task", tasks.group, WORK),
    ("event", events.group, WORK),
    *((name, group, RECORDS) for name, group in groups.ALL.items()),
    ("user", users.users, PEOPLE),
    ("token", users.tokens, PEOPLE),
    ("audit", audit.group, PEOPLE),
    ("db", local.database, INSTALLATION),
    ("secrets", local.secrets, INSTALLATION),
    ("api", parts.api, INSTALLATION),
    ("prefect", parts.prefect, INSTALLATION),
    ("services", parts.services, INSTALLATION),
    ("worker", parts.worker, INSTALLATION),
):
    app.add_typer(_group, name=_name, rich_help_panel=_panel)
