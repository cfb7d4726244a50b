"""`jobauto doctor`: checks everything that jobs need, and says what to do."""

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from jobauto_prefect.cli.options import Json
from jobauto_prefect.cli.output.terminal import format_time, print_json, print_line, print_table
from jobauto_prefect.wording import escape_controls

MARKS: Mapping[str, tuple[str, str]] = {
    "ok": ("ok", "green"),
    "warning": ("warning", "yellow"),
    "wrong": ("WRONG", "bold red"),
    "unknown": ("unknown", "dim"),
}
"""Mark and colour of each status."""


COLUMNS = ("part", "machine", "process", "version", "Prefect", "since", "last seen", "clock")


def doctor(
    topology: Annotated[
        bool,
        typer.Option(
            "--topology",
            help="List the parts on all machines, and check that they agree; skip all other"
            " checks.",
        ),
    ] = False,
    as_json: Json = False,
) -> None:
    """Check this installation: database, migrations, key, Prefect, workers, clocks, work pools.

    For each problem it prints the command that fixes it. Exit code 1: something is wrong; warnings
    do not count.

    Example: jobauto doctor --json
    """
    import asyncio

    from jobauto_prefect.cli.checks.examination import examine
    from jobauto_prefect.settings import load_settings

    parts: list[dict[str, Any]] = []
    if topology:
        from jobauto_prefect.cli.local_ledger import open_local_ledger
        from jobauto_prefect.engine.topology import describe_parts, topology_findings

        with open_local_ledger() as ledger:
            parts = describe_parts(ledger)
            findings = topology_findings(load_settings(), ledger)
    else:
        findings = asyncio.run(examine(load_settings()))
    healthy = not any(finding.status == "wrong" for finding in findings)
    if as_json:
        shown = {"parts": parts} if topology else {}
        print_json({"ok": healthy, **shown, "checks": [each.as_dict() for each in findings]})
    else:
        if parts:
            print_table(COLUMNS, map(_part_row, parts))
            print_line("")
        width = max(len(finding.name) for finding in findings) + 2
        for finding in findings:
            mark, style = MARKS[finding.status]
            text = f"{mark:8}{finding.name:{width}}{finding.message}"
            print_line(escape_controls(text), style=style)
            if finding.fix:
                print_line(escape_controls(f"{'':{8 + width}}→ {finding.fix}"))
    if not healthy:
        raise typer.Exit(1)


def _part_row(part: dict[str, Any]) -> tuple[Any, ...]:
    *texts, started_at, seen_at, ahead = part.values()
    return (*texts, format_time(started_at), format_time(seen_at), f"{ahead:+.1f} s")
