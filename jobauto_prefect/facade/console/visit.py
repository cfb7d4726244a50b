"""A visit: who asks for a page, in which language, and what the contract tells them."""

from collections.abc import Sequence
from datetime import datetime
from functools import cached_property
from typing import Annotated

from fastapi import Depends, Request

from jobauto_prefect.facade.auth.identity import Identity
from jobauto_prefect.facade.console.contract import Contract, CurrentContract
from jobauto_prefect.facade.console.page_response import language_of
from jobauto_prefect.facade.console.records.choices import Choices, read_choices
from jobauto_prefect.facade.formats.html.page_language import Translator, translator
from jobauto_prefect.facade.http.responses import languages_of


class Visit:
    """A request for a page, and what its page is made with."""

    def __init__(self, request: Request, contract: Contract) -> None:
        self.request = request
        self.contract = contract
        self._choices: dict[str, Choices] = {}
        self._labels: dict[str, dict[str, str]] = {}

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
        now: datetime = self.request.app.state.service.ledger.clock()
        return now

    async def choices(self, collection: str) -> Choices:
        """Return the records of a kind that the visitor may see, as choices; they are read once."""
        if collection not in self._choices:
            read = await read_choices(self.contract, collection, self.languages)
            self._choices[collection], self._labels[collection] = read, dict(read)
        return self._choices[collection]

    def chosen(self, collection: str, number: int | None) -> str:
        """Return the label of a record among the choices, once they are read; "": it is none."""
        return self._labels[collection].get(str(number), "")


async def current_visit(request: Request, contract: CurrentContract) -> Visit:
    """Return the visit that a request is."""
    return Visit(request, contract)


CurrentVisit = Annotated[Visit, Depends(current_visit)]
