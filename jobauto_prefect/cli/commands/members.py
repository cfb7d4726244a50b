"""`jobauto company member`: the members of a company and their roles."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from jobauto_prefect.cli.completion import complete_names
from jobauto_prefect.cli.options import Json, Url
from jobauto_prefect.cli.output.results import call_and_print
from jobauto_prefect.cli.output.terminal import print_table
from jobauto_prefect.cli.records.lookup import find_id
from jobauto_prefect.wording import escape_controls

if TYPE_CHECKING:
    from jobauto_prefect.cli.connection.client import Client

group = typer.Typer(help="The people of a company.", no_args_is_help=True)

Company = Annotated[
    str,
    typer.Argument(
        metavar="COMPANY", help="Its number or slug.", autocompletion=complete_names("company")
    ),
]
Login = Annotated[str, typer.Argument(metavar="LOGIN", help="The user, by login or number.")]


@group.command("list")
def list_(company: Company, as_json: Json = False, url: Url = None) -> None:
    """List the members of a company and their roles.

    Example: jobauto company member list acme
    """

    async def read(client: "Client") -> Any:
        number = await find_id(client, "company", company)
        return await client.get(f"/company/{number}/users.json")

    call_and_print(
        url,
        read,
        as_json,
        lambda members: print_table(
            ("login", "role"), [(each["login"], each["role"]) for each in members.values()]
        ),
    )


@group.command("set")
def set_(
    company: Company,
    login: Login,
    role: Annotated[str, typer.Option("--role", help="viewer, manager or admin.")] = "viewer",
    as_json: Json = False,
    url: Url = None,
) -> None:
    """Make a user a member of a company, or change the member's role.

    Example: jobauto company member set acme anna --role manager
    """

    async def assign(client: "Client", company_id: int, user_id: int) -> Any:
        fields = {"user_id": user_id, "role": role}
        return await client.post(f"company/{company_id}/user", fields)

    _change_membership(
        company, login, assign, f"{login} is a member of {company}: {role}", as_json, url
    )


@group.command()
def remove(company: Company, login: Login, as_json: Json = False, url: Url = None) -> None:
    """End a membership.

    Example: jobauto company member remove acme anna
    """

    async def end(client: "Client", company_id: int, user_id: int) -> Any:
        await client.delete(f"/company/{company_id}/user/{user_id}")
        return {"company_id": company_id, "user_id": user_id, "deleted": True}

    _change_membership(
        company, login, end, f"{login} is no longer a member of {company}", as_json, url
    )


def _change_membership(
    company: str,
    login: str,
    change: Callable[["Client", int, int], Awaitable[Any]],
    message: str,
    as_json: bool,
    url: str | None,
) -> None:

    async def work(client: "Client") -> Any:
        company_id = await find_id(client, "company", company)
        user_id = await find_id(client, "user", login)
        return await change(client, company_id, user_id)

    call_and_print(url, work, as_json, lambda _result: escape_controls(message))
