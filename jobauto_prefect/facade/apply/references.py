"""Fields of files as the facade takes them: what they name is said by its id."""

from typing import Any

from jobauto_prefect.facade.apply.action_references import MODES, to_field_actions
from jobauto_prefect.facade.apply.documents import Document
from jobauto_prefect.facade.apply.record_index import RecordIndex
from jobauto_prefect.facade.apply.record_kinds import FILES, NOT_MEMBERS, Named, Word


class ReferenceResolver:
    """The ids of the records there are, and of those that are written meanwhile."""

    def __init__(self, index: RecordIndex) -> None:
        self._index = index
        self._written: dict[tuple[str, Word], int] = {}

    def note(self, document: Document, number: int) -> None:
        """Note that the record of a document is there now, under this id."""
        kind = document.kind or ""
        content = self._index.with_owner(kind, document.content)
        for word in FILES[kind].by_words(content):
            self._written[kind, word] = number

    def members(self, document: Document) -> dict[str, Any]:
        """Return the fields of a document that is no definition, with ids in place of names."""
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
        """Return the id of the company whose a definition is, as its file says; None: nobody's."""
        owner = FILES["app"].owner(document.content)
        return None if owner is None else self._id(Named("/company", "company", owner, None))

    def _id(self, named: Named) -> int | None:
        """Return the id of what a reference means; None: it is not there."""
        for word in FILES[named.kind].words_meant(named):
            written = self._written.get((named.kind, word))
            if written is not None:
                return written
        return next(iter(self._index.find_named(named)), None)
