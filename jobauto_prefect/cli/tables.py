"""The tables of `list` commands: one row of this module for each record kind."""

from collections.abc import Mapping

from jobauto_prefect.cli.listing import (
    Filter,
    Kind,
    Names,
    Record,
    columns_of,
    member,
    referred,
    template_title,
    time_of,
)

COMPANY = Filter("company_id", "Only of this company.", "SLUG", kind="company")
TEMPLATE = Filter("runtemplate_id", "Only of this run template.", "TEMPLATE", kind="runtemplate")
ENABLED = Filter("enabled", "Only those that are, or are not.", flag=True)
SINCE = Filter("from", "From this time on.", "TIME")
UNTIL = Filter("to", "Before this time.", "TIME")

INTERVALS: Mapping[str, str] = {
    "n": "never",
    "i": "each minute",
    "h": "hourly",
    "d": "daily",
    "w": "weekly",
    "m": "monthly",
    "y": "yearly",
}


def _interval(template: Record, _names: Names) -> str:
    code = template["interv"]
    return template["cron"] or "never" if code == "c" else INTERVALS.get(code, code)


def _took(job: Record, _names: Names) -> str:
    from jobauto_prefect.cli.show import duration

    return duration(job["begin"], job["end"])


def _trigger(rule: Record, names: Names) -> str:
    if rule["event_source_id"] is None:
        return f"{rule['on']} of {template_title('runtemplate_source_id')(rule, names)}"
    source = referred("eventsources", "event_source_id", "name")(rule, names)
    return f"{rule['evidence'] or 'anything'} {rule['operation']} in {source}"


def _origin(event: Record, names: Names) -> str:
    if event["event_source_id"] is None:
        return str(template_title("runtemplate_id")(event, names))
    return str(referred("eventsources", "event_source_id", "name")(event, names))


def _happening(event: Record, _names: Names) -> str:
    return f"{event['evidence'] or ''} {event['record_id'] or ''} {event['operation']}".strip()


APPS = Kind(
    "app",
    "apps",
    "applications",
    columns_of(("id", "name", "version", "enabled", "executable", "uuid")),
    filters={"enabled": ENABLED},
    localized=True,
    example="Example: jobauto app list --lang cs --columns id,name,category",
)
COMPANIES = Kind(
    "company",
    "companies",
    "companies",
    columns_of(("id", "slug", "name", "enabled", "ic", "email")),
    filters={"enabled": ENABLED},
    example="Example: jobauto company list --not-enabled",
)
TEMPLATES = Kind(
    "runtemplate",
    "runtemplates",
    "run templates",
    {
        "id": member("id"),
        "company": referred("companies", "company_id", "slug"),
        "name": member("name"),
        "application": referred("apps", "app_id", "name"),
        "active": member("active"),
        "interval": _interval,
        "pool": member("pool"),
    },
    refers=("companies", "apps"),
    filters={
        "company": COMPANY,
        "app": Filter("app_id", "Only of this application.", "APP", kind="app"),
        "active": Filter("active", "Only those that are, or are not.", flag=True),
    },
    example="Example: jobauto template list --company acme --active --columns id,name,cron",
)
JOBS = Kind(
    "job",
    "jobs",
    "jobs",
    {
        "id": member("id"),
        "run template": template_title("runtemplate_id"),
        "state": member("state"),
        "severity": member("severity"),
        "exit": member("exitcode"),
        "began": time_of("begin"),
        "took": _took,
        "message": member("message"),
    },
    refers=("companies", "runtemplates"),
    filters={
        "state": Filter("state", "Only in this state: running, failed …", "STATE"),
        "company": COMPANY,
        "template": TEMPLATE,
        "app": Filter("app_id", "Only of this application.", "APP", kind="app"),
        "from_": SINCE,
        "to": UNTIL,
    },
    whole=False,
    example='Example: jobauto job list --state failed --company acme --from "2026-05-01 00:00:00"',
)
TASKS = Kind(
    "task",
    "tasks",
    "tasks",
    {
        "id": member("id"),
        "run template": template_title("runtemplate_id"),
        "window": time_of("window_start"),
        "until": time_of("window_end"),
        "state": member("state"),
        "attempts": member("attempts"),
        "deadline": time_of("deadline"),
        "reason": member("reason"),
    },
    refers=("companies", "runtemplates"),
    filters={
        "state": Filter("state", "Only in this state: open, failed, missed …", "STATE"),
        "template": TEMPLATE,
        "from_": Filter("from", "Windows that begin at this time or later.", "TIME"),
        "to": Filter("to", "Windows that begin before this time.", "TIME"),
    },
    whole=False,
    example="Example: jobauto task list --template acme/backup --state missed",
)
EVENTS = Kind(
    "event",
    "events",
    "events",
    {
        "id": member("id"),
        "at": time_of("created_at"),
        "from": _origin,
        "what": _happening,
        "state": member("state"),
    },
    refers=("companies", "runtemplates", "eventsources"),
    filters={
        "state": Filter("state", "Only in this state: done, owed, dead.", "STATE"),
        "source": Filter("event_source_id", "Only of this event source.", "SOURCE", "eventsource"),
        "template": Filter(
            "runtemplate_id", "Only ends of this run template.", "TEMPLATE", "runtemplate"
        ),
        "from_": Filter("from", "From this time on.", "TIME"),
        "to": Filter("to", "Before this time.", "TIME"),
    },
    whole=False,
    example="Example: jobauto event list --state dead",
)
CREDENTIALS = Kind(
    "credential",
    "credentials",
    "credentials",
    {
        "id": member("id"),
        "company": referred("companies", "company_id", "slug"),
        "name": member("name"),
        "type": referred("credential_types", "credential_type_id", "code"),
        "values": lambda record, _names: ", ".join(record["values"]),
    },
    refers=("companies", "credential_types"),
    filters={
        "company": COMPANY,
        "type": Filter("credential_type_id", "Only of this type.", "CODE", kind="credential_type"),
    },
    example="Example: jobauto credential list --company acme --type bank",
)
CREDENTIAL_TYPES = Kind(
    "credential_type",
    "credential_types",
    "credential types",
    {
        **columns_of(("id", "code", "name", "version")),
        "fields": lambda record, _names: ", ".join(one["keyword"] for one in record["fields"]),
    },
    example="Example: jobauto credential-type list --columns code,fields",
)
TOPICS = Kind(
    "topic",
    "topics",
    "topics",
    columns_of(("id", "name", "color", "description")),
    example="Example: jobauto topic list --json",
)
CALENDARS = Kind(
    "calendar",
    "calendars",
    "calendars",
    columns_of(("id", "name", "country", "subdivision", "timezone")),
    filters={"country": Filter("country", "Only those with its holidays.", "CODE")},
    example="Example: jobauto calendar list --country CZ",
)
RULES = Kind(
    "eventrule",
    "eventrules",
    "event rules",
    {
        "id": member("id"),
        "reacts to": _trigger,
        "starts": template_title("runtemplate_id"),
        "enabled": member("enabled"),
        "priority": member("priority"),
    },
    refers=("companies", "runtemplates", "eventsources"),
    filters={
        "template": Filter(
            "runtemplate_id", "Only those that start this run template.", "TEMPLATE",
            kind="runtemplate",
        ),
        "source": Filter(
            "event_source_id", "Only those that react to this source.", "SOURCE",
            kind="eventsource",
        ),
        "enabled": ENABLED,
    },
    example="Example: jobauto rule list --template acme/invoices",
)  # fmt: skip
SOURCES = Kind(
    "eventsource",
    "eventsources",
    "event sources",
    {
        **columns_of(("id", "name", "db_connection", "db_host", "db_database", "enabled")),
        "company": referred("companies", "company_id", "slug"),
    },
    refers=("companies",),
    filters={"company": COMPANY, "enabled": ENABLED},
    example="Example: jobauto source list --not-enabled",
)
USERS = Kind(
    "user",
    "users",
    "users",
    {
        "id": member("id"),
        "login": member("login"),
        "roles": lambda user, _names: ", ".join(user["roles"]),
        "enabled": member("enabled"),
        "email": member("email"),
    },
    filters={"enabled": ENABLED},
    example="Example: jobauto user list --enabled",
)
