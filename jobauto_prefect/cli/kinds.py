"""The kinds of record that files hold: what they are known by, and what they refer to."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

Record = Mapping[str, Any]
Key = tuple[str | None, ...]

NOT_MEMBERS = ("$schema", "kind")
"""What a file says of itself, not of its record."""


@dataclass(frozen=True, slots=True)
class Reference:
    """A record of that kind, of which the referring record has the id in a member."""

    kind: str
    member: str


@dataclass(frozen=True, slots=True)
class FileKind:
    """One kind. `key` are the members it is known by; `values` the member that maps names to
    values, which are compared one by one. `lists` are members that name several records of a kind
    within the record's company.
    """

    item: str
    collection: str
    key: tuple[str, ...]
    references: Mapping[str, Reference] = field(default_factory=dict)
    values: str | None = None
    lists: Mapping[str, str] = field(default_factory=dict)

    def titles(self, member: str, content: Record) -> list[str]:
        """How people call the records that one of `lists` names."""
        return [f"{content['company']}/{name}" for name in content.get(member) or ()]


COMPANY = Reference("company", "company_id")
KINDS: Mapping[str, FileKind] = {
    kind.item: kind
    for kind in (
        FileKind("credential_type", "credential_types", ("code",)),
        FileKind("topic", "topics", ("name",)),
        FileKind("app", "apps", ("uuid", "name")),
        FileKind("company", "companies", ("slug",), values="env"),
        FileKind(
            "credential",
            "credentials",
            ("company", "name"),
            {
                "company": COMPANY,
                "credential_type": Reference("credential_type", "credential_type_id"),
            },
            values="values",
        ),
        FileKind(
            "runtemplate",
            "runtemplates",
            ("company", "name"),
            {"company": COMPANY, "app": Reference("app", "app_id")},
            values="env",
            lists={"credentials": "credential"},
        ),
        FileKind("eventsource", "eventsources", ("name",), {"company": COMPANY}),
        FileKind(
            "eventrule",
            "eventrules",
            ("event_source", "runtemplate_source", "runtemplate", "evidence", "operation", "on"),
            {
                "event_source": Reference("eventsource", "event_source_id"),
                "runtemplate_source": Reference("runtemplate", "runtemplate_source_id"),
                "runtemplate": Reference("runtemplate", "runtemplate_id"),
            },
        ),
    )
}
"""In the order of writing: each kind refers to those before it only."""

NOUNS: Mapping[str, str] = {
    "app": "application",
    "company": "company",
    "credential": "credential",
    "credential_type": "credential type",
    "eventrule": "event rule",
    "eventsource": "event source",
    "runtemplate": "run template",
    "topic": "topic",
}
GROUPS: Mapping[str, str] = {
    "app": "app",
    "company": "company",
    "credential": "credential",
    "credential_type": "credential-type",
    "eventrule": "rule",
    "eventsource": "source",
    "runtemplate": "template",
    "topic": "topic",
}
"""The commands of each kind."""

DEFAULTS: Mapping[str, Any] = {"operation": "any", "on": "success"}
"""Members of keys that a file may leave out."""


def localized(value: Any) -> Any:
    """A localized text as one text: English where there is one, else the first language's."""
    if isinstance(value, Mapping) and value:
        return value.get("en", next(iter(value.values())))
    return value


def key_of(kind: str, content: Record) -> Key:
    """What a record is known by, from the members as files have them."""
    if kind == "app":
        return (str(content.get("uuid") or "").lower() or str(localized(content["name"])),)
    return tuple(content.get(name) or DEFAULTS.get(name) for name in KINDS[kind].key)


def title_of(kind: str, content: Record) -> str:
    """How people call a record; so do references in files, except those to applications."""
    if kind == "app":
        return str(localized(content["name"]))
    if kind == "eventrule":
        return f"{_trigger(content)} → {content['runtemplate']}"
    return "/".join(str(part) for part in key_of(kind, content))


def _trigger(rule: Record) -> str:
    if rule.get("event_source"):
        changes = f"{rule.get('evidence') or 'anything'} {rule.get('operation', 'any')}"
        return f"{rule['event_source']} {changes}"
    return f"{rule.get('runtemplate_source')} {rule.get('on', 'success')}"


def means(template: Record, app: Record) -> bool:
    """Whether a template's reference, by name or UUID, is to this application."""
    if "app_uuid" in template:
        return bool(str(app.get("uuid") or "").lower() == template["app_uuid"].lower())
    name = app["name"]
    return template.get("app") in (name.values() if isinstance(name, Mapping) else (name,))
