"""The record kinds as pages name, place and link them."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Kind:
    """One record kind: its names in paths, its names for people, the columns of its list.

    `pages` are the sub-pages of one record: what people call them, and their path below it.
    """

    item: str
    collection: str
    one: str
    many: str
    columns: tuple[str, ...]
    pages: tuple[tuple[str, str], ...] = ()


_ALL = (
    Kind(
        "app",
        "apps",
        "Application",
        "Applications",
        (
            "id",
            "name",
            "version",
            "category",
            "executable",
            "enabled",
            "company_id",
            "updated_at",
            "prefect_url",
        ),
    ),
    Kind(
        "company",
        "companies",
        "Company",
        "Companies",
        ("id", "name", "slug", "ic", "email", "enabled", "updated_at"),
        (("Members", "users.html"),),
    ),
    Kind(
        "runtemplate",
        "runtemplates",
        "Run template",
        "Run templates",
        (
            "id",
            "name",
            "app_id",
            "company_id",
            "interv",
            "cron",
            "executor",
            "active",
            "last_schedule",
            "next_schedule",
            "prefect_url",
        ),
        (("Suggested rules", "suggestions.html"),),
    ),
    Kind(
        "job",
        "jobs",
        "Job",
        "Jobs",
        (
            "id",
            "state",
            "severity",
            "exitcode",
            "app_id",
            "company_id",
            "runtemplate_id",
            "schedule",
            "begin",
            "end",
            "prefect_url",
        ),
        (("Whole output", "output.txt"),),
    ),
    Kind(
        "task",
        "tasks",
        "Task",
        "Tasks",
        (
            "id",
            "state",
            "runtemplate_id",
            "window_start",
            "window_end",
            "deadline",
            "attempts",
            "fulfilled_by_job_id",
        ),
    ),
    Kind(
        "credential",
        "credentials",
        "Credential",
        "Credentials",
        ("id", "name", "company_id", "credential_type_id", "updated_at"),
    ),
    Kind(
        "credential_type",
        "credential_types",
        "Credential type",
        "Credential types",
        ("id", "name", "code", "version", "description", "company_id", "updated_at"),
    ),
    Kind(
        "topic", "topics", "Topic", "Topics", ("id", "name", "color", "description", "company_id")
    ),
    Kind(
        "calendar",
        "calendars",
        "Calendar",
        "Calendars",
        ("id", "name", "country", "subdivision", "timezone", "updated_at"),
    ),
    Kind(
        "eventrule",
        "eventrules",
        "Event rule",
        "Event rules",
        (
            "id",
            "event_source_id",
            "runtemplate_source_id",
            "evidence",
            "operation",
            "runtemplate_id",
            "priority",
            "enabled",
        ),
    ),
    Kind(
        "eventsource",
        "eventsources",
        "Event source",
        "Event sources",
        (
            "id",
            "name",
            "adapter_type",
            "db_connection",
            "db_host",
            "db_database",
            "poll_interval",
            "enabled",
        ),
    ),
    Kind(
        "user",
        "users",
        "User",
        "Users",
        ("id", "login", "firstname", "lastname", "email", "enabled", "roles"),
        (("Roles", "roles.html"),),
    ),
    Kind(
        "event",
        "events",
        "Event",
        "Events",
        (
            "id",
            "created_at",
            "kind",
            "event_source_id",
            "runtemplate_id",
            "evidence",
            "operation",
            "record_id",
            "state",
        ),
    ),
    Kind(
        "auditlog",
        "auditlog",
        "Audit entry",
        "Audit log",
        (
            "id",
            "created_at",
            "actor",
            "action",
            "entity_type",
            "entity_id",
            "changes",
            "door",
            "address",
        ),
    ),
)

KINDS: Mapping[str, Kind] = {kind.item: kind for kind in _ALL}
COLLECTIONS: Mapping[str, Kind] = {kind.collection: kind for kind in _ALL}

_ALIASES = {
    "launched_by": "user",
    "runtemplate_source_id": "runtemplate",
    "event_source_id": "eventsource",
    "event_rule_id": "eventrule",
    "last_modifier_id": "user",
}


def kind_of_reference(member: str) -> Kind | None:
    """The kind of the record whose id a member holds: `app_id`, `fulfilled_by_job_id`."""
    if member in _ALIASES:
        return KINDS[_ALIASES[member]]
    if not member.endswith("_id"):
        return None
    stem = member.removesuffix("_id")
    fitting = [item for item in KINDS if stem == item or stem.endswith(f"_{item}")]
    return KINDS[max(fitting, key=len)] if fitting else None


def kind_of_entity(name: object) -> Kind | None:
    """The kind an audit entry names: `RunTemplate`, `credential_type`."""
    asked = str(name).replace("_", "").lower()
    return next((kind for kind in _ALL if kind.item.replace("_", "") == asked), None)


def is_id(value: object) -> bool:
    """Whether a value can be the id of a record."""
    if isinstance(value, str):
        return value.isascii() and value.isdecimal()
    return isinstance(value, int) and not isinstance(value, bool)
