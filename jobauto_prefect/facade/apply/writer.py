"""Makes planned changes, record by record, in one transaction."""

import functools
import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any

from jobauto_prefect.errors import Fault, Forbidden, JobautoError, NotReady, Unavailable
from jobauto_prefect.facade.apply.documents import Document
from jobauto_prefect.facade.apply.plans import Change
from jobauto_prefect.facade.apply.record_index import RecordIndex
from jobauto_prefect.facade.apply.record_kinds import (
    APPS,
    COMPANIES,
    FILES,
    MODES,
    NOT_MEMBERS,
    TEMPLATES,
    Named,
    Word,
    to_field_actions,
)
from jobauto_prefect.facade.apply.refusals import Refusals
from jobauto_prefect.facade.auth.identity import Identity
from jobauto_prefect.facade.http.requests import WHOLE_BODY, Fields
from jobauto_prefect.facade.kinds.natural_keys import resolve_names
from jobauto_prefect.facade.kinds.registry import BY_ITEM
from jobauto_prefect.facade.service import Service
from jobauto_prefect.facade.writes.base import WriteRequest, WriteResult
from jobauto_prefect.jobs.windows.tasks import deactivate
from jobauto_prefect.kinds import FILE_KINDS
from jobauto_prefect.ledger import locks
from jobauto_prefect.ledger.access.ownership import company_of
from jobauto_prefect.ledger.audit.trail import WritingSession
from jobauto_prefect.ledger.database.engine import database_errors
from jobauto_prefect.ledger.queries.lookup import get_record
from jobauto_prefect.ledger.soft_delete import soft_delete


class ReferenceResolver:
    """The ids of the existing records and of those written so far."""

    def __init__(self, index: RecordIndex) -> None:
        self._index = index
        self._written: dict[tuple[str, Word], int] = {}

    def note(self, document: Document, number: int) -> None:
        """Note that the record of a document now exists, with this id."""
        kind = document.kind or ""
        content = self._index.with_owner(kind, document.content)
        for word in FILES[kind].by_words(content):
            self._written[kind, word] = number

    def members(self, document: Document) -> dict[str, Any]:
        """Return a document's fields with ids in place of names; not for definitions."""
        content, form = document.content, FILES[document.kind or ""]
        by_name = form.words.named_in_files
        apart = {*NOT_MEMBERS, "app_uuid", *by_name}
        members = {name: value for name, value in content.items() if name not in apart}
        if document.labels is not None:
            members["labels"] = list(document.labels)
        for named in form.named(content):
            member = "app" if named.pointer == "/app_uuid" else named.pointer[1:]
            if member in by_name:
                members[by_name[member].field] = self._id(named)
        if form.is_shared and form.says_owner(content):
            members.setdefault("company_id", None)
        started = {(each.kind, each.title): self._id(each) for each in form.started(content)}

        def number(kind: str, title: str) -> int | None:
            return started[kind, title]

        return members | {
            mode: to_field_actions(content[mode], number) for mode in MODES if mode in content
        }

    def company_of(self, document: Document) -> int | None:
        """Return the id of the company that owns a definition by its file; None: it is shared."""
        owner = FILES["app"].owner(document.content)
        return None if owner is None else self._id(Named("/company", "company", owner, None))

    def _id(self, named: Named) -> int | None:
        """Return the id of what a reference means; None: it does not exist."""
        for word in FILES[named.kind].words_meant(named):
            written = self._written.get((named.kind, word))
            if written is not None:
                return written
        return next(iter(self._index.find_named(named)), None)


PAGE = 200
"""Changes that are tried together; what one transaction writes is locked until it ends."""


JUDGED = "judged"
"""A deletion that needs more others than a page has: only the permission is checked."""


ORDER = [*FILE_KINDS]


LATE: Mapping[str, Sequence[str]] = {
    item: [
        reference.field
        for reference in kind.references
        if reference.many and ORDER.index(reference.kind) > ORDER.index(item)
    ]
    for item, kind in FILE_KINDS.items()
}
"""Fields that name records written later: a company's topics can't exist before the company."""


class Writer:
    """Writes like single requests of the same user, with the same permissions."""

    def __init__(
        self, service: Service, who: Identity, session: WritingSession, index: RecordIndex
    ) -> None:
        self._service = service
        self._who = who
        self._session = session
        self._references = ReferenceResolver(index)
        self._owing: list[tuple[Change, int, Fields]] = []

    def write(self, change: Change) -> list[Fault]:
        """Make a change; return its warnings."""
        if change.document is None:
            self._delete(change.kind, change.number or 0, only_judged=change.action == JUDGED)
            return []
        if change.action == "restore":
            self._post(change.kind, {}, change.number)
            return []
        return self._take(change, change.document)

    def _take(self, change: Change, document: Document) -> list[Fault]:
        is_definition = FILES[change.kind] is APPS
        if is_definition:
            content, raw = document.content, document.raw
            fields: Fields = {"definition": WHOLE_BODY}
            if document.labels is not None:
                fields["labels"] = list(document.labels)
            if APPS.says_owner(content):
                fields["company_id"] = self._references.company_of(document)
                raw = None
            text = json.dumps(APPS.definition(content), ensure_ascii=False, indent=2).encode()
            written = self._post("app", fields, change.number, raw or text)
        else:
            members = self._references.members(document)
            late = {name: members.pop(name) for name in LATE[change.kind] if name in members}
            written = self._post(change.kind, members, change.number)
            if late:
                self._owing.append((change, written.record.id, late))
        self._references.note(document, written.record.id)
        # Definitions were validated before, except for what they require.
        return [
            warning
            for warning in written.warnings
            if not is_definition or warning.rule == "unknown_requirement"
        ]

    def owing(self) -> Iterator[tuple[Change, Callable[[], object]]]:
        """Yield the changes with fields that had to wait, each with what writes these."""
        for change, number, fields in self._owing:
            yield change, functools.partial(self._post, change.kind, fields, number)

    def _delete(self, item: str, number: int, *, only_judged: bool) -> None:
        resource = BY_ITEM[item]
        record = get_record(self._session, resource.record, number)
        company = company_of(record)
        self._who.rights.require(resource.kind.permissions, "delete", company, record)
        if not only_judged:
            soft_delete(self._session, record, deactivate)

    def _post(self, item: str, fields: Fields, number: int | None, raw: bytes = b"") -> WriteResult:
        service, who = self._service, self._who
        resource = BY_ITEM[item]
        assert resource.write is not None  # noqa: S101 - files have no other kinds
        ids = resolve_names(self._session, who, item, fields, number)
        box, settings = service.ledger.box, service.settings
        write = WriteRequest(self._session, box, settings, who, ids, number, raw)
        written = resource.write(write)
        self._session.flush()
        return written


@dataclass(slots=True)
class WriteOutcome:
    """The results of writing: warnings with kind and title of the record, errors, and changes that
    the user may not make.
    """

    warnings: list[tuple[str, str, Fault]] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    forbidden: list[Fault] = field(default_factory=list)

    def extend(self, other: "WriteOutcome") -> None:
        """Add the results of another page, without duplicates."""
        self.warnings = [*dict.fromkeys([*self.warnings, *other.warnings])]
        self.faults = [*dict.fromkeys([*self.faults, *other.faults])]
        self.forbidden = [*dict.fromkeys([*self.forbidden, *other.forbidden])]


class Pages:
    """The changes of a plan, tried page by page; each page can be tried by itself.

    A page begins with what its changes need: records they refer to, and for a deletion what refers
    to the record now. A run template that an action starts is included as a `_stub`, so that long
    chains do not make a page longer.
    """

    def __init__(self, changes: Sequence[Change], index: RecordIndex) -> None:
        self._changes = [change for change in changes if change.action != "unchanged"]
        self._index = index
        self._worded: dict[tuple[str, Word], set[int]] = defaultdict(set)
        self._numbered: dict[tuple[str, int | None], int] = {}
        self._launched: dict[tuple[str | None, str], list[int]] = defaultdict(list)
        for place, change in enumerate(self._changes):
            self._note(place, change)

    def _note(self, place: int, change: Change) -> None:
        form = FILES[change.kind]
        words: set[Word] = {change.title}
        if change.number is not None:  # two records may swap their titles
            record = self._index.records[change.kind][change.number]
            words |= {form.title(record), *form.by_words(record)}
            self._numbered[change.kind, change.number] = place
        if change.document is not None:
            content = self._index.with_owner(change.kind, change.document.content)
            words |= form.by_words(content)
            for named in form.named(content) if self._is_new(place) else ():
                if named.pointer in ("/app", "/app_uuid"):
                    self._launched[named.company, named.title.lower()].append(place)
        for word in words:
            self._worded[change.kind, word].add(place)

    def __iter__(self) -> Iterator[list[Change]]:
        """Yield the pages, in the order of the plan."""
        whole: set[int] = set()
        for place in range(len(self._changes)):
            more = self._with_needs([place])
            if whole and len(whole | more) > PAGE:
                yield self._page(whole)
                whole = set()
            if self._changes[place].document is None and len(more) > PAGE:
                yield [replace(self._changes[place], action=JUDGED)]
            else:
                whole |= more
        if whole:
            yield self._page(whole)

    def _page(self, whole: set[int]) -> list[Change]:
        page = {place: self._changes[place] for place in whole}
        for place in whole:
            for target in self._started(self._changes[place]) - page.keys():
                page[target] = _stub(self._changes[target])
                for needed in self._with_needs(self._needed(page[target])) - page.keys():
                    page[needed] = self._changes[needed]
        return [page[place] for place in sorted(page)]

    def _with_needs(self, places: Iterable[int]) -> set[int]:
        found: set[int] = set()
        waiting = [*places]
        while waiting:
            place = waiting.pop()
            if place not in found:
                found.add(place)
                waiting += self._needed(self._changes[place])
        return found

    def _needed(self, change: Change) -> set[int]:
        """Return the places of what must be written before, except for what actions start."""
        if change.document is None:
            dependents = self._index.dependents(change.kind, change.number or 0)
            return {self._numbered[each] for each in dependents if each in self._numbered}
        form, content = FILES[change.kind], change.document.content
        started = (named for named in form.started(content) if FILES[named.kind] is APPS)
        wanted: set[tuple[str, Word]] = {(change.kind, change.title)}
        for named in (*form.named(content), *started):
            wanted |= {(named.kind, word) for word in FILES[named.kind].words_meant(named)}
        return set().union(*(self._worded.get(each, ()) for each in wanted))

    def _started(self, change: Change) -> set[int]:
        """Return the places of new run templates that its actions start."""
        started = set[int]()
        content = change.document.content if change.document is not None else {}
        for named in FILES[change.kind].started(content):
            if FILES[named.kind] is APPS:  # two are enough for the error
                started |= {*self._launched[named.company, named.title.lower()][:2]}
            else:
                started |= self._worded.get((named.kind, named.title), set())
        return {place for place in started if self._is_new(place)}

    def _is_new(self, place: int) -> bool:
        change = self._changes[place]
        return change.number is None or "app" in change.fields


def _stub(change: Change) -> Change:
    """Return a run template that refers to nothing but its company and application."""
    assert change.document is not None  # noqa: S101 - it is started, so it is not deleted
    apart = {*MODES, "credentials", "topics", "calendars"}
    content = {name: value for name, value in change.document.content.items() if name not in apart}
    return replace(change, document=replace(change.document, content=content))


def write_all(session: WritingSession, writer: Writer, changes: Sequence[Change]) -> WriteOutcome:
    """Write the changes in the order of a plan.

    Raises:
        JobautoError: the first one that is refused.
    """
    outcome = WriteOutcome()
    _lock(session, changes)
    for change in changes:
        _write(writer, change, outcome)
    for _, write in writer.owing():
        write()
    return outcome


def try_each(
    session: WritingSession, writer: Writer, changes: Sequence[Change], refused: Refusals
) -> WriteOutcome:
    """Try changes one by one; skip those that refer to a refused one."""
    outcome = WriteOutcome()
    _lock(session, changes)
    writes: Iterator[tuple[Change, Callable[[], object]]] = (
        (change, functools.partial(_write, writer, change, outcome)) for change in changes
    )
    for change, write in chain(writes, writer.owing()):
        if change.document is not None and refused.is_needed_by(change.document):
            refused.add(change.document)
        else:
            _try(session, write, change, refused, outcome)
    return outcome


def _lock(session: WritingSession, changes: Sequence[Change]) -> None:
    def numbers(kind: str) -> list[int]:
        changed = (each for each in changes if each.action != "unchanged" and each.kind == kind)
        return [each.number for each in changed if each.number is not None]

    locks.lock_run_templates(session, numbers(TEMPLATES.item), numbers(COMPANIES.item))


def _write(writer: Writer, change: Change, outcome: WriteOutcome) -> None:
    if change.action != "unchanged":
        warnings = writer.write(change)
        outcome.warnings += [(change.kind, change.title, warning) for warning in warnings]


def _try(
    session: WritingSession,
    write: Callable[[], object],
    change: Change,
    refused: Refusals,
    outcome: WriteOutcome,
) -> None:
    try:
        with database_errors(), session.begin_nested():
            write()
    except (Unavailable, NotReady):
        raise
    except JobautoError as error:
        into = outcome.forbidden if isinstance(error, Forbidden) else outcome.faults
        into += _faults_of(error, change)
        if change.document is not None:
            refused.add(change.document)


def _faults_of(error: JobautoError, change: Change) -> Iterator[Fault]:
    """Yield a refusal's errors with their place in the file; without a file, with the record."""
    rule = "forbidden" if isinstance(error, Forbidden) else "refused"
    faults: Sequence[Fault] = getattr(error, "faults", ()) or [Fault("", rule, str(error))]
    for fault in faults:
        if change.document is not None:
            yield change.document.locate_fault(replace(fault, line=None, column=None))
        else:
            named = f"{FILE_KINDS[change.kind].noun} {change.title}: {fault.message}"
            yield replace(fault, message=named, line=None, column=None)
