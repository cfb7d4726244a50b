"""Records of files that are refused: what refers to one is not told that it is not there."""

from collections.abc import Iterator

from jobauto_prefect.definitions.kinds import FILE_KINDS
from jobauto_prefect.facade.apply.action_references import references
from jobauto_prefect.facade.apply.documents import Document
from jobauto_prefect.facade.apply.record_kinds import (
    Record,
    calendars_in,
    company_bearing,
    company_referring,
    matching_apps,
    reference_in,
    title_of,
    titles_listed,
    titles_meant,
    topics_in,
)


class Refusals:
    """The records that are refused; `unread`: nobody knows what some files hold."""

    def __init__(self, *, unread: bool = False) -> None:
        self.unread = unread
        self._titles: set[tuple[str, str]] = set()
        self._apps: list[Record] = []

    def add(self, document: Document) -> None:
        """Add a document that is refused; it may lack anything, its name included."""
        try:
            kind = document.kind or ""
            self._titles.add((kind, title_of(kind, document.content)))
            if kind == "app":
                self._apps.append(document.content)
        except (KeyError, TypeError, AttributeError):
            self.unread = True

    def may_be(self, kind: str, title: str, company: str | None) -> bool:
        """Whether a reference, in a record of a company, may mean one that is refused."""
        if self.unread:
            return True
        if kind == "app":
            return self.may_be_app({"app": title, "company": company})
        return any((kind, wanted) in self._titles for wanted in titles_meant(kind, title, company))

    def may_be_app(self, template: Record) -> bool:
        """Whether the application that a run template names may be among the refused."""
        return self.unread or bool(matching_apps(template, self._apps))

    def is_needed_by(self, document: Document) -> bool:
        """Whether a document refers to one that is refused."""
        return any(
            (kind, wanted) in self._titles
            for kind, title, company in (*references_in(document), *_started_by(document))
            for wanted in titles_meant(kind, title, company)
        ) or (document.kind == "runtemplate" and bool(matching_apps(document.content, self._apps)))


def references_in(document: Document) -> Iterator[tuple[str, str, str | None]]:
    """Yield kind, title and company of what a document refers to.

    Not applications, and not what actions start.
    """
    kind, content = document.kind or "", document.content
    described, company = FILE_KINDS[kind], company_referring(kind, content)
    for name, reference in described.named_in_files.items():
        title = reference_in(kind, name, content)
        if reference.kind != "app" and title is not None:
            yield reference.kind, title, company
    for member, other in described.lists.items():
        yield from ((other, title, None) for title in titles_listed(member, content))
    for name in topics_in(kind, content):
        yield "topic", name, company_bearing(kind, content)
    yield from (("calendar", name, None) for name in calendars_in(kind, content))


def _started_by(document: Document) -> Iterator[tuple[str, str, str | None]]:
    """Yield kind, title and company of what the actions of a run template start."""
    if document.kind == "runtemplate":
        company = document.content["company"]
        yield from ((kind, title, company) for _, kind, title in references(document.content))
