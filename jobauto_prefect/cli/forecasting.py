"""`jobauto forecast`: what will run when."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any
from zoneinfo import ZoneInfo

import typer

from jobauto_prefect.cli.options import Json, Url

if TYPE_CHECKING:
    from jobauto_prefect.cli.client import Client

Record = Mapping[str, Any]
COLUMNS = ("starts", "run template", "window", "until", "deadline", "zone")
MINUTES, SECONDS = "%a %Y-%m-%d %H:%M", "%a %Y-%m-%d %H:%M:%S"


def forecast(
    days: Annotated[
        int, typer.Option("--days", min=1, max=3660, metavar="N", help="How far to look.")
    ] = 7,
    template: Annotated[
        list[str] | None,
        typer.Option("--template", metavar="TEMPLATE", help="Only this one: an id, company/name."),
    ] = None,
    limit: Annotated[
        int, typer.Option("--limit", min=1, max=10_000, help="Show only so many, the first ones.")
    ] = 100,
    as_json: Json = False,
    url: Url = None,
) -> None:
    """Show what will run when: the windows of the active run templates, by their start.

    Example: jobauto forecast --days 2 --template acme/Nightly
    """
    from jobauto_prefect.cli.client import speak
    from jobauto_prefect.cli.lookup import number_of
    from jobauto_prefect.cli.show import print_json

    async def ask(client: "Client") -> tuple[dict[str, Any], Mapping[str, Mapping[int, Record]]]:
        ids = [str(await number_of(client, "runtemplate", word)) for word in template or ()]
        chosen = {"runtemplate_id": ",".join(ids)} if ids else {}
        found = await client.get("/forecast.json", days=days, limit=limit, **chosen)
        names = {name: await client.list(name) for name in ("companies", "runtemplates")}
        return found, {} if as_json else names

    found, names = speak(url, ask)
    if as_json:
        print_json(found)
    else:
        _print(found, names)


def _print(found: Mapping[str, Any], names: Mapping[str, Mapping[int, Record]]) -> None:
    from jobauto_prefect.cli.listing import template_title
    from jobauto_prefect.cli.show import hint, print_table

    title = template_title("runtemplate_id")
    windows: Sequence[Record] = found["windows"]
    if not windows:
        hint(f"nothing is due until {found['until']}")
        return
    notes = [_note(window) for window in windows]
    rows = [_row(window, title(window, names)) for window in windows]
    if any(notes):
        noted = [(*row, note) for row, note in zip(rows, notes, strict=True)]
        print_table((*COLUMNS, "note"), noted)
    else:
        print_table(COLUMNS, rows)
    if found["more"]:
        hint(f"these are the first {len(windows)}; there are more, see --limit")


def _row(one: Record, title: str) -> tuple[str, ...]:
    times = ("launch_at", "window_start", "window_end", "deadline")
    launch, start, end, deadline = (_wall(one[name], one["timezone"]) for name in times)
    return launch, title, start, end, deadline, one["timezone"]


def _note(one: Record) -> str:
    if one["closed"] is None:
        return ""
    if one["excused"]:
        return f"excused: {one['closed']}"
    if one["moved_from"] is None:
        return f"waits for the end: {one['closed']}"
    return f"moved from {_wall(one['moved_from'], one['timezone'])}: {one['closed']}"


def _wall(text: str, zone: str) -> str:
    """The time that the clock of the schedule's zone shows."""
    shown = datetime.fromisoformat(text).astimezone(ZoneInfo(zone))
    return shown.strftime(SECONDS if shown.second else MINUTES)
