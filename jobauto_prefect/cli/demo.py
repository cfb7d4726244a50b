"""`jobauto demo`: the service in a temporary home, with the examples, from nothing to outcomes."""

import os
import shutil
import socket
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from jobauto_prefect.cli.jobs import LIVE, duration_of
from jobauto_prefect.errors import JobautoError, NotReady

if TYPE_CHECKING:
    from rich.table import Table

    from jobauto_prefect.cli.client import Client
    from jobauto_prefect.cli.supervision import Asked
    from jobauto_prefect.settings import Settings

RUNS: tuple[tuple[str, Mapping[str, str], str], ...] = (
    ("acme/Root file system", {}, "succeeded"),
    ("acme/Load each minute", {}, "succeeded"),
    ("acme/Probe", {}, "succeeded"),
    ("acme/Probe", {"PROBE_EXIT_CODE": "3", "PROBE_GREETING": "-n $(date)"}, "warning"),
    ("acme/Probe that fails", {}, "failed"),
)
"""Run template, values of this job alone, and how it ends."""

OVER_WITHIN_SECONDS = 60.0
POLL_SECONDS = 0.25
OURS = ("JOBAUTO_", "DB_", "PREFECT_")


def demo(
    keep: Annotated[
        bool, typer.Option("--keep", help="Leave it running until Ctrl-C, to look around.")
    ] = False,
) -> None:
    """Start everything in a temporary home, run the examples, and show what came of them.

    It uses free ports, nothing of an installation there may be, and leaves nothing behind.
    """
    import asyncio

    started = time.monotonic()
    home = Path(tempfile.mkdtemp(prefix="jobauto-demo-"))
    try:
        _use_only(home)
        as_expected = asyncio.run(_demo(keep, started))
    finally:
        shutil.rmtree(home, ignore_errors=True)
    if not as_expected:
        raise typer.Exit(1)


def examples() -> Path:
    """The folder with the examples: of the installed package, or of the repository it is in.

    Raises:
        NotReady: there is neither.
    """
    package = Path(__file__).parent.parent
    for folder in (package / "examples", package.parent / "deployments" / "examples"):
        if folder.is_dir():
            return folder
    raise NotReady("the examples are not installed; install the package again")


def _use_only(home: Path) -> None:
    """Let this process and its children know of this home alone."""
    for name in list(os.environ):
        if name.startswith(OURS):
            del os.environ[name]
    api_port, prefect_port = _free_ports(2)
    programs = [str(examples() / "bin"), str(Path(sys.executable).parent)]
    os.environ |= {
        "JOBAUTO_HOME": str(home),
        "JOBAUTO_CONFIG_DIR": str(home),
        "JOBAUTO_API_PORT": str(api_port),
        "JOBAUTO_PREFECT_PORT": str(prefect_port),
        "JOBAUTO_URL": f"http://127.0.0.1:{api_port}",
        "PREFECT_API_URL": f"http://127.0.0.1:{prefect_port}/api",
        "JOBAUTO_GRACE_SECONDS": "3",
        "PATH": os.pathsep.join([*programs, os.environ.get("PATH", os.defpath)]),
    }


def _free_ports(count: int) -> list[int]:
    with ExitStack() as stack:
        probes = [stack.enter_context(socket.socket()) for _ in range(count)]
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [probe.getsockname()[1] for probe in probes]


async def _demo(keep: bool, started: float) -> bool:
    from jobauto_prefect.cli.installation import prepare
    from jobauto_prefect.cli.service import stages
    from jobauto_prefect.cli.show import say, seconds
    from jobauto_prefect.cli.supervision import Asked, ServicePlan, running
    from jobauto_prefect.settings import load_settings

    asked = Asked()
    asked.listen()
    settings = load_settings()
    say(f"Starting Prefect, the facade, the services and a worker in {settings.home} …")
    prepared = prepare(settings)
    prepared.ledger.close()
    plan = ServicePlan(stages(settings, prepared), str(settings.home))
    async with running(plan, asked, _tell_endings) as ready:
        if not ready:
            return False
        say(f"They run after {seconds(time.monotonic() - started)}.", style="dim")
        _print_addresses(settings, prepared.password)
        as_expected = await _show_examples(asked)
        if keep and not asked.stop.is_set():
            say("Look around; Ctrl-C ends it.")
            await asked.stop.wait()
    took = seconds(time.monotonic() - started)
    say(f"All of it is stopped and gone, after {took}. To look around: jobauto demo --keep")
    return as_expected


def _tell_endings(name: str, event: str, number: int | None) -> None:
    from jobauto_prefect.cli.show import say

    if event == "ended":
        say(f"{name} ended with exit code {number}; it is started again")


def _print_addresses(settings: "Settings", password: str | None) -> None:
    from jobauto_prefect.cli.show import say

    say(f"  Prefect UI   {settings.prefect_ui}/runs  (admin:{password})")
    say(f"  REST facade  {settings.url}/api/v1/index.json  (admin / {password})")


async def _show_examples(asked: "Asked") -> bool:
    from jobauto_prefect.cli.client import facade_at

    result = False

    async def work() -> None:
        nonlocal result
        async with facade_at(None, writes=True) as client:
            await _apply_examples(client)
            result = await _run_examples(client)

    await asked.unless_stopped(work())
    return result


async def _apply_examples(client: "Client") -> None:
    from jobauto_prefect.cli.applying import Wanted, carry_out, print_plan
    from jobauto_prefect.cli.show import say
    from jobauto_prefect.wording import counted

    say("\nApplying the examples:")
    wanted = Wanted.of([examples()])
    planned = await wanted.planned(client)
    print_plan(planned)
    _, waiting = await carry_out(client, wanted, planned)
    if waiting:
        raise JobautoError(f"Prefect was not told of {counted(waiting, 'change')}")


async def _run_examples(client: "Client") -> bool:
    from jobauto_prefect.cli.lookup import number_of
    from jobauto_prefect.cli.show import say

    say("\nRunning them:")
    expected = {}
    for template, env, state in RUNS:
        number = await number_of(client, "runtemplate", template)
        job = await client.post("job", {"runtemplate_id": number, "env": env})
        expected[job["id"]] = state
    jobs = await _until_over(client, expected)
    say("acme/Load each minute is scheduled: its next run begins with the next minute.\n")
    return all(jobs[number]["state"] == state for number, state in expected.items())


async def _until_over(client: "Client", numbers: Iterable[int]) -> dict[int, Any]:
    """Show the jobs until these are over; all jobs there are then."""
    import asyncio

    from rich.live import Live

    from jobauto_prefect.cli.show import console

    templates = await client.list("runtemplates")
    until = time.monotonic() + OVER_WITHIN_SECONDS
    with Live(console=console(), auto_refresh=False, transient=True) as live:
        while True:
            jobs = await client.list("jobs")
            table = _table(jobs, templates)
            live.update(table, refresh=console().is_terminal)
            if _are_over(jobs, numbers) or time.monotonic() > until:
                break
            await asyncio.sleep(POLL_SECONDS)
    console().print(table)
    return jobs


def _are_over(jobs: Mapping[int, Any], numbers: Iterable[int]) -> bool:
    return all(jobs[number]["state"] not in LIVE for number in numbers)


def _table(jobs: Mapping[int, Any], templates: Mapping[int, Any]) -> "Table":
    from jobauto_prefect.cli.show import table_of

    rows = []
    for number in sorted(jobs):
        job = jobs[number]
        name = templates[job["runtemplate_id"]]["name"]
        rows.append((number, name, job["state"], job["exitcode"], _meaning(job), duration_of(job)))
    return table_of(("job", "run template", "state", "exit", "meaning", "took"), rows)


def _meaning(job: Mapping[str, Any]) -> str:
    """The message without the exit code, which has a column of its own."""
    message = job["message"] or ""
    before, colon, after = message.partition(": ")
    return f"{job['severity']}: {after}" if colon and before.startswith("exit code") else message
