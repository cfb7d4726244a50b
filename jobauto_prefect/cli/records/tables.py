"""The tables of `list` commands, one for each kind of records."""

from collections.abc import Mapping

from jobauto_prefect.cli.output.terminal import format_duration
from jobauto_prefect.cli.records.lists import (
    Filter,
    ListedKind,
    Names,
    Record,
    key_column,
    key_columns,
    reference_column,
    template_column,
    time_column,
)
from jobauto_prefect.kinds import KINDS

COMPANY = Filter("company_id", "Only of this company.", "SLUG", kind="company")
TEMPLATE = Filter("runtemplate_id", "Only of this run template.", "TEMPLATE", kind="runtemplate")
ENABLED = Filter("enabled", "Only enabled ones; with --not-enabled, only disabled ones.", flag=True)
SINCE = Filter("from", "Only jobs due at this time or later.", "TIME")
UNTIL = Filter("to", "Only jobs due before this time.", "TIME")

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


def _trigger(rule: Record, names: Names) -> str:
    if rule["event_source_id"] is None:
        return f"{rule['on']} of {template_column('runtemplate_source_id')(rule, names)}"
    source = reference_column("eventsources", "event_source_id", "name")(rule, names)
    return f"{rule['evidence'] or 'anything'} {rule['operation']} in {source}"


def _origin(event: Record, names: Names) -> str:
    if event["event_source_id"] is None:
        return str(template_column("runtemplate_id")(event, names))
    return str(reference_column("eventsources", "event_source_id", "name")(event, names))


def _event_text(event: Record, _names: Names) -> str:
    return f"{event['evidence'] or ''} {event['record_id'] or ''} {event['operation']}".strip()


APPS = ListedKind(
    KINDS["app"],
    key_columns(("id", "name", "version", "enabled", "executable", "uuid")),
    filters={"enabled": ENABLED},
    localized=True,
)
COMPANIES = ListedKind(
    KINDS["company"],
    key_columns(("id", "slug", "name", "enabled", "ic", "email")),
    filters={"enabled": ENABLED},
)
TEMPLATES = ListedKind(
    KINDS["runtemplate"],
    {
        "id": key_column("id"),
        "company": reference_column("companies", "company_id", "slug"),
        "name": key_column("name"),
        "application": reference_column("apps", "app_id", "name"),
        "active": key_column("active"),
        "interval": _interval,
        "pool": key_column("pool"),
    },
    refers=("companies", "apps"),
    filters={
        "company": COMPANY,
        "app": Filter("app_id", "Only of this application.", "APP", kind="app"),
        "active": Filter(
            "active", "Only active ones; with --not-active, only inactive ones.", flag=True
        ),
    },
)
JOBS = ListedKind(
    KINDS["job"],
    {
        "id": key_column("id"),
        "run template": template_column("runtemplate_id"),
        "state": key_column("state"),
        "severity": key_column("severity"),
        "exit": key_column("exitcode"),
        "began": time_column("begin"),
        "took": lambda job, _names: format_duration(job["begin"], job["end"]),
        "message": key_column("message"),
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
)
TASKS = ListedKind(
    KINDS["task"],
    {
        "id": key_column("id"),
        "run template": template_column("runtemplate_id"),
        "window": time_column("window_start"),
        "until": time_column("window_end"),
        "state": key_column("state"),
        "attempts": key_column("attempts"),
        "deadline": time_column("deadline"),
        "reason": key_column("reason"),
    },
    refers=("companies", "runtemplates"),
    filters={
        "state": Filter("state", "Only in this state: open, failed, missed …", "STATE"),
        "template": TEMPLATE,
        "from_": Filter("from", "Windows that begin at this time or later.", "TIME"),
        "to": Filter("to", "Windows that begin before this time.", "TIME"),
    },
)
EVENTS = ListedKind(
    KINDS["event"],
    {
        "id": key_column("id"),
        "at": time_column("created_at"),
        "from": _origin,
        "what": _event_text,
        "state": key_column("state"),
    },
    refers=("companies", "runtemplates", "eventsources"),
    filters={
        "state": Filter("state", "Only in this state: done, owed, dead.", "STATE"),
        "source": Filter("event_source_id", "Only of this event source.", "SOURCE", "eventsource"),
        "template": Filter(
            "runtemplate_id", "Only ends of this run template's jobs.", "TEMPLATE", "runtemplate"
        ),
        "from_": Filter("from", "From this time on.", "TIME"),
        "to": Filter("to", "Before this time.", "TIME"),
    },
)
CREDENTIALS = ListedKind(
    KINDS["credential"],
    {
        "id": key_column("id"),
        "company": reference_column("companies", "company_id", "slug"),
        "name": key_column("name"),
        "type": reference_column("credential_types", "credential_type_id", "code"),
        "values": lambda record, _names: ", ".join(record["values"]),
    },
    refers=("companies", "credential_types"),
    filters={
        "company": COMPANY,
        "type": Filter("credential_type_id", "Only of this type.", "CODE", kind="credential_type"),
    },
)
CREDENTIAL_TYPES = ListedKind(
    KINDS["credential_type"],
    {
        **key_columns(("id", "code", "name", "version")),
        "fields": lambda record, _names: ", ".join(field["keyword"] for field in record["fields"]),
    },
)
TOPICS = ListedKind(
    KINDS["topic"],
    key_columns(("id", "name", "color", "description")),
)
CALENDARS = ListedKind(
    KINDS["calendar"],
    key_columns(("id", "name", "country", "subdivision", "timezone")),
    filters={"country": Filter("country", "Only those with this country's holidays.", "CODE")},
)
RULES = ListedKind(
    KINDS["eventrule"],
    {
        "id": key_column("id"),
        "reacts to": _trigger,
        "starts": template_column("runtemplate_id"),
        "enabled": key_column("enabled"),
        "priority": key_column("priority"),
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
)  # fmt: skip
SOURCES = ListedKind(
    KINDS["eventsource"],
    {
        **key_columns(("id", "name", "db_connection", "db_host", "db_database", "enabled")),
        "company": reference_column("companies", "company_id", "slug"),
    },
    refers=("companies",),
    filters={"company": COMPANY, "enabled": ENABLED},
)
USERS = ListedKind(
    KINDS["user"],
    {
        "id": key_column("id"),
        "login": key_column("login"),
        "roles": lambda user, _names: ", ".join(user["roles"]),
        "enabled": key_column("enabled"),
        "email": key_column("email"),
    },
    filters={"enabled": ENABLED},
)
