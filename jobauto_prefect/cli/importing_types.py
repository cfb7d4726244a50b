"""Taking credential types from files into the service."""

from collections.abc import Callable, Sequence

from jobauto_prefect.cli.client import Client
from jobauto_prefect.cli.importing import Imported
from jobauto_prefect.facade.apply.documents import Document
from jobauto_prefect.facade.apply.kinds import NOT_MEMBERS

KIND = "credential_type"


async def take_in_types(
    client: Client, documents: Sequence[Document], done: Callable[[Imported], None]
) -> None:
    """Import one after the other, each told to `done`: by its UUID, else its code."""
    times = {
        one["id"]: one["updated_at"] for one in (await client.list("credential_types")).values()
    }
    for document in documents:
        said = document.content.items()
        members = {name: value for name, value in said if name not in NOT_MEMBERS}
        record = await client.post(KIND, members)
        former = times.get(record["id"])
        times[record["id"]] = record["updated_at"]
        changed = "created" if former is None else "updated"
        action = "unchanged" if former == record["updated_at"] else changed
        done(Imported(document.file, action, record))
