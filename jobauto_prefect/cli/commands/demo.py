"""`jobauto demo`: the service in a temporary home, with the examples, from start to results."""

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

from jobauto_prefect.cli.commands.files import EXAMPLES, shipped
from jobauto_prefect.cli.output.terminal import (
    LIVE,
    console,
    format_duration,
    format_seconds,
    make_table,
    print_line,
)
from jobauto_prefect.cli.records.lookup import find_id
from jobauto_prefect.errors import JobautoError
from jobauto_prefect.wording import pluralize

if TYPE_CHECKING:
    from rich.table import Table

    from jobauto_prefect.cli.connection.client import Client
    from jobauto_prefect.cli.service.process import StopRequest

RUNS: tuple[tuple[str, Mapping[str, str], str], ...] = (
    ("acme/Root file system", {}, "succeeded"),
    # However busy this machine is.
    ("acme/Load each minute", {"MAX_PER_CORE": "100000"}, "succeeded"),
    ("acme/Probe", {}, "succeeded"),
    ("acme/Probe", {"PROBE_EXIT_CODE": "3", "PROBE_GREETING": "-n $(date)"}, "warning"),
    ("acme/Probe that fails", {}, "failed"),
)
"""Run template, values of this job, and its expected end."""

OVER_WITHIN_SECONDS = 60.0
POLL_SECONDS = 0.25
FIRST_CHANGES_SECONDS = 60.0
"""How long Prefect's first changes may stall on a busy machine."""

OURS = ("JOBAUTO_", "DB_", "PREFECT_")


def demo(
    keep: Annotated[
        bool, typer.Option("--keep", help="Leave it running until Ctrl-C, to look around.")
    ] = False,
) -> None:
    """Start everything in a temporary home, run the examples, and show their results.

    It uses free ports, does not touch an existing installation, and leaves nothing behind.
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


def _use_only(home: Path) -> None:
    """Make this process and its children use only this home."""
    for name in list(os.environ):
        if name.startswith(OURS):
            del os.environ[name]
    with ExitStack() as stack:
        probes = [stack.enter_context(socket.socket()) for _ in range(2)]
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        api_port, prefect_port = (probe.getsockname()[1] for probe in probes)
    programs = [str(shipped(EXAMPLES) / "bin"), str(Path(sys.executable).parent)]
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


async def _demo(keep: bool, started: float) -> bool:
    from jobauto_prefect.cli.service.addresses import public_addresses
    from jobauto_prefect.cli.service.installation import prepare_home
    from jobauto_prefect.cli.service.process import ServicePlan, StopRequest, run_service
    from jobauto_prefect.cli.service.stages import plan_stages
    from jobauto_prefect.settings import load_settings

    asked = StopRequest()
    asked.listen()
    settings = load_settings()
    print_line(f"Starting Prefect, the facade, the services and a worker in {settings.home} …")
    prepared = prepare_home(settings)
    prepared.ledger.close()
    plan = ServicePlan(plan_stages(settings, prepared), str(settings.home))
    async with run_service(plan, asked, _report_end) as ready:
        if not ready:
            return False
        print_line(f"They run after {format_seconds(time.monotonic() - started)}.", style="dim")
        password = prepared.password
        for what, address in public_addresses(settings.url, settings.prefect_ui).items():
            print_line(f"  {what:<11}  {address}")
        print_line(f"Sign in as admin, password {password}; at Prefect's UI as admin:{password}")
        as_expected = await _show_examples(asked)
        if keep and not asked.stop.is_set():
            print_line("Look around; Ctrl-C ends it.")
            await asked.stop.wait()
    took = format_seconds(time.monotonic() - started)
    print_line(
        f"Everything is stopped and removed, after {took}. To look around: jobauto demo --keep"
    )
    return as_expected


def _report_end(name: str, event: str, number: int | None) -> None:
    if event == "ended":
        print_line(f"{name} ended with exit code {number}; restarting it")


async def _show_examples(asked: "StopRequest") -> bool:
    from jobauto_prefect.cli.connection.client import open_client

    result = False

    async def work() -> None:
        nonlocal result
        async with open_client(None, writes=True) as client:
            await _apply_examples(client)
            result = await _run_examples(client)

    await asked.unless_stopped(work())
    return result


async def _apply_examples(client: "Client") -> None:
    from jobauto_prefect.cli.commands.apply import ApplyRequest, apply_plan
    from jobauto_prefect.cli.output.plan import print_plan

    print_line("\nApplying the examples:")
    wanted = ApplyRequest.of([shipped(EXAMPLES)])
    planned = await wanted.planned(client)
    print_plan(planned)
    _, waiting = await apply_plan(client, wanted, planned)
    if waiting and await client.wait_for_prefect(patience_seconds=FIRST_CHANGES_SECONDS):
        raise JobautoError(f"Prefect did not receive {pluralize(waiting, 'change')}")


async def _run_examples(client: "Client") -> bool:
    print_line("\nRunning them:")
    expected = {}
    for template, env, state in RUNS:
        number = await find_id(client, "runtemplate", template)
        job = await client.post("job", {"runtemplate_id": number, "env": env})
        expected[job["id"]] = state
    jobs = await _watch_jobs(client, expected)
    print_line("acme/Load each minute is scheduled: its next run starts with the next minute.\n")
    return all(jobs[number]["state"] == state for number, state in expected.items())


async def _watch_jobs(client: "Client", numbers: Iterable[int]) -> dict[int, Any]:
    """Show the jobs until these have ended."""
    import asyncio

    from rich.live import Live

    templates = await client.list("runtemplates")
    until = time.monotonic() + OVER_WITHIN_SECONDS
    with Live(console=console(), auto_refresh=False, transient=True) as live:
        while True:
            jobs = await client.list("jobs")
            table = _make_jobs_table(jobs, templates)
            live.update(table, refresh=console().is_terminal)
            are_over = all(jobs[number]["state"] not in LIVE for number in numbers)
            if are_over or time.monotonic() > until:
                break
            await asyncio.sleep(POLL_SECONDS)
    console().print(table)
    return jobs


def _make_jobs_table(jobs: Mapping[int, Any], templates: Mapping[int, Any]) -> "Table":
    rows = []
    for number in sorted(jobs):
        job = jobs[number]
        name = templates[job["runtemplate_id"]]["name"]
        rows.append(
            (
                number,
                name,
                job["state"],
                job["exitcode"],
                _meaning_of_exit(job),
                format_duration(job["begin"], job["end"]),
            )
        )
    return make_table(("job", "run template", "state", "exit", "meaning", "took"), rows)


def _meaning_of_exit(job: Mapping[str, Any]) -> str:
    """Remove the exit code, which has a column of its own, from the message."""
    message = job["message"] or ""
    before, colon, after = message.partition(": ")
    return f"{job['severity']}: {after}" if colon and before.startswith("exit code") else message
