"""`jobauto event`: what happened, what it started, and what failed to start."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from jobauto_prefect.cli.options import Json, Url, number_argument
from jobauto_prefect.cli.output.results import call_and_print
from jobauto_prefect.cli.output.terminal import (
    format_time,
    print_line,
    print_record,
    print_table,
)
from jobauto_prefect.cli.records.lists import add_list
from jobauto_prefect.cli.records.tables import EVENTS

if TYPE_CHECKING:
    from jobauto_prefect.cli.connection.client import Client

group = typer.Typer(
    help="Events: changes in event sources, ends of jobs, and what both start.",
    no_args_is_help=True,
)

EventId = Annotated[int, number_argument("event")]
TIMES = ("created_at", "emitted_at")
ACTION_COLUMNS = ("action", "target", "state", "job", "error")
ACTION_MEMBERS = ("kind", "target", "state", "job_id", "error")
COLUMNS = ("rule", "element", "state", "job", "error")
MEMBERS = ("eventrule_id", "element", "state", "job_id", "error")

add_list(group, EVENTS)


@group.command()
def show(event_id: EventId, as_json: Json = False, url: Url = None) -> None:
    """Show one event in full, and its delivery to each rule.

    Example: jobauto event show 12
    """
    call_and_print(url, lambda client: client.get(f"/event/{event_id}.json"), as_json, _print_event)


@group.command()
def replay(
    event_id: EventId,
    rule: Annotated[
        int | None,
        typer.Option(
            "--rule",
            metavar="ID",
            min=1,
            help="Start this rule, even if it is newer than the event.",
        ),
    ] = None,
    as_json: Json = False,
    url: Url = None,
) -> None:
    """Replay an event for the rules that failed on it, or with --rule for one that never saw it.

    Without --rule, failed actions and webhooks are repeated, too.

    Example: jobauto event replay 12
    """

    async def again(client: "Client") -> Any:
        fields = {} if rule is None else {"eventrule_id": rule}
        event = await client.post_to(f"/event/{event_id}/replay.json", fields)
        await client.wait_for_prefect()
        return event

    call_and_print(url, again, as_json, _print_event, writes=True)


def _print_event(event: dict[str, Any]) -> None:
    deliveries, actions = event.pop("deliveries"), event.pop("actions")
    print_record(event | {name: format_time(event[name]) for name in TIMES})
    if deliveries:
        print_line("")
        print_table(COLUMNS, ([delivery[name] for name in MEMBERS] for delivery in deliveries))
    if actions:
        print_line("")
        print_table(
            ACTION_COLUMNS, ([action[name] for name in ACTION_MEMBERS] for action in actions)
        )
