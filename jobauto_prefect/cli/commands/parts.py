"""`jobauto api|prefect|services|worker start`: the parts of the service, one process each."""

import logging
import os
import sys
from collections.abc import Collection
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from jobauto_prefect.errors import NotReady
from jobauto_prefect.logs import log_to_stderr
from jobauto_prefect.variables import adopt_prefect_settings

if TYPE_CHECKING:
    from jobauto_prefect.settings import Settings

api = typer.Typer(help="The REST facade.", no_args_is_help=True)
prefect = typer.Typer(help="The Prefect server.", no_args_is_help=True)
services = typer.Typer(help="The background services.", no_args_is_help=True)
worker = typer.Typer(help="Workers: they run the jobs.", no_args_is_help=True)

logger = logging.getLogger(__name__)

TOKEN_VARIABLE = "JOBAUTO_WORKER_TOKEN"  # noqa: S105 - the name of a variable
GRACEFUL_SECONDS = 5
"""How long a stopping facade waits for open requests."""


@api.command("start")
def start_api(
    with_services: Annotated[
        bool, typer.Option("--services", help="Run the services in this process, too.")
    ] = False,
) -> None:
    """Run the REST facade until SIGINT or SIGTERM."""
    import uvicorn

    from jobauto_prefect.facade.server_options import server_options
    from jobauto_prefect.home import close_home
    from jobauto_prefect.ledger.opening import wait_for_tables
    from jobauto_prefect.settings import load_settings

    settings = load_settings()
    adopt_prefect_settings(of_server=True)
    log_to_stderr(settings.log_format)
    _warn()
    close_home(settings)
    wait_for_tables(settings)
    options = server_options(settings)
    logger.info("the facade listens on %s:%d", settings.api_host, settings.api_port)
    uvicorn.run(
        "jobauto_prefect.facade.main:application" + ("_with_services" if with_services else ""),
        factory=True,
        host=settings.api_host,
        port=settings.api_port,
        timeout_graceful_shutdown=GRACEFUL_SECONDS,
        **options,
    )


class Role(StrEnum):
    """What a Prefect server does; several of them share the work of one installation."""

    ALL = "all"  #: both of the following
    API = "api"  #: answers requests, behind the gateway
    SERVICES = "services"  #: runs Prefect's background services, such as its scheduler


@prefect.command("start")
def start_prefect(
    role: Annotated[
        Role,
        typer.Option(
            help="If several servers share the work, what this one does: answer requests (api), or"
            " run Prefect's background services (services). Both need JOBAUTO_REDIS_URL."
        ),
    ] = Role.ALL,
) -> None:
    """Run a Prefect server with its UI; the home has its files in the folder "prefect".

    People, programs and workers sign in to it with the same logins and tokens as to the facade.
    """
    import functools

    import uvicorn

    from jobauto_prefect.cli.local_ledger import open_local_ledger
    from jobauto_prefect.cli.service.installation import upgrade_prefect
    from jobauto_prefect.engine.parts import require_only_server
    from jobauto_prefect.engine.prefect_server.process import prefect_environment, prefect_names
    from jobauto_prefect.facade.server_options import server_options
    from jobauto_prefect.home import close_home
    from jobauto_prefect.ledger.opening import wait_for_tables
    from jobauto_prefect.settings import load_settings

    settings = load_settings()
    adopt_prefect_settings(of_server=True)
    log_to_stderr(settings.log_format)
    close_home(settings)
    wait_for_tables(settings)
    options = server_options(settings)
    if role is not Role.ALL and settings.redis_url is None:
        raise NotReady(
            f"--role {role} is for several servers, which share their work through Redis: set"
            " JOBAUTO_REDIS_URL, or run a single server: jobauto prefect start"
        )
    # Before Prefect is imported, because it then reads its settings.
    os.environ |= prefect_environment(settings, os.environ, with_services=role is not Role.API)
    if settings.redis_url is not None:
        _require_shareable(settings, role)
    else:
        with open_local_ledger() as ledger:
            require_only_server(ledger, settings)
    upgrade_prefect(settings)
    _give_block_key()
    _warn(prefect_names())
    if role is Role.SERVICES:
        from jobauto_prefect.engine.prefect_server.app import run_prefect_services

        logger.info("Prefect's background services start")
        with open_local_ledger() as ledger:
            run_prefect_services(settings, ledger)
        return
    from jobauto_prefect.facade.gateway.asgi import application

    logger.info("Prefect listens on %s:%d", settings.api_host, settings.prefect_port)
    uvicorn.run(
        functools.partial(application, with_services=role is Role.ALL),
        factory=True,
        host=settings.api_host,
        port=settings.prefect_port,
        timeout_graceful_shutdown=GRACEFUL_SECONDS,
        **options,
    )


def _require_shareable(settings: "Settings", role: Role) -> None:
    """Check what several Prefect servers share.

    Raises:
        NotReady: Redis does not answer, or servers apart have a database that they can't share.
    """
    import asyncio

    from jobauto_prefect.engine.prefect_server.database import prefect_database_url
    from jobauto_prefect.engine.prefect_server.redis import eviction_policy

    asyncio.run(eviction_policy(settings))
    if role is not Role.ALL and not prefect_database_url(settings).startswith("postgresql"):
        raise NotReady(
            f"--role {role} is for several servers, which can't share Prefect's SQLite database:"
            " set PREFECT_SERVER_DATABASE_CONNECTION_URL to postgresql+asyncpg://…"
        )


def _warn(prefect_names: Collection[str] | None = None) -> None:
    """Warn of unknown settings and of a Prefect that is not tested."""
    from jobauto_prefect.cli.checks.prefect_version import untested_prefect
    from jobauto_prefect.cli.checks.setting_names import unread_names

    for message in (*unread_names(prefect_names), *untested_prefect()):
        logger.warning(message)


def _give_block_key() -> None:
    """Make Prefect encrypt its blocks with a key that is not in its database.

    A key in the environment stays. The variable is only set in this process, because its user's
    other processes could read its initial environment.
    """
    import asyncio

    from jobauto_prefect.cli.local_ledger import open_local_ledger
    from jobauto_prefect.engine.prefect_server.block_encryption import reencrypt_blocks
    from jobauto_prefect.engine.prefect_server.process import BLOCK_KEY
    from jobauto_prefect.ledger.store import prefect_key

    if not os.environ.get(BLOCK_KEY):
        with open_local_ledger() as ledger:
            os.environ[BLOCK_KEY] = prefect_key(ledger)
    taken = asyncio.run(reencrypt_blocks(os.environ[BLOCK_KEY]))
    if taken:
        logger.info("%d blocks are now encrypted with the service's key", taken)


@services.command("start")
def start_services() -> None:
    """Run the outbox, the reaper of lost jobs, the reconciler, events and the other services."""
    import asyncio
    import contextlib
    import signal

    from jobauto_prefect.cli.local_ledger import open_local_ledger
    from jobauto_prefect.facade.main import serve_services
    from jobauto_prefect.home import close_home
    from jobauto_prefect.ledger.opening import wait_for_tables
    from jobauto_prefect.settings import load_settings

    settings = load_settings()
    adopt_prefect_settings(of_server=True)
    log_to_stderr(settings.log_format)
    _warn()
    close_home(settings)
    wait_for_tables(settings)

    async def serve_until_stopped() -> None:
        serving = asyncio.create_task(serve_services(settings, ledger))
        # The first process of a container gets no signal that it does not handle.
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, serving.cancel)
        with contextlib.suppress(asyncio.CancelledError):
            await serving

    with open_local_ledger() as ledger:
        asyncio.run(serve_until_stopped())


@worker.command("start")
def start_worker(
    pool: Annotated[str, typer.Option("--pool", metavar="NAME", help="Work pool it serves.")],
    name: Annotated[
        str | None,
        typer.Option("--name", metavar="NAME", help="Its name. Default: host and pool."),
    ] = None,
    limit: Annotated[
        int | None,
        typer.Option("--limit", metavar="N", min=1, help="Maximum number of concurrent jobs."),
    ] = None,
    run_as: Annotated[
        list[str] | None,
        typer.Option(
            "--run-as",
            metavar="[ID=]USER",
            help="User that native jobs run as: of all companies, or of the one with this ID. "
            "Needs root; may be repeated.",
        ),
    ] = None,
    token_file: Annotated[
        Path | None,
        typer.Option("--token-file", metavar="FILE", help="File with its token."),
    ] = None,
) -> None:
    """Run a worker until SIGINT or SIGTERM.

    Its jobs then get time to finish; a second signal shortens that time. The token is read
    from the file or JOBAUTO_WORKER_TOKEN. To create one: jobauto token issue --worker --pool NAME
    """
    import asyncio

    from pydantic import SecretStr

    from jobauto_prefect.cli.service.supervisor import signal_ready

    adopt_prefect_settings(of_server=False)
    from jobauto_prefect.engine.worker.jobauto_worker import run_worker
    from jobauto_prefect.home import close_home
    from jobauto_prefect.settings import load_settings

    if token_file is None:
        _leave_token_out_of_environment()
    given: dict[str, Any] = (
        {"worker_token": SecretStr(_read_token(token_file))} if token_file else {}
    )
    settings = load_settings(**given, **_neighbours(load_settings()))
    log_to_stderr(settings.log_format)
    _warn()
    close_home(settings)
    asyncio.run(run_worker(settings, pool, name, limit, run_as or (), signal_ready))


def _neighbours(settings: "Settings") -> dict[str, str]:
    """Return the addresses of this home's service that the settings do not set.

    Its ports may come from its command line, now or at its last start.
    """
    from jobauto_prefect.cli.service.addresses import choose_ports, read_addresses, read_ports
    from jobauto_prefect.cli.service.program import load_service_settings
    from jobauto_prefect.settings import load_settings

    addresses = read_addresses(settings.home)
    if not addresses and read_ports(settings.home):
        last = load_service_settings(load_settings, **choose_ports(settings, {}))
        addresses = {"url": last.url, "prefect_api_url": last.prefect_api_url}
    return {n: text for n, text in addresses.items() if n not in settings.model_fields_set}


def _read_token(file: Path) -> str:
    try:
        return file.read_text().strip()
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        message = f"{file} can't be read: {reason}"
        raise typer.BadParameter(message, param_hint="--token-file") from None


def _leave_token_out_of_environment() -> None:
    """Restart this program with the token in a pipe if it is in the environment.

    A process's initial environment stays readable for jobs of the same user, and for root's even if
    the process hides its memory.
    """
    token = os.environ.pop(TOKEN_VARIABLE, None)
    if token is None:
        return
    reading, writing = os.pipe()
    os.write(writing, token.encode())
    os.close(writing)
    os.set_inheritable(reading, True)
    again = [sys.executable, *sys.orig_argv[1:], "--token-file", f"/dev/fd/{reading}"]
    os.execv(sys.executable, again)  # noqa: S606 - this very program
