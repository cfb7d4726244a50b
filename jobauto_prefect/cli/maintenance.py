"""`jobauto pause` and `jobauto resume`: a freeze for maintenance."""

from typing import Annotated

import typer

from jobauto_prefect.cli.options import Json, Url

PATH = "/maintenance.json"


def pause(
    reason: Annotated[str | None, typer.Option("--reason", help="Why, for people.")] = None,
    until: Annotated[
        str | None,
        typer.Option(
            "--until",
            metavar="TIME",
            help="When it ends by itself: 2026-05-01T06:30+02:00, +2h, 06:30. Without it: with "
            "jobauto resume.",
        ),
    ] = None,
    as_json: Json = False,
    url: Url = None,
) -> None:
    """Freeze for maintenance: no job starts, running ones run to their end.

    Windows that fall into it are excused, or moved to its end, as their run templates say
    (on_closed). Given again, it replaces reason and end.

    Example: jobauto pause --reason "new disk" --until +2h
    """
    from jobauto_prefect.cli.client import speak
    from jobauto_prefect.cli.show import moment, print_json, printable, say

    body = {"reason": reason, "until": until}
    found = speak(url, lambda client: client.put(PATH, body), writes=True)
    if as_json:
        print_json(found)
        return
    end = moment(found["until"]) if found["until"] else "jobauto resume"
    say(printable(f"frozen until {end}: nothing starts, what runs goes on"))


def resume(as_json: Json = False, url: Url = None) -> None:
    """End the freeze for maintenance: what waits starts.

    Example: jobauto resume
    """
    from jobauto_prefect.cli.client import Client, speak
    from jobauto_prefect.cli.show import print_json, say

    async def end(client: Client) -> bool:
        before = await client.get(PATH)
        await client.delete(PATH)
        await client.wait_for_prefect()
        return bool(before["frozen"])

    was_frozen = speak(url, end, writes=True)
    if as_json:
        print_json({"frozen": False, "was_frozen": was_frozen})
    else:
        say("not frozen any more" if was_frozen else "nothing was frozen")
