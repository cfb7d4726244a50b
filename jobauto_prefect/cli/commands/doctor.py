"""`jobauto doctor`: is everything there that jobs need, and what helps where it is not."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import typer

from jobauto_prefect.cli.options import Json
from jobauto_prefect.cli.output.terminal import print_json, print_line
from jobauto_prefect.wording import escape_controls

if TYPE_CHECKING:
    from jobauto_prefect.cli.checks.finding import Finding

MARKS: Mapping[str, tuple[str, str]] = {
    "ok": ("ok", "green"),
    "warning": ("warning", "yellow"),
    "wrong": ("WRONG", "bold red"),
    "unknown": ("unknown", "dim"),
}
"""What is printed for each status, and its colour."""


def doctor(as_json: Json = False) -> None:
    """Examine this installation: database, migrations, key, Prefect, workers, clock, work pools.

    Each thing that is wrong comes with the command that helps. Exit code 1: something is wrong;
    warnings alone are none.

    Example: jobauto doctor --json
    """
    import asyncio

    from jobauto_prefect.cli.checks.examination import examine
    from jobauto_prefect.settings import load_settings

    findings = asyncio.run(examine(load_settings()))
    healthy = not any(finding.status == "wrong" for finding in findings)
    if as_json:
        print_json({"ok": healthy, "checks": [finding.as_dict() for finding in findings]})
    else:
        width = max(len(finding.name) for finding in findings) + 2
        for finding in findings:
            _print_finding(finding, width)
    if not healthy:
        raise typer.Exit(1)


def _print_finding(finding: "Finding", width: int) -> None:
    mark, style = MARKS[finding.status]
    print_line(escape_controls(f"{mark:8}{finding.name:{width}}{finding.message}"), style=style)
    if finding.fix:
        print_line(escape_controls(f"{'':{8 + width}}→ {finding.fix}"))
