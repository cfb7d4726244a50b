"""`jobauto up`: everything on one machine, in the foreground."""

import json
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from jobauto_prefect.cli.options import Json

if TYPE_CHECKING:
    from jobauto_prefect.settings import Settings


def up(
    api_port: Annotated[
        int | None,
        typer.Option(
            min=1, max=65535, help="Port of the REST facade. Default: the last one, else 8000."
        ),
    ] = None,
    prefect_port: Annotated[
        int | None,
        typer.Option(min=1, max=65535, help="Port of Prefect. Default: the last one, else 4200."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Run everything on this machine: Prefect, the facade, the services and a worker.

    It runs until Ctrl-C or SIGTERM; jobs may then finish, and a second signal shortens that. The
    first time it makes the key, the tables and the user admin, and prints its password once.
    """
    from jobauto_prefect.cli.installation import prepare, require_free
    from jobauto_prefect.cli.ports import ports_of, remember
    from jobauto_prefect.cli.program import own_settings
    from jobauto_prefect.cli.running import holding
    from jobauto_prefect.cli.service import stages
    from jobauto_prefect.cli.supervision import ServicePlan, become
    from jobauto_prefect.home import make_home
    from jobauto_prefect.settings import load_settings

    given = {"api_port": api_port, "prefect_port": prefect_port}
    settings = own_settings(load_settings, **ports_of(load_settings(), given))
    addresses = {"url": settings.url, "prefect_api_url": settings.prefect_api_url}
    make_home(settings)
    with holding(settings.home, addresses) as lock:
        require_free(settings.api_host, settings.api_port, "--api-port")
        require_free(settings.api_host, settings.prefect_port, "--prefect-port")
        remember(settings)
        prepared = prepare(settings)
        prepared.ledger.close()
        if prepared.password is not None:  # said first: it must not be lost with what may fail
            _tell_password(prepared.password, as_json)
        plan = ServicePlan(
            stages(settings, prepared),
            str(settings.home),
            as_json,
            {
                "facade": settings.url,
                "prefect": settings.prefect_ui,
                "jobs": str(settings.work_directory),
            },
            _ready(settings),
            f"Stopping; running jobs have {settings.grace_seconds:.0f} s to finish."
            " Again shortens it.",
        )
        become(plan, lock)


def _tell_password(password: str, as_json: bool) -> None:
    """The user admin has been created."""
    from jobauto_prefect.cli.show import say

    if as_json:
        sys.stdout.write(json.dumps({"event": "admin", "login": "admin", "password": password}))
        sys.stdout.write("\n")
    else:
        say(f"Sign in as admin with the password {password} (it is shown only now)")


def _ready(settings: "Settings") -> list[str]:
    from jobauto_prefect.cli.addresses import people_open

    opened = people_open(settings.url, settings.prefect_ui)
    return [
        "",
        *(f"  {what:<11}  {address}" for what, address in opened.items()),
        f"  Work pool    {settings.pool}",
        f"  Home         {settings.home}  (logs in {settings.home / 'logs'})",
        f"  Jobs         {_place_of_jobs(settings)}",
        "",
        "All ask for a login and its password; Prefect's UI for LOGIN:PASSWORD.",
        "Ready. Ctrl-C ends it.",
    ]


def _place_of_jobs(settings: "Settings") -> str:
    if not settings.run_as:
        return f"in {settings.work_directory}, as this user"
    named = ", ".join(settings.run_as)
    return f"in {settings.work_directory}, outside of the home, as {named}"
