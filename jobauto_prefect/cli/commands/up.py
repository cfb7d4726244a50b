"""`jobauto up`: everything on one machine, in the foreground."""

import json
import os
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from jobauto_prefect.cli.options import Json
from jobauto_prefect.cli.output.terminal import print_hint, print_line
from jobauto_prefect.errors import Conflict
from jobauto_prefect.wording import escape_controls

if TYPE_CHECKING:
    from jobauto_prefect.cli.service.process import PartPlan
    from jobauto_prefect.settings import Settings


def up(
    api_port: Annotated[
        int | None,
        typer.Option(
            min=1, max=65535, help="Port of the REST facade. Default: the one used last, or 8000."
        ),
    ] = None,
    prefect_port: Annotated[
        int | None,
        typer.Option(
            min=1, max=65535, help="Port of Prefect. Default: the one used last, or 4200."
        ),
    ] = None,
    with_examples: Annotated[
        bool,
        typer.Option("--examples", help="Apply the examples, and put their programs on the PATH."),
    ] = False,
    as_json: Json = False,
) -> None:
    """Run everything on this machine: Prefect, the facade, the services and a worker.

    It runs until Ctrl-C or SIGTERM, and then gives jobs time to finish; a second signal shortens
    that time. The first start creates the key, the tables and the user admin, and prints admin's
    password once.
    """
    from jobauto_prefect.cli.checks.prefect_version import untested_prefect
    from jobauto_prefect.cli.checks.setting_names import unread_names
    from jobauto_prefect.cli.service.addresses import choose_ports, hold_home, save_ports
    from jobauto_prefect.cli.service.installation import prepare_home, require_free
    from jobauto_prefect.cli.service.process import ServicePlan, replace_process
    from jobauto_prefect.cli.service.program import load_service_settings
    from jobauto_prefect.cli.service.stages import plan_stages
    from jobauto_prefect.home import make_home
    from jobauto_prefect.settings import load_settings

    given = {"api_port": api_port, "prefect_port": prefect_port}
    settings = load_service_settings(load_settings, **choose_ports(load_settings(), given))
    addresses = {"url": settings.url, "prefect_api_url": settings.prefect_api_url}
    for message in (*unread_names(), *untested_prefect()):
        print_hint(escape_controls(message))
    make_home(settings)
    with hold_home(settings.home, addresses) as lock:
        _await_last_worker(settings)
        require_free(settings.api_host, settings.api_port, "--api-port")
        require_free(settings.api_host, settings.prefect_port, "--prefect-port")
        save_ports(settings)
        prepared = prepare_home(settings)
        prepared.ledger.close()
        if prepared.password is not None:  # printed first, to be seen even if the rest fails
            text = f"Sign in as admin with the password {prepared.password} (it is shown only once)"
            if as_json:
                admin = {"event": "admin", "login": "admin", "password": prepared.password}
                sys.stdout.write(json.dumps(admin) + "\n")
            else:
                print_line(text)
        plan = ServicePlan(
            plan_stages(settings, prepared),
            str(settings.home),
            as_json,
            {
                "facade": settings.url,
                "prefect": settings.prefect_ui,
                "jobs": str(settings.work_directory),
            },
            _ready_lines(settings),
            f"Stopping; running jobs have {settings.grace_seconds:.0f} s to finish."
            " A second signal shortens that.",
            _plan_examples(settings) if with_examples else None,
        )
        replace_process(plan, lock)


def _plan_examples(settings: "Settings") -> "PartPlan":
    """Put the examples' programs on the PATH of all parts; return the command that applies them."""
    from jobauto_prefect.cli.commands.files import EXAMPLES, shipped
    from jobauto_prefect.cli.service.process import PartPlan
    from jobauto_prefect.cli.service.program import WITHHELD, part_variables, program_command

    folder = shipped(EXAMPLES)
    os.environ["PATH"] = os.pathsep.join([str(folder / "bin"), os.environ.get("PATH", os.defpath)])
    command = program_command("apply", str(folder), "--yes")
    return PartPlan("examples", command, part_variables(settings), WITHHELD)


def _await_last_worker(settings: "Settings") -> None:
    """Wait until the worker of a killed service has ended its jobs, and its ports are free."""
    import time

    from jobauto_prefect.cli.service.stages import MARGIN_SECONDS
    from jobauto_prefect.runtime.workspace import WorkerWorkspace
    from jobauto_prefect.settings import worker_name

    deadline = time.monotonic() + settings.grace_seconds + settings.stop_seconds + MARGIN_SECONDS
    name = worker_name(settings.pool)
    if not WorkerWorkspace.is_held(settings.work_directory, name):
        return
    print_hint("the previous worker is still ending its jobs; waiting for it …")
    while WorkerWorkspace.is_held(settings.work_directory, name) or not _ports_are_free(settings):
        if time.monotonic() > deadline:
            return  # the part that needs a taken port reports it
        time.sleep(0.2)


def _ports_are_free(settings: "Settings") -> bool:
    from jobauto_prefect.cli.service.installation import require_free

    try:
        for port in (settings.api_port, settings.prefect_port):
            require_free(settings.api_host, port, "")
    except Conflict:
        return False
    return True


def _ready_lines(settings: "Settings") -> list[str]:
    from jobauto_prefect.cli.service.addresses import public_addresses

    opened = public_addresses(settings.url, settings.prefect_ui)
    who = "as this user"
    if settings.run_as:
        who = f"outside of the home, as {', '.join(settings.run_as)}"
    return [
        "",
        *(f"  {what:<11}  {address}" for what, address in opened.items()),
        f"  Work pool    {settings.pool}",
        f"  Home         {settings.home}  (logs in {settings.home / 'logs'})",
        f"  Jobs         in {settings.work_directory}, {who}",
        "",
        "All ask for login and password; Prefect's UI asks for LOGIN:PASSWORD.",
        "Ready. Ctrl-C ends it.",
    ]
