"""Where the console's pages are, for all that leads there: its own pages, Prefect's, and mails."""

from collections.abc import Mapping

CONSOLE = "/console"
"""Where all pages of the console are but the first."""

COLLECTIONS: Mapping[str, str] = {
    "artifact": "artifacts",
    "credential": "credentials",
    "event": "events",
    "eventrule": "rules",
    "job": "jobs",
    "runtemplate": "runtemplates",
    "task": "tasks",
}
"""By the kinds of records that Prefect's pages and mails speak of."""


def page_address(url: str, kind: str, number: int) -> str:
    """Return the address of a record's page; `url` is the facade's."""
    return f"{url}{CONSOLE}/{COLLECTIONS[kind]}/{number}"
