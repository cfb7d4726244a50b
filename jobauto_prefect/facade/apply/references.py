"""Fields of files as the facade takes them: what they name is said by its id."""

from typing import Any

from jobauto_prefect.definitions.kinds import FILE_KINDS
from jobauto_prefect.facade.apply.action_references import MODES, to_field_actions
from jobauto_prefect.facade.apply.documents import Document
from jobauto_prefect.facade.apply.record_index import RecordIndex
from jobauto_prefect.facade.apply.record_kinds import (
    NOT_MEMBERS,
    OWNED,
    Record,
    company_referring,
    matching_apps,
    owner_in,
    says_owner,
    title_of,
    titles_meant,
)


class ReferenceResolver:
    """The ids of the records there are, and of those that are written meanwhile."""

    def __init__(self, index: RecordIndex) -> None:
        self._index = index
        self._written: dict[tuple[str, str], int] = {}
        self._apps: dict[int, Record] = dict(index.records["app"])

    def note(self, document: Document, number: int) -> None:
        """Note that the record of a document is there now, under this id."""
        kind = document.kind or ""
        content = self._index.with_owner(kind, document.content)
        self._written[kind, title_of(kind, content)] = number
        if kind == "app":
            self._apps[number] = {**content, "id": number, "company": owner_in("app", content)}

    def members(self, document: Document) -> dict[str, Any]:
        """Return the fields of a document that is no definition, with ids in place of names."""
        content = document.content
        apart = {*NOT_MEMBERS, "app_uuid", *FILE_KINDS[document.kind or ""].named_in_files}
        members = {name: value for name, value in content.items() if name not in apart}
        if document.labels is not None:
            members["labels"] = list(document.labels)
        for name, reference in FILE_KINDS[document.kind or ""].named_in_files.items():
            if reference.kind == "app":
                members[reference.field] = self._app(content)
            elif content.get(name) is not None:
                members[reference.field] = self._id(
                    reference.kind,
                    content[name],
                    company_referring(document.kind or "", content),
                )
        if document.kind in OWNED and says_owner(document.kind, content):
            members.setdefault("company_id", None)
        named = {mode: content[mode] for mode in MODES if mode in content}

        def number(kind: str, title: str) -> int | None:
            app = {"app": title, "company": content["company"]}
            return self._app(app) if kind == "app" else self._id(kind, title)

        return members | {
            mode: to_field_actions(actions, number) for mode, actions in named.items()
        }

    def company_of(self, document: Document) -> int | None:
        """Return the id of the company whose a definition is, as its file says; None: nobody's."""
        return self._id("company", owner_in("app", document.content))

    def _app(self, content: Record) -> int | None:
        """Return the id of the application that a content refers to; None: there is none.

        The service knows names in its own language only; a file may use any.
        """
        matching = matching_apps(content, self._apps.values())
        return matching[0]["id"] if matching else None

    def _id(self, kind: str, title: str | None, company: str | None = None) -> int | None:
        if title is None:
            return None
        for wanted in titles_meant(kind, title, company):
            written = self._written.get((kind, wanted))
            record_id = written if written is not None else self._index.find_by_title(kind, wanted)
            if record_id is not None:
                return record_id
        return None
