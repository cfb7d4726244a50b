"""`jobauto doctor`: checks everything that jobs need, and says what to do."""

from collections.abc import Mapping

import typer

from jobauto_prefect.cli.options import Json
from jobauto_prefect.cli.output.terminal import print_json, print_line
from jobauto_prefect.wording import escape_controls

MARKS: Mapping[str, tuple[str, str]] = {
    "ok": ("ok", "green"),
    "warning": ("warning", "yellow"),
    "wrong": ("WRONG", "bold red"),
    "unknown": ("unknown", "dim"),
}
"""Mark and colour of each status."""


def doctor(as_json: Json = False) -> None:
    """Check this installation: database, migrations, key, Prefect, workers, clocks, work pools.

    Every problem comes with the command that helps. Exit code 1: something is wrong; warnings do
    not count.

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
            mark, style = MARKS[finding.status]
            text = f"{mark:8}{finding.name:{width}}{finding.message}"
            print_line(escape_controls(text), style=style)
            if finding.fix:
                print_line(escape_controls(f"{'':{8 + width}}→ {finding.fix}"))
    if not healthy:
        raise typer.Exit(1)
