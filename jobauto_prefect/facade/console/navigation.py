"""The console's main menu: what a visitor may see of it."""

from dataclasses import dataclass

from jobauto_prefect.console_addresses import CONSOLE
from jobauto_prefect.facade.auth.identity import Identity
from jobauto_prefect.facade.console.visitor_sessions import START
from jobauto_prefect.facade.formats.view import PageLink
from jobauto_prefect.facade.http.addresses import CONTRACT


@dataclass(frozen=True, slots=True)
class MenuEntry:
    """A page of the menu, and the permission that opens it somewhere."""

    label: str
    href: str
    permission: str


MENU = (
    MenuEntry("Start", START, "applications.read"),
    MenuEntry("Jobs", f"{CONSOLE}/jobs", "jobs.read"),
    MenuEntry("Run templates", f"{CONSOLE}/runtemplates", "applications.read"),
    MenuEntry("Tasks", f"{CONSOLE}/tasks", "jobs.read"),
    MenuEntry("Events", f"{CONSOLE}/events", "applications.read"),
    MenuEntry("Applications", f"{CONSOLE}/applications", "applications.read"),
    MenuEntry("Companies", f"{CONSOLE}/companies", "companies.read"),
    MenuEntry("Credentials", f"{CONSOLE}/credentials", "applications.read"),
    MenuEntry("Users", f"{CONSOLE}/users", "profile.read"),
    MenuEntry("Audit log", f"{CONSOLE}/audit", "security.audit"),
    MenuEntry("All records", f"{CONTRACT}/index.html", "applications.read"),
)
"""In the order in which it is shown."""


def navigation_of(who: Identity) -> list[PageLink]:
    """Return the entries of the menu that this visitor may open."""
    return [
        PageLink(entry.label, entry.href) for entry in MENU if who.rights.anywhere(entry.permission)
    ]
