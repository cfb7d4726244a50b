"""What applying files would change: compared with what is there, and checked as a whole first."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

from jobauto_prefect.cli.client import Client
from jobauto_prefect.cli.documents import Document, files_of, judge, read
from jobauto_prefect.cli.records import localized
from jobauto_prefect.compiler import timing_faults, zone_of
from jobauto_prefect.definitions import parse, to_text
from jobauto_prefect.errors import Fault, InvalidInput
from jobauto_prefect.facade.values import refuse_faults
from jobauto_prefect.ledger.secrets import MASK

Record = Mapping[str, Any]
KINDS = ("app", "company", "runtemplate")
"""In the order of applying: templates refer to the others."""

NOT_MEMBERS = ("$schema", "kind")
"""What a file says of itself, not of its record."""


@dataclass(frozen=True, slots=True)
class Change:
    """What becomes of one record; `fields` maps a member to its value before and after."""

    kind: str
    title: str
    action: str
    document: Document = field(repr=False)
    fields: Mapping[str, tuple[Any, Any]] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        fields = {name: {"before": old, "after": new} for name, (old, new) in self.fields.items()}
        return {
            "kind": self.kind,
            "title": self.title,
            "action": self.action,
            "fields": fields,
            "file": self.document.file,
        }


@dataclass(slots=True)
class Known:
    """The records there are; an application's definition is fetched when it is needed."""

    apps: Mapping[int, Record]
    companies: Mapping[int, Record]
    templates: Mapping[int, Record]

    @classmethod
    async def of(cls, client: Client) -> "Known":
        """Everything the facade lists."""
        return cls(
            await client.list("apps"),
            await client.list("companies"),
            await client.list("runtemplates"),
        )

    def app(self, content: Record) -> Record | None:
        """The application a definition is a version of: of its uuid, else of its name."""
        uuid = str(content.get("uuid", "")).lower()
        if uuid:
            return _first(self.apps, lambda app: str(app.get("uuid", "")).lower() == uuid)
        name = localized(content["name"])
        return _first(self.apps, lambda app: bool(localized(app["name"]) == name))

    def company(self, slug: str) -> Record | None:
        """The company of that slug."""
        return _first(self.companies, lambda company: bool(company["slug"] == slug))

    def template(self, slug: str, name: str) -> Record | None:
        """The run template of that name in a company."""
        owner = self.company(slug)
        if owner is None:
            return None
        key = (owner["id"], name)
        return _first(self.templates, lambda one: (one["company_id"], one["name"]) == key)


def _first(records: Mapping[int, Record], wanted: Callable[[Record], bool]) -> Record | None:
    return next(filter(wanted, records.values()), None)


def documents_in(paths: Iterable[Path]) -> list[Document]:
    """All records of the files, each valid by itself.

    Raises:
        InvalidInput: with the faults of all files.
    """
    documents: list[Document] = []
    faults: list[Fault] = []
    for path in files_of(paths):
        found, unreadable = read(path)
        documents += found
        faults += unreadable
    faults += chain.from_iterable(judge(each, each.kind).faults for each in documents)
    refuse(faults)
    return documents


def refuse(faults: Sequence[Fault]) -> None:
    """Raise `InvalidInput` where there are faults."""
    if faults:
        files = len({fault.file for fault in faults})
        place = f"{files} files" if files > 1 else "the file"
        count = f"{len(faults)} faults" if len(faults) > 1 else "a fault"
        raise InvalidInput(faults, f"there are {count} in {place}; nothing was changed")


class Planner:
    """Compares documents with what is there."""

    def __init__(self, client: Client, known: Known, documents: Sequence[Document]) -> None:
        self._client = client
        self._known = known
        self._of_kind = {kind: [each for each in documents if each.kind == kind] for kind in KINDS}

    async def plan(self) -> list[Change]:
        """The changes, in the order of applying them.

        Raises:
            InvalidInput: documents contradict each other, or refer to what is not there.
        """
        refuse([*self._repeated(), *self._unfit()])
        changes = [await self._of_app(each) for each in self._of_kind["app"]]
        changes += [self._of_company(each) for each in self._of_kind["company"]]
        changes += [self._of_template(each) for each in self._of_kind["runtemplate"]]
        return changes

    def _repeated(self) -> Iterable[Fault]:
        seen: dict[tuple[str, ...], Document] = {}
        for document in chain.from_iterable(self._of_kind.values()):
            key = _key(document)
            if key in seen:
                message = f"is there twice, first in {seen[key].file}"
                yield document.placed(Fault("", "duplicate", message))
            seen.setdefault(key, document)

    def _unfit(self) -> Iterable[Fault]:
        for company in self._of_kind["company"]:
            faults = _raised(refuse_faults, company.content.get("env", {}), None)
            yield from map(company.placed, faults)
            zone = company.content.get("timezone") or "UTC"
            yield from map(company.placed, _raised(zone_of, zone))
        for template in self._of_kind["runtemplate"]:
            yield from map(template.placed, self._unfit_template(template))

    def _unfit_template(self, document: Document) -> Iterable[Fault]:
        content = document.content
        if not self._company_is_known(content["company"]):
            yield Fault("/company", "reference", f"there is no company {content['company']!r}")
        apps = self.apps_meant(content)
        member = "app" if "app" in content else "app_uuid"
        if not apps:
            message = f"there is no application {content[member]!r}"
            yield Fault(f"/{member}", "reference", message)
        elif len(apps) > 1:
            yield Fault(f"/{member}", "reference", "several applications have it; use app_uuid")
        else:
            yield from _raised(refuse_faults, content.get("env", {}), parse(apps[0]))
        yield from timing_faults(content, "UTC")

    def _company_is_known(self, slug: str) -> bool:
        in_files = any(each.content["slug"] == slug for each in self._of_kind["company"])
        return in_files or self._known.company(slug) is not None

    def apps_meant(self, content: Record) -> list[Record]:
        """The definitions a template's reference fits; those of the files over those known."""
        given = [each.content for each in self._of_kind["app"]]
        replaced = [self._known.app(content) for content in given]
        others = [app for app in self._known.apps.values() if app not in replaced]
        return [app for app in (*given, *others) if means(content, app)]

    async def _of_app(self, document: Document) -> Change:
        content, app = document.content, self._known.app(document.content)
        title = str(localized(content["name"]))
        if app is None:
            return Change("app", title, "create", document)
        before = await self._client.get(f"/app/{app['id']}/definition.json")
        names = [name for name in {**before, **content} if before.get(name) != content.get(name)]
        fields = {name: (before.get(name), content.get(name)) for name in names}
        return _change("app", title, document, fields)

    def _of_company(self, document: Document) -> Change:
        content = document.content
        record = self._known.company(content["slug"])
        return _compared("company", content["slug"], document, record)

    def _of_template(self, document: Document) -> Change:
        content = document.content
        title = f"{content['company']}/{content['name']}"
        record = self._known.template(content["company"], content["name"])
        if record is not None:
            app = self._known.apps.get(record["app_id"])
            # A reference has changed only where it means another application than the record's.
            known = app is not None and means(content, app)
            named = {name: content.get(name) for name in ("app", "app_uuid")} if known else {}
            record = {**record, "company": content["company"], **named}
        return _compared("runtemplate", title, document, record)


def _key(document: Document) -> tuple[str, ...]:
    content = document.content
    if document.kind == "app":
        return "app", str(content.get("uuid", "")).lower() or str(localized(content["name"]))
    if document.kind == "company":
        return "company", content["slug"]
    return "runtemplate", content["company"], content["name"]


def means(template: Record, app: Record) -> bool:
    """Whether a template's reference, by name or UUID, is to this application."""
    if "app_uuid" in template:
        return bool(str(app.get("uuid", "")).lower() == template["app_uuid"].lower())
    name = app["name"]
    return template["app"] in (name.values() if isinstance(name, Mapping) else (name,))


def _raised(checking: Callable[..., object], *arguments: Any) -> Iterable[Fault]:
    try:
        checking(*arguments)
    except InvalidInput as error:
        return error.faults
    return ()


def _compared(kind: str, title: str, document: Document, record: Record | None) -> Change:
    if record is None:
        return Change(kind, title, "create", document)
    fields = {
        name: (record.get(name), value)
        for name, value in document.content.items()
        if name not in (*NOT_MEMBERS, "env") and record.get(name) != value
    }
    for name, value in document.content.get("env", {}).items():
        before = record["env"].get(name)
        after = None if value is None else to_text(value)
        if before != after:
            fields[f"env.{name}"] = (before, MASK if before == MASK else after)
    return _change(kind, title, document, fields)


def _change(
    kind: str, title: str, document: Document, fields: Mapping[str, tuple[Any, Any]]
) -> Change:
    return Change(kind, title, "update" if fields else "unchanged", document, fields)
