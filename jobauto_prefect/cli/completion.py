"""Names of records for the shell's completion of commands."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from jobauto_prefect.cli.connection.client import Client


def complete_names(kind: str) -> Callable[[typer.Context, str], list[str]]:
    """Complete the names of records of a kind; empty where the facade does not answer."""

    def complete(context: typer.Context, incomplete: str) -> list[str]:
        from jobauto_prefect.cli.connection.client import call_facade
        from jobauto_prefect.cli.records.lookup import fetch_record_index
        from jobauto_prefect.errors import JobautoError

        async def titles(client: "Client") -> list[str]:
            return sorted((await fetch_record_index(client, kind)).titles(kind))

        try:
            candidates = call_facade(context.params.get("url"), titles)
        except JobautoError:  # a line that is being typed is no place for it
            return []
        return [title for title in candidates if title.startswith(incomplete)]

    return complete
