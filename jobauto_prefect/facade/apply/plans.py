"""What applying files would change: compared with what is there, and checked as a whole first."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any

from jobauto_prefect.definitions import to_text
from jobauto_prefect.definitions.kinds import FILE_KINDS
from jobauto_prefect.errors import Fault, InvalidInput
from jobauto_prefect.facade.apply.action_references import sort_by_references
from jobauto_prefect.facade.apply.documents import Document
from jobauto_prefect.facade.apply.record_index import RecordIndex
from jobauto_prefect.facade.apply.record_kinds import (
    NOT_MEMBERS,
    Record,
    company_bearing,
    definition_in,
    owner_in,
    refers_to,
    says_owner,
    title_of,
    titles_meant,
    topics_in,
)

Fields = Mapping[str, tuple[Any, Any]]
"""Field -> its value before and after."""

ACTIONS = ("create", "update", "restore", "delete", "unchanged")
"""`restore`: the record stays as it is, and Prefect is told anew what it says."""


@dataclass(frozen=True, slots=True)
class Change:
    """What becomes of one record.

    `number` is its id, None: it is new. `document` is None for what no file names. `drift` is
    where Prefect differs from the record: what it has, what it should have.
    """

    kind: str
    title: str
    action: str
    document: Document | None = field(repr=False)
    number: int | None = None
    fields: Fields = field(default_factory=dict)
    drift: Fields = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """Return the change as JSON has it."""
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
    """Compares documents with what is there.

    `labels` are given to every record. `definitions` are those of the known applications, by their
    ids; `drift` is where Prefect differs from the records, by the ids of run templates.
    """

    def __init__(
        self,
        index: RecordIndex,
        documents: Sequence[Document],
        *,
        definitions: Mapping[int, Record],
        labels: Collection[str] = (),
        drift: Mapping[int, Fields] | None = None,
    ) -> None:
        self._index = index
        self._documents = [
            each
            for kind in FILE_KINDS
            for each in _in_order(
                kind, [document for document in documents if document.kind == kind]
            )
        ]
        self._definitions = definitions
        self._labels = frozenset(labels)
        self._drift = drift or {}

    def changes(self) -> list[Change]:
        """Return what becomes of the documents, in the order of making the changes."""
        return [self._change(each) for each in self._documents]

    def _change(self, document: Document) -> Change:
        kind = document.kind or ""
        title = title_of(kind, self._index.with_owner(kind, document.content))
        number = self._index.id_of(kind, document.content)
        if number is None:
            return Change(kind, title, "create", self._labelled(document, ()))
        record = self._index.records[kind][number]
        document = self._labelled(document, record["labels"])
        compare = self._of_app if kind == "app" else _compared
        fields = dict(compare(document, record))
        drift = self._drift.get(number, {}) if kind == "runtemplate" else {}
        action = "update" if fields else "restore" if drift else "unchanged"
        return Change(kind, title, action, document, number, fields, drift)

    def _labelled(self, document: Document, before: Collection[str]) -> Document:
        """Return a document with the command line's labels too; an application keeps its own."""
        own = document.content.get("labels", before) if document.kind != "app" else before
        if not self._labels:
            return document
        return replace(document, labels=tuple(sorted({*own, *self._labels})))

    def _of_app(self, document: Document, record: Record) -> Iterable[tuple[str, tuple[Any, Any]]]:
        content, before = definition_in(document.content), self._definitions[record["id"]]
        if says_owner("app", document.content):
            owners = owner_in("app", record), owner_in("app", document.content)
            yield from [("company", owners)] if owners[0] != owners[1] else []
        yield from self._topics_compared(document, record)
        attached = record.get("topics", []) if "topics" not in before else None
        for name in {**before, **content}:
            if name == "topics" and content.get(name) == attached:
                continue  # as `export` says it
            if before.get(name) != content.get(name):
                yield name, (before.get(name), content.get(name))
        yield from _labels_compared(document, record)

    def _topics_compared(
        self, document: Document, record: Record
    ) -> Iterable[tuple[str, tuple[Any, Any]]]:
        """Compare the topics that a definition lists itself, as far as there are topics for it."""
        if not isinstance(document.content.get("topics"), list):
            return
        owner = company_bearing("app", self._index.with_owner("app", document.content))
        named = [name for name in topics_in("app", document.content) if self._is_topic(name, owner)]
        attached = record.get("topics", [])
        if named != attached:
            yield "attached topics", (attached, named)

    def _is_topic(self, name: str, company: str | None) -> bool:
        """Whether there is a topic of that name, or will be by these files."""
        given = {
            title_of("topic", self._index.with_owner("topic", document.content))
            for document in self._documents
            if document.kind == "topic"
        }
        return self._index.find_by_title(
            "topic", name, company
        ) is not None or not given.isdisjoint(titles_meant("topic", name, company))

    def deletions(self) -> list[Change]:
        """Return the deletions: what bears only the documents' labels, and none names or refers to.

        In the order of deleting. Without documents: none.

        Raises:
            InvalidInput: the documents own no labels to prune by, or a record that stays refers
                to one that would be deleted.
        """
        if not self._documents:  # an empty folder, a pipe that broke: nobody means all records
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
        """Whether it goes last: what companies bear, and is none of theirs."""
        kind, number = record_key
        if kind == "calendar":
            return True
        return kind == "topic" and owner_in(kind, self._index.records[kind][number]) is None

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
                    f"{dependent_kind} {self._index.title(dependent_kind, other)}"
                    for dependent_kind, other in stays
                )
                message = (
                    f"would delete the {kind} {self._index.title(kind, number)}, which is still "
                    f"needed by {named}; name it in a file, or delete these first"
                )
                yield Fault("", "prune", message)

    def _in_order(self, gone: list[tuple[str, int]]) -> list[tuple[str, int]]:
        """Sort run templates after those that their actions start; others keep their places."""
        records = self._index.records["runtemplate"]
        templates = [number for kind, number in gone if kind == "runtemplate"]
        ordered = iter(sort_by_references(templates, lambda number: records[number]))
        return [(kind, next(ordered) if kind == "runtemplate" else number) for kind, number in gone]

    def _owned(self) -> frozenset[str]:
        labels = chain.from_iterable(
            each.content.get("labels", ()) for each in self._documents if each.kind != "app"
        )
        owned = self._labels | frozenset(labels)
        if not owned:
            message = "the files own nothing: say labels in them, or --label"
            raise InvalidInput([Fault("", "labels", message)], f"--prune: {message}")
        return owned

    def _unnamed(self, owned: frozenset[str]) -> list[tuple[str, int]]:
        """Return what no document names or refers to, in the order of writing."""
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


def _in_order(kind: str, documents: list[Document]) -> list[Document]:
    return (
        sort_by_references(documents, lambda document: document.content)
        if kind == "runtemplate"
        else documents
    )


def _compared(document: Document, record: Record) -> Iterable[tuple[str, tuple[Any, Any]]]:
    kind, content = FILE_KINDS[document.kind or ""], document.content
    apart = {*NOT_MEMBERS, kind.values, "labels", "app", "app_uuid"}
    for name, value in content.items():
        if name not in apart and _plain(name, record.get(name)) != _plain(name, value):
            yield name, (record.get(name), value)
    if kind.item == "runtemplate":
        yield from _app_compared(content, record)
    if kind.values:
        yield from _values_compared(kind.values, content.get(kind.values, {}), record)
    yield from _labels_compared(document, record)


def _plain(name: str, value: Any) -> Any:
    """Return a value as the service keeps it: ports as text, fields with what they leave out."""
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


def _app_compared(content: Record, record: Record) -> Iterable[tuple[str, tuple[Any, Any]]]:
    """Compare an application's reference; it changed only where it means another application."""
    if not refers_to(content, record["application"]):
        name = "app" if "app" in content else "app_uuid"
        yield name, (record["app"], content[name])


def _values_compared(
    member: str, given: Record, record: Record
) -> Iterable[tuple[str, tuple[Any, Any]]]:
    for name, value in given.items():
        before, after = record[member].get(name), None if value is None else to_text(value)
        if before != after:
            yield f"{member}.{name}", (before, after)


def _labels_compared(document: Document, record: Record) -> Iterable[tuple[str, tuple[Any, Any]]]:
    wanted = document.labels
    if wanted is None and document.kind != "app":
        wanted = document.content.get("labels")
    if wanted is not None and sorted(wanted) != sorted(record["labels"]):
        yield "labels", (record["labels"], list(wanted))
