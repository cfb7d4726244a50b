"""`jobauto event`: what happened, what it started, and what it could not."""

from typing import Annotated, Any

import typer

from jobauto_prefect.cli.listing import Record, add_list
from jobauto_prefect.cli.options import Json, Url, numbered
from jobauto_prefect.cli.tables import EVENTS

group = typer.Typer(
    help="Events: changes of sources and ends of run templates, and what they start.",
    no_args_is_help=True,
)

EventId = Annotated[int, numbered("event")]
TIMES = ("created_at", "emitted_at")
ACTION_COLUMNS = ("action", "target", "state", "job", "error")
ACTION_MEMBERS = ("kind", "target", "state", "job_id", "error")
COLUMNS = ("rule", "element", "state", "job", "error")

add_list(group, EVENTS)


@group.command()
def show(event_id: EventId, as_json: Json = False, url: Url = None) -> None:
    """Show one event: all that is known of it, and what it owes to which rules.

    Example: jobauto event show 12
    """
    from jobauto_prefect.cli.client import speak

    _print(speak(url, lambda client: client.get(f"/event/{event_id}.json")), as_json)


@group.command()
def replay(
    event_id: EventId,
    rule: Annotated[
        int | None,
        typer.Option("--rule", metavar="ID", min=1, help="Start this rule, though it be newer."),
    ] = None,
    as_json: Json = False,
    url: Url = None,
) -> None:
    """Start the rules for which an event is a dead letter, or one rule that never saw it.

    Without a rule, actions and webhooks that are dead letters are done, too.

    Example: jobauto event replay 12
    """
    from jobauto_prefect.cli.client import Client, speak

    async def again(client: Client) -> Any:
        fields = {} if rule is None else {"eventrule_id": rule}
        event = await client.post_to(f"/event/{event_id}/replay.json", fields)
        await client.wait_for_prefect()
        return event

    _print(speak(url, again, writes=True), as_json)


def _print(event: dict[str, Any], as_json: bool) -> None:
    from jobauto_prefect.cli.show import moment, print_json, print_members, print_table, say

    if as_json:
        print_json(event)
        return
    deliveries, actions = event.pop("deliveries"), event.pop("actions")
    print_members(event | {name: moment(event[name]) for name in TIMES})
    if deliveries:
        say("")
        print_table(COLUMNS, map(_row, deliveries))
    if actions:
        say("")
        print_table(ACTION_COLUMNS, ([one[name] for name in ACTION_MEMBERS] for one in actions))


def _row(delivery: Record) -> tuple[Any, ...]:
    members = ("eventrule_id", "element", "state", "job_id", "error")
    return tuple(delivery[name] for name in members)
