"""`jobauto reconcile`: corrects now what somebody changed in Prefect."""

from typing import TYPE_CHECKING, Any

from jobauto_prefect.cli.options import Json, Url
from jobauto_prefect.cli.output.results import call_and_print
from jobauto_prefect.cli.output.terminal import print_hint, print_line, print_table
from jobauto_prefect.wording import pluralize

if TYPE_CHECKING:
    from jobauto_prefect.cli.connection.client import Client

COLUMNS = ("record", "in Prefect", "taken over", "restored")


def reconcile(as_json: Json = False, url: Url = None) -> None:
    """Correct what somebody changed in Prefect.

    Changed pauses, cron expressions and time zones of deployments are copied to the records;
    everything else is restored. The services do this regularly; this command does it now, and waits
    until it is done.

    Example: jobauto reconcile
    """

    async def settle(client: "Client") -> dict[str, Any]:
        outcome = await client.post_to("/reconcile.json")
        return {**outcome, "waiting_for_prefect": await client.wait_for_prefect()}

    call_and_print(url, settle, as_json, _print_settled, writes=True)


def _print_settled(answer: dict[str, Any]) -> None:
    if answer["settled"]:
        rows = [
            (
                f"{record['kind']} {record['id']}",
                record["name"],
                ", ".join(record["taken_over"]),
                ", ".join(record["restored"]),
            )
            for record in answer["settled"]
        ]
        print_table(COLUMNS, rows)
    else:
        print_line("Prefect matches the records")
    if answer["waiting_for_prefect"]:
        left = pluralize(answer["waiting_for_prefect"], "change")
        print_hint(f"Prefect does not have {left} yet; the rest follows when it answers")
