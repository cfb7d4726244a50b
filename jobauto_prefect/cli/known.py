"""The records that commands know of, asked of the facade."""

from jobauto_prefect.cli.client import Client
from jobauto_prefect.facade.apply.kinds import KINDS
from jobauto_prefect.facade.apply.known import Known, with_references


async def known_of(client: Client, *kinds: str) -> Known:
    """The records of these kinds and what they refer to; none said: all."""
    wanted = with_references(kinds or KINDS)
    return Known(
        {kind: await client.list(one.collection) for kind, one in KINDS.items() if kind in wanted},
        (await client.get("/status"))["extra_env"] if "runtemplate" in wanted else (),
    )
