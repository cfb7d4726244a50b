"""The kinds of records: their names, keys and references.

Paths, the document, lists, files and commands are built from these words. Columns are in
`ledger/records`; body, answer and write in `facade/kinds`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal


@dataclass(frozen=True, slots=True)
class Reference:
    """A field of a body with the id of a record of `kind`; `many`: with a list of ids."""

    field: str
    kind: str
    many: bool = False

    @property
    def by(self) -> str:
        """The field in which files name the record: `company` for `company_id`."""
        return self.field.removesuffix("_id")


@dataclass(frozen=True, slots=True)
class Kind:
    """The words of one kind.

    In REST, `item` is its name in paths of records and `collection` in those of lists; `parameter`
    names the id in the document. `permissions` is the first part of its permissions' names.
    `columns` are those of HTML lists, CSV and tables of related records; `pages` are the sub-pages
    of one record: their titles, and their paths below it. `paged` lists come newest first, 100 at a
    time; the others completely. `aliases` are alternative names of fields in its body.

    `known_by` is the field by which a write without an id finds its record ("": ids only), `named`
    the one that may replace its number ("": none), `required` what a new record needs: a field of
    each group. `references` are the fields of its body that refer to records; the company comes
    before references that depend on it.

    `owner`: its records belong to a `company`, or to a company or to everybody (`shared`).
    `counted` is the noun for a number of them, if not `noun` and `nouns`.

    In files, `key` are the identifying fields (none: files have no such records) and `values` is
    the field that maps names to values.

    In the console, `folder` replaces `collection` in the addresses of its pages.

    `command` is its group of commands, `about` that group's help, `metavar` the placeholder of a
    record there, `example` arguments of `create`, and `listed` arguments of `list`.
    """

    item: str
    collection: str
    one: str
    many: str
    parameter: str
    permissions: str
    columns: tuple[str, ...]
    pages: tuple[tuple[str, str], ...] = ()
    paged: bool = False
    deletable: bool = True
    aliases: Mapping[str, str] = field(default_factory=dict)
    known_by: str = ""
    named: str = ""
    required: tuple[tuple[str, ...], ...] = ()
    references: tuple[Reference, ...] = ()
    owner: Literal["company", "shared", ""] = ""
    counted: tuple[str, str] | None = None
    key: tuple[str, ...] = ()
    values: str | None = None
    folder: str = ""
    command: str = ""
    about: str = ""
    metavar: str = "NAME"
    example: str = ""
    listed: str = ""

    @property
    def noun(self) -> str:
        """The name of a record within a sentence: `run template`."""
        return self.one.lower()

    @property
    def nouns(self) -> str:
        """Its plural: `run templates`."""
        return self.many.lower()

    @property
    def named_in_files(self) -> Mapping[str, Reference]:
        """References to single records, by the fields of files that name them."""
        return {each.by: each for each in self.references if not each.many}

    @property
    def lists(self) -> Mapping[str, str]:
        """The kinds whose records a field lists, limited to the record's own company, by field."""
        return {
            each.field: each.kind
            for each in self.references
            if each.many and KINDS[each.kind].is_owned
        }

    @property
    def is_owned(self) -> bool:
        """Whether each record belongs to a company."""
        return self.owner == "company"

    def refers_to(self, item: str) -> bool:
        """Whether its records refer to records of a kind."""
        return any(each.kind == item for each in self.references)

    @property
    def read(self) -> str:
        """The permission to read."""
        return "security.audit" if self.permissions == "security" else f"{self.permissions}.read"


COMPANY = Reference("company_id", "company")


TOPICS = Reference("topics", "topic", many=True)


CALENDARS = Reference("calendars", "calendar", many=True)


KINDS: Mapping[str, Kind] = {
    kind.item: kind
    for kind in (
        Kind(
            "app", "apps", "Application", "Applications", "appId", "applications",
            folder="applications",
            columns=(
                "id", "name", "version", "description", "category", "enabled", "company_id",
                "updated_at",
            ),
            known_by="`uuid`, else by its `name` within its company or among the shared records",
            named="UUID or name; if it belongs to a company, also `company/name`",
            references=(COMPANY, TOPICS),
            owner="shared",
            key=("uuid", "name"),
            command="app",
            listed="--lang cs --columns id,name,category",
        ),
        Kind(
            "company", "companies", "Company", "Companies", "companyId", "companies",
            columns=("id", "name", "slug", "email", "enabled", "updated_at"),
            pages=(("Members", "users.html"),),
            known_by="`slug`, else by its `name`",
            named="slug or code",
            required=(("name",),),
            references=(TOPICS, CALENDARS),
            key=("slug",),
            values="env",
            command="company",
            about="applications run for them.",
            metavar="SLUG",
            example="acme email=it@acme.example --env TOWN=Prague",
            listed="--not-enabled",
        ),
        Kind(
            "runtemplate", "runtemplates", "Run template", "Run templates", "runTemplateId", "jobs",
            columns=(
                "id", "name", "app_id", "company_id", "interv", "cron", "active", "updated_at",
            ),
            pages=(("Suggested rules", "suggestions.html"),),
            aliases={"iterv": "interv"},
            known_by="`name` within its company",
            named="`company/name`",
            required=(("name",), ("app_id", "app_uuid", "app"), ("company_id", "company")),
            references=(
                COMPANY,
                Reference("app_id", "app"),
                TOPICS,
                CALENDARS,
                Reference("credentials", "credential", many=True),
            ),
            owner="company",
            key=("company", "name"),
            values="env",
            command="template",
            about="how a company runs an application.",
            metavar="COMPANY/NAME",
            example="acme/Nightly app=Probe interv=d --env COUNT=3 --secret API_KEY",
            listed="--company acme --active --columns id,name,cron",
        ),
        Kind(
            "job", "jobs", "Job", "Jobs", "jobId", "jobs",
            columns=(
                "id", "runtemplate_id", "company_id", "state", "severity", "exitcode", "message",
                "begin", "end",
            ),
            pages=(("Whole output", "output.txt"),),
            paged=True,
            required=(("runtemplate_id", "retry_of"),),
            references=(Reference("runtemplate_id", "runtemplate"),),
            command="job",
            listed='--state failed --company acme --from "2026-05-01 00:00:00"',
        ),
        Kind(
            "task", "tasks", "Task", "Tasks", "taskId", "jobs",
            columns=("id", "runtemplate_id", "window_start", "window_end", "state", "attempts"),
            paged=True,
            deletable=False,
            command="task",
            listed="--template acme/backup --state missed",
        ),
        Kind(
            "credential", "credentials", "Credential", "Credentials", "credentialId", "companies",
            columns=("id", "name", "company_id", "credential_type_id", "updated_at"),
            known_by="`name` within its company",
            named="`company/name`",
            required=(
                ("name",),
                ("company_id", "company"),
                ("credential_type_id", "credential_type"),
            ),
            references=(
                COMPANY,
                Reference("credential_type_id", "credential_type"),
            ),
            owner="company",
            key=("company", "name"),
            values="values",
            command="credential",
            about="values of a company, the secret ones encrypted.",
            metavar="COMPANY/NAME",
            example="acme/Bank credential_type=bank --env BANK_USER=anna --secret BANK_PIN",
            listed="--company acme --type bank",
        ),
        Kind(
            "credential_type", "credential_types", "Credential type", "Credential types",
            "credentialTypeID", "applications",
            folder="credentialtypes",
            columns=("id", "name", "code", "version", "description", "company_id", "updated_at"),
            known_by="`uuid`, else by its `code` within its company or among the shared records",
            named="code or UUID; if it belongs to a company, also `company/code`",
            required=(("code",), ("name",)),
            references=(COMPANY,),
            owner="shared",
            key=("company", "code"),
            command="credential-type",
            about="which values credentials have.",
            metavar="CODE",
            example='bank name=Bank fields=\'[{"keyword": "BANK_USER"}]\'',
            listed="--columns code,fields",
        ),
        Kind(
            "topic", "topics", "Topic", "Topics", "topicId", "applications",
            columns=("id", "name", "description", "color", "company_id"),
            known_by="`name` within its company or among the shared records",
            named="name; if it belongs to a company, also `company/name`",
            required=(("name",),),
            references=(COMPANY,),
            owner="shared",
            key=("company", "name"),
            command="topic",
            about="tags with a colour.",
            example="money color=00AA00",
            listed="--json",
        ),
        Kind(
            "calendar", "calendars", "Calendar", "Calendars", "calendarId", "applications",
            columns=("id", "name", "country", "subdivision", "timezone", "updated_at"),
            known_by="`name`",
            named="name",
            required=(("name",),),
            key=("name",),
            command="calendar",
            about="when windows are closed.",
            example='Closing country=CZ days=\'[{"date": "2026-12-31", "yearly": true}]\'',
            listed="--country CZ",
        ),
        Kind(
            "eventrule", "eventrules", "Event rule", "Event rules", "eventRuleId", "jobs",
            folder="rules",
            columns=(
                "id", "event_source_id", "runtemplate_source_id", "evidence", "operation",
                "runtemplate_id", "enabled", "priority",
            ),
            aliases={
                "source_runtemplate_id": "runtemplate_source_id",
                "target_runtemplate_id": "runtemplate_id",
            },
            required=(("runtemplate_id",), ("event_source_id", "runtemplate_source_id")),
            references=(
                Reference("event_source_id", "eventsource"),
                Reference("runtemplate_source_id", "runtemplate"),
                Reference("runtemplate_id", "runtemplate"),
            ),
            key=(
                "event_source", "runtemplate_source", "runtemplate", "evidence", "operation", "on",
            ),
            command="rule",
            about="what a change, or the end of a job, starts.",
            metavar="ID",
            example="event_source=Accounting evidence=invoice runtemplate=acme/Nightly",
            listed="--template acme/invoices",
        ),
        Kind(
            "eventsource", "eventsources", "Event source", "Event sources", "eventSourceId",
            "companies",
            folder="sources",
            columns=(
                "id", "name", "adapter_type", "db_connection", "db_host", "enabled", "company_id",
            ),
            known_by="`name`",
            named="name",
            required=(("name",), ("db_database",)),
            references=(COMPANY,),
            owner="shared",
            key=("company", "name"),
            command="source",
            about="databases whose changes are events.",
            example="Accounting db_connection=pgsql db_database=hooks --secret db_password",
            listed="--not-enabled",
        ),
        Kind(
            "user", "users", "User", "Users", "userId", "users",
            columns=("id", "login", "firstname", "lastname", "email", "enabled", "roles"),
            pages=(("Roles", "roles.html"),),
            known_by="`login`",
            named="login",
            required=(("login",),),
            command="user",
            listed="--enabled",
        ),
        Kind(
            "event", "events", "Event", "Events", "eventId", "jobs",
            columns=(
                "id", "created_at", "kind", "event_source_id", "runtemplate_id", "evidence",
                "operation", "record_id", "state",
            ),
            paged=True,
            deletable=False,
            command="event",
            listed="--state dead",
        ),
        Kind(
            "auditlog", "auditlog", "Audit entry", "Audit log", "auditLogId", "security",
            counted=("entry", "entries"),
            folder="audit",
            columns=(
                "id", "created_at", "actor", "door", "entity_type", "entity_id", "action",
            ),
            paged=True,
            deletable=False,
        ),
    )
}  # fmt: skip
"""By the name of a record in paths, in the order of pages and the document."""


FILE_KINDS: Mapping[str, Kind] = {
    item: KINDS[item]
    for item in (
        "calendar", "company", "credential_type", "topic", "app", "credential", "runtemplate",
        "eventsource", "eventrule",
    )
}  # fmt: skip
"""The kinds in files, in the order of writing: each refers only to earlier ones."""


COLLECTIONS: Mapping[str, Kind] = {kind.collection: kind for kind in KINDS.values()}
"""By the name of the list in paths."""
