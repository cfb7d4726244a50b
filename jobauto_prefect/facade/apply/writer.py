"""Making planned changes, one record after the other, in one transaction."""

import json
from collections.abc import Iterator
from typing import Any

from jobauto_prefect.errors import Fault
from jobauto_prefect.facade.access import allow
from jobauto_prefect.facade.apply.documents import Document
from jobauto_prefect.facade.apply.kinds import definition_in, says_owner
from jobauto_prefect.facade.apply.known import Known
from jobauto_prefect.facade.apply.plans import Change
from jobauto_prefect.facade.apply.references import References
from jobauto_prefect.facade.auth import Identity
from jobauto_prefect.facade.names import with_ids
from jobauto_prefect.facade.requests import WHOLE, Fields
from jobauto_prefect.facade.resources import BY_ITEM
from jobauto_prefect.facade.service import Service
from jobauto_prefect.facade.writes.base import Write, Written
from jobauto_prefect.jobs.tasks import switch_off
from jobauto_prefect.ledger import listing, queries
from jobauto_prefect.ledger.audit import WritingSession
from jobauto_prefect.ledger.retiring import retire


class Writer:
    """Writes as single requests of the same person would, with the same rights."""

    def __init__(
        self, service: Service, who: Identity, session: WritingSession, known: Known
    ) -> None:
        self._service = service
        self._who = who
        self._session = session
        self._references = References(known)
        self._owing: list[tuple[int, Any]] = []

    def write(self, change: Change) -> list[Fault]:
        """Make a change; what is to be warned of."""
        if change.document is None:
            self._delete(change.kind, change.number or 0)
            return []
        if change.action == "restore":
            self._post(change.kind, {}, change.number)
            return []
        return self._take(change, change.document)

    def _take(self, change: Change, document: Document) -> list[Fault]:
        if change.kind == "app":
            written = self._post_definition(document, change.number)
        else:
            members = self._references.members(document)
            topics = members.pop("topics", None) if change.kind == "company" else None
            written = self._post(change.kind, members, change.number)
            if topics is not None:
                self._owing.append((written.record.id, topics))
        self._references.note(document, written.record.id)
        return list(_told(change.kind, written))

    def finish(self) -> None:
        """Write what had to wait: a company's own topics can't be there before it is."""
        for number, topics in self._owing:
            self._post("company", {"topics": topics}, number)

    def _delete(self, item: str, number: int) -> None:
        resource = BY_ITEM[item]
        record = queries.get(self._session, resource.kind, number)
        company = listing.company_of(record)
        allow(self._who, resource.permissions, "delete", company, record)
        retire(self._session, record, switch_off)

    def _post_definition(self, document: Document, number: int | None) -> Written:
        content, raw = document.content, document.raw
        fields: Fields = {"definition": WHOLE}
        if document.labels is not None:
            fields["labels"] = list(document.labels)
        if says_owner("app", content):
            fields["company_id"] = self._references.company_of(document)
            raw = None
        text = json.dumps(definition_in(content), ensure_ascii=False, indent=2).encode()
        return self._post("app", fields, number, raw or text)

    def _post(self, item: str, fields: Fields, number: int | None, raw: bytes = b"") -> Written:
        service, who = self._service, self._who
        resource = BY_ITEM[item]
        assert resource.write is not None  # noqa: S101 - files have no other kinds
        ids = with_ids(self._session, who, item, fields, number)
        box, settings = service.ledger.box, service.settings
        write = Write(self._session, box, settings, who, ids, number, raw)
        written = resource.write(write)
        self._session.flush()
        return written


def _told(kind: str, written: Written) -> Iterator[Fault]:
    """What is odd in definitions is told when they are judged; here what is missing beside them."""
    for warning in written.warnings:
        if kind != "app" or warning.rule == "unknown_requirement":
            yield warning
