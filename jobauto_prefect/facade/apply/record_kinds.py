"""The kinds of records that files hold: their keys, their references, and what they start."""

import re
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from jobauto_prefect.definitions.records.actions import STARTED, ActionMode
from jobauto_prefect.definitions.validation.record_files import record_schema
from jobauto_prefect.kinds import FILE_KINDS, Kind, Reference

Record = Mapping[str, Any]
Titles = Mapping[str, Mapping[int, str]]
Key = tuple[str | None, ...]
Word = Hashable
"""What references may name a record by: its title, for applications more."""

MODES = tuple(map(str, ActionMode))


def to_file_actions(actions: Record, titles: Titles) -> dict[str, Any]:
    """Return actions as files hold them, without secrets; `titles`: kind -> id -> title."""
    in_file: dict[str, Any] = {}
    for name, config in actions.items():
        in_file[name] = {key: value for key, value in config.items() if key != "secret"}
        if (reference := STARTED.get(name)) is not None:
            in_file[name] = {reference.by: titles[reference.kind].get(config[reference.field])}
    return in_file


def to_field_actions(
    actions: Record, number_of: Callable[[str, str], int | str | None]
) -> dict[str, Any]:
    """Return a file's actions as the facade accepts them; `number_of`: kind, title -> id."""
    fields = dict(actions)
    for name, reference in STARTED.items():
        if name in fields:
            number = number_of(reference.kind, fields[name][reference.by])
            fields[name] = {reference.field: number}
    return fields


def references(content: Record) -> Iterator[tuple[str, str, str]]:
    """Yield what the actions of a run template start: pointer, kind, title."""
    for mode in MODES:
        for name, config in content.get(mode, {}).items():
            if (reference := STARTED.get(name)) is not None:
                pointer = f"/{mode}/{name}/{reference.by}"
                yield pointer, reference.kind, config[reference.by]


NOT_MEMBERS = ("$schema", "kind")
"""Keys that describe the file, not its record."""

SLUG = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")


class Named(NamedTuple):
    """A reference to a record: its place in the file, and the company whose records come first."""

    pointer: str
    kind: str
    title: str
    company: str | None


class FileKind:
    """A kind of record as files hold it; what a single kind needs is in its subclass."""

    knows_new_by_uuid = False
    """Whether an unknown UUID means a new record, whatever its name."""

    def __init__(self, kind: Kind) -> None:
        self.words = kind
        self.item = kind.item
        self.is_shared = kind.owner == "shared"

    def key(self, content: Record) -> Key:
        """Return what identifies a record, from the fields as files hold them."""
        properties = record_schema(self.words.item)["properties"]
        return tuple(
            content.get(name) or properties[name].get("default") for name in self.words.key
        )

    def title(self, content: Record) -> str:
        """Return a record's display name."""
        return "/".join(str(part) for part in self.key(content) if part is not None)

    def bare_title(self, content: Record) -> str:
        """Return the title without the company, as records of the same company refer to it."""
        return str(content[self.words.key[-1]]) if self.is_shared else self.title(content)

    def by_words(self, content: Record) -> set[Word]:
        """Return everything that references may name a record by."""
        return {self.title(content)}

    def words_meant(self, named: Named) -> list[Word]:
        """Return what a reference to such a record may mean: the company's own first."""
        if self.is_shared and named.company:
            return [f"{named.company}/{named.title}", named.title]
        return [named.title]

    def says_owner(self, content: Record) -> bool:
        """Whether a file names its record's owner."""
        return "company" in content

    def owner(self, content: Record) -> str | None:
        """Return the company that owns a record by its file; None: it is shared or names none."""
        return content["company"] if self.says_owner(content) else None

    def company(self, content: Record) -> str | None:
        """Return the company whose records references mean first; None: the shared ones."""
        return self.owner(content)

    def labels(self, content: Record, /) -> Any:
        """Return the labels in a file; None: none."""
        return content.get("labels")

    def named(self, content: Record) -> Iterator[Named]:
        """Yield a record's references, except for those of its actions."""
        company = self.company(content)
        for reference in self.words.references:
            if reference.many:
                yield from self.listed(reference, content)
                continue
            is_owner = self.is_shared and reference.by == "company"
            title = self.owner(content) if is_owner else content.get(reference.by)
            if title is not None:
                yield Named(f"/{reference.by}", reference.kind, title, company)

    def listed(self, reference: Reference, content: Record) -> Iterator[Named]:
        """Yield the references in a list; owned kinds are of the record's own company."""
        titles, company = content.get(reference.field), self.company(content)
        if isinstance(titles, list) and all(isinstance(title, str) for title in titles):
            own = f"{company}/" if FILE_KINDS[reference.kind].is_owned else ""
            for place, title in enumerate(titles):
                pointer = f"/{reference.field}/{place}"
                yield Named(pointer, reference.kind, f"{own}{title}", company)

    def started(self, _content: Record, /) -> Iterator[Named]:
        """Yield what the actions of a record start."""
        return iter(())

    def definitions(self, _records: Iterable[Any], /) -> dict[int, Record]:
        """Return the definitions of records that have one, by their ids."""
        return {}


class Applications(FileKind):
    """A definition is the whole file: it may have any key, and a name in several languages."""

    knows_new_by_uuid = True

    def key(self, content: Record) -> Key:
        uuid = str(content.get("uuid") or "").lower()
        return (uuid,) if uuid else (self.owner(content), self.title(content))

    def title(self, content: Record) -> str:
        return str(localized(content["name"]))

    def bare_title(self, content: Record) -> str:
        return self.title(content)

    def by_words(self, content: Record) -> set[Word]:
        owner = self.owner(content)
        return {(owner, *name) for name in self._names(content)}

    def words_meant(self, named: Named) -> list[Word]:
        return [(owner, *self._name(named)) for owner in dict.fromkeys((named.company, None))]

    def is_meant(self, named: Named, content: Record) -> bool:
        """Whether a reference is to an application, of any owner."""
        return self._name(named) in self._names(content)

    def _names(self, content: Record) -> set[tuple[str, str]]:
        name, uuid = content["name"], str(content.get("uuid") or "").lower()
        names = {
            ("name", each) for each in (name.values() if isinstance(name, Mapping) else (name,))
        }
        return names | {("uuid", uuid)} if uuid else names

    def _name(self, named: Named) -> tuple[str, str]:
        is_uuid = named.pointer == "/app_uuid"
        return ("uuid", named.title.lower()) if is_uuid else ("name", named.title)

    def says_owner(self, content: Record) -> bool:
        if "company" not in content:
            return False
        company = content["company"]
        return company is None or bool(SLUG.fullmatch(str(company)))

    def labels(self, _content: Record, /) -> Any:
        return None

    def definitions(self, records: Iterable[Any], /) -> dict[int, Record]:
        return {record.id: record.document for record in records}

    def definition(self, content: Record) -> dict[str, Any]:
        """Return the definition without its file's owner."""
        apart = ("company",) if self.says_owner(content) else ()
        return {name: value for name, value in content.items() if name not in apart}


class Companies(FileKind):
    """References of a company mean its own records first."""

    def company(self, content: Record) -> str | None:
        slug: str = content["slug"]
        return slug


class RunTemplates(FileKind):
    """A run template may name its application by UUID, and its actions have references."""

    def named(self, content: Record) -> Iterator[Named]:
        is_by_uuid = "app_uuid" in content
        yield from (
            each for each in super().named(content) if each.pointer != "/app" or not is_by_uuid
        )
        if is_by_uuid:
            yield Named("/app_uuid", "app", content["app_uuid"], content["company"])

    def started(self, content: Record, /) -> Iterator[Named]:
        for pointer, kind, title in references(content):
            yield Named(pointer, kind, title, content["company"])


class EventRules(FileKind):
    """A rule belongs to the company of the run template that it starts."""

    def key(self, content: Record) -> Key:
        if content.get("event_source"):
            own = f"{self.company(content)}/"
            content = {**content, "event_source": str(content["event_source"]).removeprefix(own)}
        return super().key(content)

    def title(self, content: Record) -> str:
        """Return what starts it, and what it starts."""
        if content.get("event_source"):
            changes = f"{content.get('evidence') or 'anything'} {content.get('operation', 'any')}"
            trigger = f"{content['event_source']} {changes}"
        else:
            trigger = f"{content.get('runtemplate_source')} {content.get('on', 'success')}"
        return f"{trigger} → {content['runtemplate']}"

    def company(self, content: Record) -> str | None:
        return str(content.get("runtemplate") or "").partition("/")[0] or None


APPS = Applications(FILE_KINDS["app"])


COMPANIES = Companies(FILE_KINDS["company"])


TEMPLATES = RunTemplates(FILE_KINDS["runtemplate"])


RULES = EventRules(FILE_KINDS["eventrule"])


OF_THEIR_OWN = {form.words.item: form for form in (APPS, COMPANIES, TEMPLATES, RULES)}


FILES: Mapping[str, FileKind] = {
    item: OF_THEIR_OWN.get(item) or FileKind(kind) for item, kind in FILE_KINDS.items()
}
"""By kind, in the order of writing."""


def localized(value: Any) -> Any:
    """Return a localized text in one language: English, else the first one."""
    if isinstance(value, Mapping) and value:
        return value.get("en", next(iter(value.values())))
    return value
