"""The kinds of record that files hold: what they are known by, and what they refer to."""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from jobauto_prefect.definitions.kinds import FILE_KINDS

Record = Mapping[str, Any]
Key = tuple[str | None, ...]

NOT_MEMBERS = ("$schema", "kind")
"""What a file says of itself, not of its record."""


OWNED = tuple(item for item, kind in FILE_KINDS.items() if kind.owner == "shared")
"""Kinds whose records are shared, or belong to the company that they say."""

SLUG = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")

DEFAULTS: Mapping[str, Any] = {"operation": "any", "on": "success"}
"""Fields of natural keys that a file may leave out."""


def localized(value: Any) -> Any:
    """Return a localized text as one: English where there is one, else the first language's."""
    if isinstance(value, Mapping) and value:
        return value.get("en", next(iter(value.values())))
    return value


def key_of(kind: str, content: Record) -> Key:
    """Return what a record is known by, from the fields as files have them."""
    if kind == "app":
        uuid = str(content.get("uuid") or "").lower()
        return (uuid,) if uuid else (owner_in(kind, content), str(localized(content["name"])))
    if kind == "eventrule" and content.get("event_source"):
        own = f"{company_referring(kind, content)}/"
        content = {**content, "event_source": str(content["event_source"]).removeprefix(own)}
    return tuple(content.get(name) or DEFAULTS.get(name) for name in FILE_KINDS[kind].key)


def title_of(kind: str, content: Record) -> str:
    """Return how people call a record; so do references in files, except those to applications."""
    if kind == "app":
        return str(localized(content["name"]))
    if kind == "eventrule":
        return f"{_trigger(content)} → {content['runtemplate']}"
    return "/".join(str(part) for part in key_of(kind, content) if part is not None)


def bare_title(kind: str, content: Record) -> str:
    """Return the title without the company: as records of the same company refer to it."""
    if kind in OWNED and kind != "app":
        return str(content[FILE_KINDS[kind].key[-1]])
    return title_of(kind, content)


def titles_meant(kind: str, title: str, company: str | None) -> list[str]:
    """Return the titles a reference in a company's record may mean: the company's own first."""
    return [f"{company}/{title}", title] if kind in OWNED and company else [title]


def says_owner(kind: str, content: Record) -> bool:
    """Whether a file says whose its record is; a definition may have such a key of its own."""
    if "company" not in content:
        return False
    company = content["company"]
    return kind != "app" or company is None or bool(SLUG.fullmatch(str(company)))


def owner_in(kind: str, content: Record) -> str | None:
    """Return the company whose a record is by its file; None: everybody's, or it says nothing."""
    return content["company"] if says_owner(kind, content) else None


def definition_in(content: Record) -> dict[str, Any]:
    """Return an application's definition, without what its file says of its owner."""
    apart = ("company",) if says_owner("app", content) else ()
    return {name: value for name, value in content.items() if name not in apart}


def reference_in(kind: str, name: str, content: Record) -> str | None:
    """Return the title by which a record refers to another one; None: it does not."""
    if kind in OWNED and name == "company":
        return owner_in(kind, content)
    title: str | None = content.get(name)
    return title


def company_referring(kind: str, content: Record) -> str | None:
    """Return the company whose records a record's references mean first: that of its jobs."""
    if kind == "eventrule":
        return str(content.get("runtemplate") or "").partition("/")[0] or None
    company: str | None = content.get("company")
    return company


def titles_listed(member: str, content: Record) -> list[str]:
    """Return how people call the records of its company that a record lists in a field."""
    return [f"{content['company']}/{name}" for name in content.get(member) or ()]


def topics_in(kind: str, content: Record) -> list[str]:
    """Return the topics that a file attaches to its record; in a definition a list of texts."""
    named = content.get("topics") if FILE_KINDS[kind].refers_to("topic") else None
    is_list = isinstance(named, list) and all(isinstance(name, str) for name in named)
    return list(dict.fromkeys(named or ())) if is_list else []


def calendars_in(kind: str, content: Record) -> list[str]:
    """Return the calendars that a file names."""
    named = content.get("calendars") if FILE_KINDS[kind].refers_to("calendar") else None
    return [name for name in named or () if isinstance(name, str)]


def company_bearing(kind: str, content: Record) -> str | None:
    """Return the company whose topics a record bears beside the shared; None: only shared ones."""
    slug: str | None = content["slug"] if kind == "company" else content.get("company")
    return owner_in(kind, content) if kind == "app" else slug


def _trigger(rule: Record) -> str:
    if rule.get("event_source"):
        changes = f"{rule.get('evidence') or 'anything'} {rule.get('operation', 'any')}"
        return f"{rule['event_source']} {changes}"
    return f"{rule.get('runtemplate_source')} {rule.get('on', 'success')}"


def matching_apps(template: Record, apps: Iterable[Record]) -> list[Record]:
    """Return the applications a template may mean by a reference: its company's, else shared."""
    apps_meant = [
        app
        for app in apps
        if refers_to(template, app) and owner_in("app", app) in (None, template.get("company"))
    ]
    return [app for app in apps_meant if owner_in("app", app)] or apps_meant


def app_words(app: Record) -> set[str]:
    """Return the texts, in small letters, by which templates may refer to an application."""
    name = app["name"]
    names = name.values() if isinstance(name, Mapping) else (name,)
    return {str(word).lower() for word in (*names, app.get("uuid") or "")}


def refers_to(template: Record, app: Record) -> bool:
    """Whether a template's reference, by name or UUID, is to this application."""
    if "app_uuid" in template:
        return bool(str(app.get("uuid") or "").lower() == template["app_uuid"].lower())
    name = app["name"]
    return template.get("app") in (name.values() if isinstance(name, Mapping) else (name,))
