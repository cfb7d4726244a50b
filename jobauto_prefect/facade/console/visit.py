"""A visit: who asks for a page, in which language, and what the contract tells them."""

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from functools import cached_property
from typing import Annotated, Any
from zoneinfo import ZoneInfo

from fastapi import Depends, Request, Response

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

Choices = Sequence[tuple[str, str]]
"""What forms and filters offer: value and label of each."""


class Visit:
    """A request for a page, and what its page is made with.

    `names` are those of all that was read, by kind and id as text.
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
        """Translates the texts of pages for the visitor."""
        return translator(language_of(self.request))

    @cached_property
    def languages(self) -> Sequence[str]:
        """The languages for texts that records have in several."""
        return languages_of(self.request)

    @cached_property
    def now(self) -> datetime:
        """The time of the ledger's clock."""
        return self.service.ledger.clock()

    @cached_property
    def zone(self) -> ZoneInfo:
        """The zone by which the service's clocks go."""
        return ZoneInfo(self.service.settings.timezone)

    @cached_property
    def tell(self) -> Teller:
        """Tells times from now."""
        return teller(self.now, self.translate)

    def asked(self, *names: str) -> dict[str, str]:
        """Return what the query says of these names."""
        query = self.request.query_params
        return {name: query[name] for name in names if query.get(name)}

    def asked_ids(self, *names: str) -> dict[str, int]:
        """Return the ids that the query says by these names."""
        asked = self.asked(*names)
        return {name: int(text) for name, text in asked.items() if is_number(text)}

    async def read(self, path: str, query: Mapping[str, Any] | None = None) -> View:
        """Read what the contract's page at a path shows. Raises ContractError."""
        view = await self.contract.read(path, query)
        for kind, names in view.names.items():
            self.names.setdefault(kind, {}).update(names)
        return view

    async def get(self, path: str, query: Mapping[str, Any] | None = None) -> Any:
        """Read a record, or those of a list by their ids. Raises ContractError."""
        return (await self.read(path, query)).data

    def named(self, record: Mapping[str, Any], field: str, otherwise: str | None = None) -> str:
        """Return the name of the record that a field refers to, else its number: `#3`."""
        kind, number = find_referenced_kind(field), record[field]
        known = self.names.get(kind.item, {}) if kind else {}
        return known.get(str(number), f"#{number}" if otherwise is None else otherwise)

    async def choices(self, collection: str, query: Mapping[str, Any] | None = None) -> Choices:
        """Return the records of a kind that one may see, as choices by name; they are read once.

        Names that several have come with their companies.
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
        """Return the records of a kind that others name by their names, as choices."""
        listed = {str(name) for _, name, _ in await self.contract.names(collection)}
        return [(name, name) for name in sorted(listed)]

    async def permitted_companies(self, permission: str) -> Choices:
        """Return the companies in which the visitor has a permission, as choices."""
        companies = await self.choices("companies")
        return [each for each in companies if self.who.rights.may(permission, int(each[0]))]

    async def only_template(self) -> Choices:
        """Return the run template that a list is narrowed to, as its only choice."""
        given = self.asked("runtemplate_id").get("runtemplate_id", "")
        name = given
        if is_number(given):
            with suppress(ContractError):
                name = (await self.get(f"/runtemplate/{given}"))["name"]
        return [(given, name)] if given else []

    def require(self, permission: str, company_id: int | None) -> None:
        """Require the permission that sending a form will take: nobody fills in one in vain.

        Raises:
            ContractError: the visitor has it not.
        """
        if not self.who.rights.may(permission, company_id):
            message = f"this needs the permission {permission}; ask an administrator"
            raise ContractError(403, message)

    def respond(self, template: str, title: str, **parts: Any) -> Response:
        """Send a page, as `respond_in_console` does."""
        return respond_in_console(self.request, self.who, template, title, **parts)


def is_number(text: str) -> bool:
    """Whether a text is digits alone."""
    return text.isascii() and text.isdecimal()


async def current_visit(request: Request, contract: CurrentContract) -> Visit:
    """Return the visit that a request is."""
    return Visit(request, contract)


CurrentVisit = Annotated[Visit, Depends(current_visit)]
