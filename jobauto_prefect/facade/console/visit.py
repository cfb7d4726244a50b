"""A request for a console page: visitor, language, and access to the contract."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from functools import cached_property
from typing import Annotated, Any, TypeVar
from zoneinfo import ZoneInfo

from fastapi import Depends, Request, Response
from starlette.concurrency import run_in_threadpool

from jobauto_prefect.definitions import pick_text
from jobauto_prefect.facade.auth.identity import Identity
from jobauto_prefect.facade.console.contract import Contract, ContractError, CurrentContract
from jobauto_prefect.facade.console.moments import Teller, teller
from jobauto_prefect.facade.console.page_response import language_of, respond_in_console
from jobauto_prefect.facade.formats import View
from jobauto_prefect.facade.formats.html.page_language import Translator, translator
from jobauto_prefect.facade.formats.record_links import find_referenced_kind
from jobauto_prefect.facade.http.responses import languages_of
from jobauto_prefect.facade.service import Service
from jobauto_prefect.ledger.store import ReadingSession

T = TypeVar("T")

Choices = Sequence[tuple[str, str]]
"""The options of forms and filters: value and label of each."""


class Visit:
    """A request for a page, with what builds the page.

    `names` collects the names in all views that were read, by kind and by id as text.
    """

    def __init__(self, request: Request, contract: Contract) -> None:
        self.request = request
        self.contract = contract
        self.service: Service = request.app.state.service
        self.names: dict[str, dict[str, str]] = {}
        self._choices: dict[tuple[str, str], list[tuple[str, str]]] = {}

    @property
    def who(self) -> Identity:
        """The visitor."""
        return self.contract.who

    @cached_property
    def translate(self) -> Translator:
        """The translator into the visitor's language."""
        return translator(language_of(self.request))

    @cached_property
    def languages(self) -> Sequence[str]:
        """The visitor's languages, for localized texts of records."""
        return languages_of(self.request)

    @cached_property
    def now(self) -> datetime:
        """The time by the ledger's clock, the same for the whole page."""
        return self.service.ledger.clock()

    @cached_property
    def zone(self) -> ZoneInfo:
        """The service's time zone."""
        return ZoneInfo(self.service.settings.timezone)

    @cached_property
    def tell(self) -> Teller:
        """Formats times relative to now."""
        return teller(self.now, self.translate)

    def asked(self, *names: str) -> dict[str, str]:
        """Return the non-empty fields of the query that have these names."""
        query = self.request.query_params
        return {name: query[name] for name in names if query.get(name)}

    def asked_ids(self, *names: str) -> dict[str, int]:
        """Return the fields of the query that have these names and are ids."""
        asked = self.asked(*names)
        return {name: int(text) for name, text in asked.items() if is_number(text)}

    async def read(self, path: str, query: Mapping[str, Any] | None = None) -> View:
        """Read the view behind a page of the contract. Raises ContractError."""
        view = await self.contract.read(path, query)
        for kind, names in view.names.items():
            self.names.setdefault(kind, {}).update(names)
        return view

    async def get(self, path: str, query: Mapping[str, Any] | None = None) -> Any:
        """Read a record, or the records of a list by id. Raises ContractError."""
        return (await self.read(path, query)).data

    def named(self, record: Mapping[str, Any], field: str, otherwise: str | None = None) -> str:
        """Return the name of the record that a field refers to; if unknown, its number: `#3`."""
        kind, number = find_referenced_kind(field), record[field]
        known = self.names.get(kind.item, {}) if kind else {}
        return known.get(str(number), f"#{number}" if otherwise is None else otherwise)

    async def choices(self, collection: str, query: Mapping[str, Any] | None = None) -> Choices:
        """Return the visible records of a collection as choices, sorted by name; cached per query.

        Names that occur more than once are shown with their company.
        """
        key = collection, str(query or "")
        if key not in self._choices:
            listed = await self.contract.names(collection, query)
            named = [
                (str(number), pick_text(name, *self.languages), company)
                for number, name, company in listed
            ]
            times = Counter(name for _, name, _ in named)
            choices = [
                (number, f"{company} / {name}" if company and times[name] > 1 else name)
                for number, name, company in named
            ]
            self._choices[key] = sorted(choices, key=lambda choice: choice[1].lower())
        return self._choices[key]

    async def choices_by_name(self, collection: str) -> Choices:
        """Return the names of a collection as choices whose value is the name."""
        listed = {str(name) for _, name, _ in await self.contract.names(collection)}
        return [(name, name) for name in sorted(listed)]

    async def permitted_companies(self, permission: str) -> Choices:
        """Return the companies in which the visitor has a permission, as choices."""
        companies = await self.choices("companies")
        return [each for each in companies if self.who.rights.may(permission, int(each[0]))]

    async def only_template(self) -> Choices:
        """Return the run template that a list is filtered by, as its only choice."""
        given = self.asked("runtemplate_id").get("runtemplate_id", "")
        name = given
        if is_number(given):
            with suppress(ContractError):
                name = (await self.get(f"/runtemplate/{given}"))["name"]
        return [(given, name)] if given else []

    async def query(self, read: Callable[[ReadingSession], T]) -> T:
        """Read from the ledger what the contract does not answer; the caller minds permissions."""

        def run() -> T:
            with self.service.ledger.reading() as session:
                return read(session)

        return await run_in_threadpool(run)

    def require(self, permission: str, company_id: int | None) -> None:
        """Require the permission that submitting a form needs, before it is filled in.

        Raises:
            ContractError: the visitor does not have it.
        """
        if not self.who.rights.may(permission, company_id):
            message = f"this needs the permission {permission}; ask an administrator"
            raise ContractError(403, message)

    def respond(self, template: str, title: str, **parts: Any) -> Response:
        """Send a page with `respond_in_console`."""
        return respond_in_console(self.request, self.who, template, title, **parts)


def is_number(text: str) -> bool:
    """Whether a text consists of ASCII digits."""
    return text.isascii() and text.isdecimal()


async def current_visit(request: Request, contract: CurrentContract) -> Visit:
    """Return the visit of a request."""
    return Visit(request, contract)


CurrentVisit = Annotated[Visit, Depends(current_visit)]
