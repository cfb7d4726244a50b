"""The console's main menu: what a visitor may see of it."""

from collections.abc import Sequence
from dataclasses import dataclass

from jobauto_prefect.console_addresses import CONSOLE, CONTRACT
from jobauto_prefect.facade.auth.identity import Identity
from jobauto_prefect.facade.auth.visitor_sessions import START
from jobauto_prefect.facade.formats.view import PageLink


@dataclass(frozen=True, slots=True)
class MenuEntry:
    """A page of the menu, the permission that opens it somewhere, and the pages below it."""

    label: str
    href: str
    permission: str
    pages: Sequence["MenuEntry"] = ()


@dataclass(frozen=True, slots=True)
class Subpage:
    """A page below the current entry; `is_current`: this one, or one of its records."""

    label: str
    href: str
    is_current: bool


MENU = (
    MenuEntry("Start", START, "applications.read"),
    MenuEntry("Jobs", f"{CONSOLE}/jobs", "jobs.read"),
    MenuEntry(
        "Run templates",
        f"{CONSOLE}/runtemplates",
        "applications.read",
        (
            MenuEntry("Topics", f"{CONSOLE}/topics", "applications.read"),
            MenuEntry("Calendars", f"{CONSOLE}/calendars", "applications.read"),
        ),
    ),
    MenuEntry("Tasks", f"{CONSOLE}/tasks", "jobs.read"),
    MenuEntry(
        "Events",
        f"{CONSOLE}/events",
        "applications.read",
        (
            MenuEntry("Event rules", f"{CONSOLE}/rules", "applications.read"),
            MenuEntry("Event sources", f"{CONSOLE}/sources", "companies.read"),
        ),
    ),
    MenuEntry("Workers", f"{CONSOLE}/workers", "jobs.read"),
    MenuEntry("Applications", f"{CONSOLE}/applications", "applications.read"),
    MenuEntry("Companies", f"{CONSOLE}/companies", "companies.read"),
    MenuEntry(
        "Credentials",
        f"{CONSOLE}/credentials",
        "applications.read",
        (MenuEntry("Credential types", f"{CONSOLE}/credentialtypes", "applications.read"),),
    ),
    MenuEntry("Users", f"{CONSOLE}/users", "profile.read"),
    MenuEntry("Audit log", f"{CONSOLE}/audit", "security.audit"),
    MenuEntry("All records", f"{CONTRACT}/index.html", "applications.read"),
)
"""In the order in which it is shown."""


def navigation_of(who: Identity) -> list[PageLink]:
    """Return the entries of the menu that this visitor may open."""
    return [PageLink(entry.label, entry.href) for entry in _open_to(who, MENU)]


def subpages_of(who: Identity, here: str, path: str) -> list[Subpage]:
    """Return the pages below the current entry that this visitor may open; `path` is this page."""
    return [
        Subpage(page.label, page.href, path == page.href or path.startswith(f"{page.href}/"))
        for entry in MENU
        if entry.label == here
        for page in _open_to(who, entry.pages)
    ]


def _open_to(who: Identity, entries: Sequence[MenuEntry]) -> list[MenuEntry]:
    return [entry for entry in entries if who.rights.anywhere(entry.permission)]
