"""`jobauto pause` and `jobauto resume`: a freeze for maintenance."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from jobauto_prefect.cli.options import Json, Url
from jobauto_prefect.cli.output.results import call_and_print
from jobauto_prefect.cli.output.terminal import format_time
from jobauto_prefect.wording import escape_controls

if TYPE_CHECKING:
    from jobauto_prefect.cli.connection.client import Client

PATH = "/maintenance.json"


def pause(
    reason: Annotated[
        str | None, typer.Option("--reason", help="The reason, shown to people.")
    ] = None,
    until: Annotated[
        str | None,
        typer.Option(
            "--until",
            metavar="TIME",
            help="When the freeze ends: 2026-05-01T06:30+02:00, +2h, 06:30. "
            "Default: when you run jobauto resume.",
        ),
    ] = None,
    as_json: Json = False,
    url: Url = None,
) -> None:
    """Freeze everything for maintenance: no job starts, running ones finish.

    Windows within the freeze are excused or moved to its end, as their run templates say
    (on_closed). Repeating the command replaces reason and end.

    Example: jobauto pause --reason "new disk" --until +2h
    """
    body = {"reason": reason, "until": until}

    def describe(freeze: Mapping[str, Any]) -> str:
        end = format_time(freeze["until"]) if freeze["until"] else "jobauto resume"
        return escape_controls(f"frozen until {end}: nothing starts, running jobs continue")

    call_and_print(url, lambda client: client.put(PATH, body), as_json, describe, writes=True)


def resume(as_json: Json = False, url: Url = None) -> None:
    """End the freeze for maintenance: waiting jobs start.

    Example: jobauto resume
    """

    async def end(client: "Client") -> dict[str, bool]:
        before = await client.get(PATH)
        await client.delete(PATH)
        await client.wait_for_prefect()
        return {"frozen": False, "was_frozen": bool(before["frozen"])}

    call_and_print(
        url,
        end,
        as_json,
        lambda now: "no longer frozen" if now["was_frozen"] else "nothing was frozen",
        writes=True,
    )
