"""`jobauto doctor`: is everything there that jobs need, and what helps where it is not."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import typer

from jobauto_prefect.cli.options import Json

if TYPE_CHECKING:
    from jobauto_prefect.cli.findings import Finding

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

    from jobauto_prefect.cli.examining import examine
    from jobauto_prefect.cli.show import print_json
    from jobauto_prefect.settings import load_settings

    findings = asyncio.run(examine(load_settings()))
    healthy = not any(one.status == "wrong" for one in findings)
    if as_json:
        print_json({"ok": healthy, "checks": [one.as_dict() for one in findings]})
    else:
        for one in findings:
            _tell(one)
    if not healthy:
        raise typer.Exit(1)


def _tell(finding: "Finding") -> None:
    from jobauto_prefect.cli.show import printable, say

    mark, style = MARKS[finding.status]
    say(printable(f"{mark:8}{finding.name:12}{finding.message}"), style=style)
    if finding.fix:
        say(printable(f"{'':20}→ {finding.fix}"))
