"""`jobauto up`: everything on one machine, in the foreground."""

import json
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from jobauto_prefect.cli.options import Json

if TYPE_CHECKING:
    from jobauto_prefect.cli.installation import Prepared
    from jobauto_prefect.settings import Settings


def up(
    api_port: Annotated[
        int | None, typer.Option(min=1, max=65535, help="Port of the REST facade. Default: 8000.")
    ] = None,
    prefect_port: Annotated[
        int | None, typer.Option(min=1, max=65535, help="Port of Prefect. Default: 4200.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Run everything on this machine: Prefect, the facade, the services and a worker.

    It runs until Ctrl-C or SIGTERM; jobs may then finish, and a second signal shortens that. The
    first time it makes the key, the tables and the user admin, and prints its password once.
    """
    import asyncio

    from jobauto_prefect.cli.installation import prepare, require_free
    from jobauto_prefect.cli.program import own_settings
    from jobauto_prefect.cli.running import holding
    from jobauto_prefect.settings import load_settings

    settings = own_settings(load_settings, api_port=api_port, prefect_port=prefect_port)
    addresses = {"url": settings.url, "prefect_api_url": settings.prefect_api_url}
    with holding(settings.home, addresses):
        require_free(settings.api_host, settings.api_port, "--api-port")
        require_free(settings.api_host, settings.prefect_port, "--prefect-port")
        prepared = prepare(settings)
        try:
            asyncio.run(_run(settings, prepared, as_json))
        finally:
            prepared.ledger.close()


async def _run(settings: "Settings", prepared: "Prepared", as_json: bool) -> None:
    from jobauto_prefect.cli.service import Asked, running

    asked = Asked()
    asked.listen()
    tell = _Told(as_json)
    if prepared.password is not None:  # said first: it must not be lost with what may fail
        tell.admin(prepared.password)
    async with running(settings, prepared, asked, tell.part) as ready:
        if ready:
            tell.ready(settings)
            await asked.stop.wait()
        tell.stopping(settings)


class _Told:
    """What people, or with --json programs, are told of the service: an event a line."""

    def __init__(self, as_json: bool) -> None:
        self._as_json = as_json
        self._started: set[str] = set()

    def admin(self, password: str) -> None:
        """The user admin has been created."""
        if self._as_json:
            self._event("admin", login="admin", password=password)
        else:
            self._say(f"Sign in as admin with the password {password} (it is shown only now)")

    def part(self, name: str, event: str, number: int | None) -> None:
        """A part has started (its process id) or ended (its exit code)."""
        if self._as_json:
            key = "pid" if event == "started" else "exit_code"
            self._event(event, part=name, **{key: number})
        elif event == "ended":
            self._say(f"{name} ended with exit code {number}; it is started again")
        else:
            self._say(f"{name} runs again" if name in self._started else f"starting {name} …")
        self._started.add(name)

    def ready(self, settings: "Settings") -> None:
        """All parts do their work."""
        if self._as_json:
            self._event("ready", facade=settings.url, prefect=settings.prefect_ui)
            return
        self._say("")
        self._say(f"  Prefect UI   {settings.prefect_ui}")
        self._say(f"  REST facade  {settings.url}/api/v1")
        self._say(f"  Work pool    {settings.pool}")
        self._say(f"  Home         {settings.home}  (logs in {settings.home / 'logs'})")
        self._say("")
        self._say("Both ask for a login and its password; Prefect's UI for LOGIN:PASSWORD.")
        self._say("Ready. Ctrl-C ends it.")

    def stopping(self, settings: "Settings") -> None:
        """The parts are being ended."""
        if self._as_json:
            self._event("stopping")
        else:
            grace = f"{settings.grace_seconds:.0f} s"
            self._say(f"Stopping; running jobs have {grace} to finish. Again shortens it.")

    def _say(self, line: str) -> None:
        from jobauto_prefect.cli.show import say

        say(line)
        sys.stdout.flush()

    def _event(self, event: str, **members: Any) -> None:
        sys.stdout.write(json.dumps({"event": event, **members}) + "\n")
        sys.stdout.flush()
