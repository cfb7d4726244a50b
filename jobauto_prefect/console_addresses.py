"""Where the contract is, and the console's pages that Prefect's pages and mails lead to."""

from collections.abc import Mapping

CONTRACT = "/api/v1"
"""Where the routes of the contract are."""

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
