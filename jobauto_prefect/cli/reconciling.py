"""`jobauto reconcile`: settle now what somebody changed in Prefect."""

from typing import TYPE_CHECKING, Any

from jobauto_prefect.cli.options import Json, Url

if TYPE_CHECKING:
    from jobauto_prefect.cli.client import Client

COLUMNS = ("record", "in Prefect", "taken over", "restored")


def reconcile(as_json: Json = False, url: Url = None) -> None:
    """Settle now what somebody changed in Prefect.

    Pauses, cron expressions and time zones of deployments become the records'; all else is
    restored. The services do the same by themselves; this does it at once, and waits for it.

    Example: jobauto reconcile
    """
    from jobauto_prefect.cli.client import speak
    from jobauto_prefect.cli.show import print_json

    async def settle(client: "Client") -> dict[str, Any]:
        found = await client.post_to("/reconcile.json")
        return {**found, "waiting_for_prefect": await client.wait_for_prefect()}

    answer = speak(url, settle, writes=True)
    if as_json:
        print_json(answer)
    else:
        _print(answer)


def _print(answer: dict[str, Any]) -> None:
    from jobauto_prefect.cli.show import hint, print_table, say
    from jobauto_prefect.wording import counted

    if answer["settled"]:
        print_table(COLUMNS, [_row(one) for one in answer["settled"]])
    else:
        say("Prefect has what the records say")
    if answer["waiting_for_prefect"]:
        left = counted(answer["waiting_for_prefect"], "change")
        hint(f"Prefect does not know {left} yet; it is told when it answers")


def _row(one: dict[str, Any]) -> tuple[str, ...]:
    members = (", ".join(one[name]) for name in ("taken_over", "restored"))
    return (f"{one['kind']} {one['id']}", one["name"], *members)
