"""What applying files would change, compared with the existing records."""

import functools
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from graphlib import CycleError, TopologicalSorter
from typing import Any, TypeVar

from jobauto_prefect.definitions import to_text
from jobauto_prefect.errors import Fault, InvalidInput
from jobauto_prefect.facade.apply.documents import Document
from jobauto_prefect.facade.apply.record_index import RecordIndex
from jobauto_prefect.facade.apply.record_kinds import (
    APPS,
    FILES,
    NOT_MEMBERS,
    TEMPLATES,
    Named,
    Record,
    Word,
)
from jobauto_prefect.kinds import FILE_KINDS, KINDS

T = TypeVar("T")
Fields = Mapping[str, tuple[Any, Any]]
"""Field -> its value before and after."""

ACTIONS = ("create", "update", "restore", "delete", "unchanged")
"""`restore`: the record does not change, but is registered in Prefect again."""


@dataclass(frozen=True, slots=True)
class Change:
    """The change of one record.

    `number` is its id; None: it is new. `document` is None if no file contains it. `drift` is where
    Prefect differs from the record: what it has, what it should have.
    """

    kind: str
    title: str
    action: str
    document: Document | None = field(repr=False)
    number: int | None = None
    fields: Fields = field(default_factory=dict)
    drift: Fields = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """Return the change as answers show it."""
        drift = {name: {"prefect": old, "record": new} for name, (old, new) in self.drift.items()}
        return {
            "kind": self.kind,
            "title": self.title,
            "action": self.action,
            "id": self.number,
            "fields": {
                name: {"before": old, "after": new} for name, (old, new) in self.fields.items()
            },
            "drift": drift,
            "file": self.document.file if self.document else None,
        }


class Planner:
    """Compares documents with the existing records.

    `labels` are added to every record. `definitions` are those of the known applications, by their
    ids; `drift` is where Prefect differs from the records, by kind and id.
    """

    def __init__(
        self,
        index: RecordIndex,
        documents: Sequence[Document],
        *,
        definitions: Mapping[int, Record],
        labels: Collection[str] = (),
        drift: Mapping[tuple[str, int], Fields] | None = None,
    ) -> None:
        self._index = index
        self._documents = [
            each
            for kind in FILE_KINDS
            for each in sort_by_references(
                kind,
                [document for document in documents if document.kind == kind],
                lambda document: document.content,
            )
        ]
        self._definitions = definitions
        self._labels = frozenset(labels)
        self._drift = drift or {}

    def changes(self) -> list[Change]:
        """Return the changes for the documents, in the order in which they are made."""
        return [self._change(each) for each in self._documents]

    def _change(self, document: Document) -> Change:
        kind = document.kind or ""
        title = FILES[kind].title(self._index.with_owner(kind, document.content))
        number = self._index.id_of(kind, document.content)
        if number is None:
            return Change(kind, title, "create", self._labelled(document, ()))
        record = self._index.records[kind][number]
        document = self._labelled(document, record["labels"])
        compare = COMPARISONS.get(kind, Planner.of_record)
        fields = dict(compare(self, document, record))
        drift = self._drift.get((kind, number), {})
        action = "update" if fields else "restore" if drift else "unchanged"
        return Change(kind, title, action, document, number, fields, drift)

    def _labelled(self, document: Document, before: Collection[str]) -> Document:
        """Return a document with the command line's labels added to those it would have."""
        if not self._labels:
            return document
        said = FILES[document.kind or ""].labels(document.content)
        own = before if said is None else said
        return replace(document, labels=tuple(sorted({*own, *self._labels})))

    def of_app(self, document: Document, record: Record) -> Iterable[tuple[str, tuple[Any, Any]]]:
        """Compare an application's definition, owner, topics and labels."""
        before, content = self._definitions[record["id"]], APPS.definition(document.content)
        if APPS.says_owner(document.content):
            owners = APPS.owner(record), APPS.owner(document.content)
            yield from [("company", owners)] if owners[0] != owners[1] else []
        yield from self._topics_compared(document, record)
        attached = record.get("topics", []) if "topics" not in before else None
        for name in {**before, **content}:
            if name == "topics" and content.get(name) == attached:
                continue  # as `export` writes it
            if before.get(name) != content.get(name):
                yield name, (before.get(name), content.get(name))
        yield from _labels_compared(document, record)

    def _topics_compared(
        self, document: Document, record: Record
    ) -> Iterable[tuple[str, tuple[Any, Any]]]:
        """Compare the topics that a definition lists, as far as they exist."""
        if not isinstance(document.content.get("topics"), list):
            return
        content = self._index.with_owner("app", document.content)
        listed = (each for each in APPS.named(content) if each.pointer.startswith("/topics/"))
        named = [*dict.fromkeys(each.title for each in listed if self._is_there(each))]
        attached = record.get("topics", [])
        if named != attached:
            yield "attached topics", (attached, named)

    def _is_there(self, named: Named) -> bool:
        """Whether a reference's target exists, or will be created by these files."""
        meant = FILES[named.kind].words_meant(named)
        return bool(self._index.find_named(named)) or not self._given[named.kind].isdisjoint(meant)

    @functools.cached_property
    def _given(self) -> Mapping[str, set[Word]]:
        given: dict[str, set[Word]] = {kind: set() for kind in FILE_KINDS}
        for document in self._documents:
            kind = document.kind or ""
            given[kind] |= FILES[kind].by_words(self._index.with_owner(kind, document.content))
        return given

    def of_template(
        self, document: Document, record: Record
    ) -> Iterable[tuple[str, tuple[Any, Any]]]:
        """Compare a run template; its application has changed only if another one is meant."""
        others = [
            (named.pointer[1:], (record["app"], named.title))
            for named in TEMPLATES.named(document.content)
            if named.pointer in ("/app", "/app_uuid")
            and not APPS.is_meant(named, record["application"])
        ]
        return self.of_record(document, record, others)

    def of_record(
        self,
        document: Document,
        record: Record,
        more: Iterable[tuple[str, tuple[Any, Any]]] = (),
    ) -> Iterable[tuple[str, tuple[Any, Any]]]:
        """Compare what a file contains of a record; `more` are other differences."""
        values, content = FILE_KINDS[document.kind or ""].values or "", document.content
        apart = {*NOT_MEMBERS, values, "labels", "app", "app_uuid"}
        for name, value in content.items():
            if name not in apart and _plain(name, record.get(name)) != _plain(name, value):
                yield name, (record.get(name), value)
        yield from more
        for name, value in content.get(values, {}).items():
            before, after = record[values].get(name), None if value is None else to_text(value)
            if before != after:
                yield f"{values}.{name}", (before, after)
        yield from _labels_compared(document, record)

    def deletions(self) -> list[Change]:
        """Return the deletions of `--prune`, in the order in which they are made.

        They are the records that have only labels of the documents and that no document names or
        refers to. Without documents there are none.

        Raises:
            InvalidInput: the documents have no labels, or a record that stays refers to one that
                would be deleted.
        """
        if not self._documents:  # an empty folder or a broken pipe must not delete all records
            return []
        gone = self._in_order(self._unnamed(self._owned()))
        faults = list(self._needed(gone))
        if faults:
            raise InvalidInput(faults, f"--prune: {faults[0].message}; nothing was changed")
        last_first = list(reversed(gone))
        last_first.sort(key=self._is_borne_by_companies)
        return [
            Change(kind, self._index.title(kind, number), "delete", None, number)
            for kind, number in last_first
        ]

    def _is_borne_by_companies(self, record_key: tuple[str, int]) -> bool:
        """Whether the record is shared and companies use it, so that it is deleted last."""
        kind, number = record_key
        is_borne = any(each.kind == kind for each in KINDS["company"].references)
        return is_borne and FILES[kind].owner(self._index.records[kind][number]) is None

    def _needed(self, gone: Sequence[tuple[str, int]]) -> Iterator[Fault]:
        going = frozenset(gone)
        for kind, number in gone:
            stays = [
                dependent
                for dependent in self._index.dependents(kind, number)
                if dependent not in going
            ]
            if stays:
                named = ", ".join(
                    f"{FILE_KINDS[dependent_kind].noun} {self._index.title(dependent_kind, other)}"
                    for dependent_kind, other in stays
                )
                noun = FILE_KINDS[kind].noun
                message = (
                    f"would delete the {noun} {self._index.title(kind, number)}, which is still "
                    f"needed by {named}; name it in a file, or delete these first"
                )
                yield Fault("", "prune", message)

    def _in_order(self, gone: list[tuple[str, int]]) -> list[tuple[str, int]]:
        """Sort run templates after those that their actions start; others keep their places."""
        ordered = {}
        for kind, records in self._index.records.items():
            numbers = [number for each, number in gone if each == kind]
            ordered[kind] = iter(sort_by_references(kind, numbers, records.__getitem__))
        return [(kind, next(ordered[kind])) for kind, _ in gone]

    def _owned(self) -> frozenset[str]:
        said = (FILES[each.kind or ""].labels(each.content) or () for each in self._documents)
        owned = self._labels.union(*said)
        if not owned:
            message = (
                "the files have no labels, so they own nothing: add labels to them, or use --label"
            )
            raise InvalidInput([Fault("", "labels", message)], f"--prune: {message}")
        return owned

    def _unnamed(self, owned: frozenset[str]) -> list[tuple[str, int]]:
        """Return the owned records that no document names or refers to, in the order of writing."""
        named: set[tuple[str, int]] = set()
        for document in self._documents:
            kind = document.kind or ""
            named |= {*self._index.references_of(kind, document.content)}
            number = self._index.id_of(kind, document.content)
            if number is not None:
                named.add((kind, number))
        return [
            (kind, number)
            for kind in FILE_KINDS
            for number, record in self._index.records[kind].items()
            if record["labels"] and owned.issuperset(record["labels"])
            if (kind, number) not in named
        ]


COMPARISONS: Mapping[
    str, Callable[[Planner, Document, Record], Iterable[tuple[str, tuple[Any, Any]]]]
] = {APPS.item: Planner.of_app, TEMPLATES.item: Planner.of_template}
"""Comparisons that kinds need, other than `of_record`."""


def _plain(name: str, value: Any) -> Any:
    """Return a value as the service stores it: ports as text, fields with their defaults."""
    if name == "db_port":
        return None if value is None else str(value)
    if name == "color" and isinstance(value, str):
        return value.removeprefix("#")
    if name == "fields":
        without = [{key: each for key, each in item.items() if each is not None} for item in value]
        return [{"type": "string", "required": False, **item} for item in without]
    if name == "availability" and value:
        return {"timeout_seconds": 5, "retry_seconds": 60, **value}
    return value


def _labels_compared(document: Document, record: Record) -> Iterable[tuple[str, tuple[Any, Any]]]:
    wanted = document.labels
    if wanted is None:
        wanted = FILES[document.kind or ""].labels(document.content)
    if wanted is not None and sorted(wanted) != sorted(record["labels"]):
        yield "labels", (record["labels"], list(wanted))


def sort_by_references(kind: str, items: Sequence[T], content_of: Callable[[T], Record]) -> list[T]:
    """Sort items of a kind: each comes after those that its actions start."""
    form = FILES[kind]
    titled = {form.title(content_of(item)): content_of(item) for item in items}
    launched: dict[tuple[Any, Any], list[str]] = {}
    for title, content in titled.items():
        launched.setdefault((content.get("company"), content.get("app")), []).append(title)

    def started(content: Record) -> Iterable[str]:
        for named in form.started(content):
            if named.kind == kind:
                yield named.title
            else:
                yield from launched.get((content.get("company"), named.title), ())

    graph = {
        title: [each for each in started(content) if each in titled and each != title]
        for title, content in titled.items()
    }
    try:
        place = {title: at for at, title in enumerate(TopologicalSorter(graph).static_order())}
    except CycleError:
        return list(items)  # writing them reports the cycle
    return sorted(items, key=lambda item: place[form.title(content_of(item))])
