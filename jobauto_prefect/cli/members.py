"""`jobauto company member`: who belongs to a company, with which role."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from jobauto_prefect.cli.completing import names_of
from jobauto_prefect.cli.options import Json, Url

if TYPE_CHECKING:
    from jobauto_prefect.cli.client import Client

group = typer.Typer(help="The people of a company.", no_args_is_help=True)

Company = Annotated[
    str,
    typer.Argument(
        metavar="COMPANY", help="Its number or slug.", autocompletion=names_of("company")
    ),
]
Login = Annotated[str, typer.Argument(metavar="LOGIN", help="The user, by login or number.")]


@group.command("list")
def list_(company: Company, as_json: Json = False, url: Url = None) -> None:
    """List the members of a company and their roles there.

    Example: jobauto company member list acme
    """
    from jobauto_prefect.cli.client import Client, speak
    from jobauto_prefect.cli.lookup import number_of
    from jobauto_prefect.cli.show import print_json, print_table

    async def read(client: Client) -> Any:
        number = await number_of(client, "company", company)
        return await client.get(f"/company/{number}/users.json")

    members = speak(url, read)
    if as_json:
        print_json(members)
    else:
        rows = [(member["login"], member["role"]) for member in members.values()]
        print_table(("login", "role"), rows)


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

    _carry_out(company, login, assign, f"{login} is a member of {company}: {role}", as_json, url)


@group.command()
def remove(company: Company, login: Login, as_json: Json = False, url: Url = None) -> None:
    """End a membership.

    Example: jobauto company member remove acme anna
    """

    async def end(client: "Client", company_id: int, user_id: int) -> Any:
        await client.delete(f"/company/{company_id}/user/{user_id}")
        return {"company_id": company_id, "user_id": user_id, "deleted": True}

    _carry_out(company, login, end, f"{login} is no member of {company} any more", as_json, url)


def _carry_out(
    company: str,
    login: str,
    deed: Callable[["Client", int, int], Awaitable[Any]],
    said: str,
    as_json: bool,
    url: str | None,
) -> None:
    from jobauto_prefect.cli.client import Client, speak
    from jobauto_prefect.cli.lookup import number_of
    from jobauto_prefect.cli.show import print_json, printable, say

    async def work(client: Client) -> Any:
        company_id = await number_of(client, "company", company)
        user_id = await number_of(client, "user", login)
        return await deed(client, company_id, user_id)

    done = speak(url, work)
    if as_json:
        print_json(done)
    else:
        say(printable(said))
