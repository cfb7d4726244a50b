"""What forms and filters offer: the records that a visitor may see, by their names."""

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from jobauto_prefect.definitions import pick_text
from jobauto_prefect.facade.console.contract import Contract, ContractError
from jobauto_prefect.facade.console.records.forms import FormField
from jobauto_prefect.facade.formats.html.page_language import Translator

Choices = Sequence[tuple[str, str]]
"""Value and label of each."""


async def read_names(contract: Contract, collection: str) -> list[tuple[str, str]]:
    """Return the records of a kind that others name by their names, as choices."""
    listed = {str(name) for _, name, _ in await contract.names(collection)}
    return [(name, name) for name in sorted(listed)]


async def read_choices(
    contract: Contract,
    collection: str,
    languages: Sequence[str],
    query: Mapping[str, Any] | None = None,
) -> list[tuple[str, str]]:
    """Return the records of a kind that one may see, as value and label of a choice, by name.

    Names that several have come with their companies.
    """
    listed = await contract.names(collection, query)
    named = [
        (str(number), pick_text(name, *languages), company) for number, name, company in listed
    ]
    times = Counter(name for _, name, _ in named)
    choices = [
        (number, f"{company} / {name}" if company and times[name] > 1 else name)
        for number, name, company in named
    ]
    return sorted(choices, key=lambda choice: choice[1].lower())


async def read_permitted_companies(
    contract: Contract, permission: str, languages: Sequence[str]
) -> list[tuple[str, str]]:
    """Return the companies in which the visitor has a permission, as choices."""
    companies = await read_choices(contract, "companies", languages)
    rights = contract.who.rights
    return [choice for choice in companies if rights.may(permission, int(choice[0]))]


async def owner_field(
    contract: Contract, permission: str, languages: Sequence[str], translate: Translator
) -> FormField:
    """Return the control that says whose a new record is, of those the visitor may make."""
    companies = await read_permitted_companies(contract, permission, languages)
    if contract.who.rights.may(permission, None):
        companies = [("", translate("shared by all")), *companies]
    return FormField("/company_id", translate("Company"), "choice", choices=companies)


async def read_only_template(contract: Contract, given: str) -> list[tuple[str, str]]:
    """Return the run template that a list is narrowed to, as its only choice; "": to none."""
    name = given
    if given.isascii() and given.isdecimal():
        with suppress(ContractError):
            name = (await contract.read(f"/runtemplate/{given}")).data["name"]
    return [(given, name)] if given else []
