"""`jobauto user` and `jobauto token`: who may sign in, and with what."""

import re
import sys
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any

import typer

from jobauto_prefect.cli.options import Json, Url, Yes, number_argument
from jobauto_prefect.cli.output.results import call_and_print
from jobauto_prefect.cli.output.terminal import (
    format_time,
    print_json,
    print_line,
    print_table,
)
from jobauto_prefect.cli.records.lists import add_list
from jobauto_prefect.cli.records.lookup import find_id
from jobauto_prefect.cli.records.tables import USERS
from jobauto_prefect.errors import Conflict, NotFound

if TYPE_CHECKING:
    from jobauto_prefect.cli.connection.client import Client


users = typer.Typer(help="People and programs that sign in.", no_args_is_help=True)
tokens = typer.Typer(help="Bearer tokens; each is shown once.", no_args_is_help=True)

Login = Annotated[str, typer.Argument(metavar="LOGIN")]
PasswordStdin = Annotated[
    bool, typer.Option("--password-stdin", help="Read the password from standard input.")
]

TTL = re.compile(r"([1-9][0-9]{0,5})([smhdw])")
UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


@users.command()
def create(
    login: Login,
    role: Annotated[
        list[str] | None, typer.Option("--role", help="A role; may be repeated.")
    ] = None,
    password_stdin: PasswordStdin = False,
    as_json: Json = False,
    url: Url = None,
) -> None:
    """Create a user.

    Example: printf %s "$PASSWORD" | jobauto user create anna --role super_admin --password-stdin
    """
    _, password = _read_passwords(password_stdin)

    async def work(client: "Client") -> Any:
        users_ = await client.list("users")
        if any(user["login"] == login for user in users_.values()):
            raise Conflict(f"user {login} already exists")
        return await client.post(
            "user", {"login": login, "roles": role or [], "password": password}
        )

    call_and_print(
        url,
        work,
        as_json,
        lambda user: f"user {login} may sign in, roles: {', '.join(user['roles']) or 'none'}",
    )


add_list(users, USERS)


@users.command()
def show(login: Login, as_json: Json = False, url: Url = None) -> None:
    """Show one user: roles, and whether they may sign in.

    Example: jobauto user show anna
    """

    async def read(client: "Client") -> Any:
        return await client.get(f"/user/{await find_id(client, 'user', login)}.json")

    call_and_print(url, read, as_json)


@users.command()
def delete(login: Login, yes: Yes = False, as_json: Json = False, url: Url = None) -> None:
    """Delete a user: lists no longer show it, but the record is kept for history.

    Example: jobauto user delete anna --yes
    """
    from jobauto_prefect.cli.records.edits import delete_record

    delete_record("user", login, yes, as_json, url)


@users.command()
def passwd(
    login: Login,
    own: Annotated[
        bool,
        typer.Option(
            "--own",
            help="Change your own password at --url. Sign in with the current one, not with a "
            "token: you are asked for it, or it is the first line of standard input.",
        ),
    ] = False,
    password_stdin: PasswordStdin = False,
    as_json: Json = False,
    url: Url = None,
) -> None:
    """Set a user's password. This ends the user's sessions and revokes the tokens of logins.

    Example: printf %s "$PASSWORD" | jobauto user passwd anna --password-stdin
    """
    if own and url is None:
        raise typer.BadParameter(
            "is for --url; on this machine it is not needed", param_hint="--own"
        )
    present, password = _read_passwords(password_stdin, own)
    signed = (login, present) if own else None
    _change_user(login, {"password": password}, "has a new password", as_json, url, signed)


@users.command()
def disable(login: Login, as_json: Json = False, url: Url = None) -> None:
    """Disable a user, from the next request on.

    Example: jobauto user disable anna
    """
    _change_user(login, {"enabled": False}, "can no longer sign in", as_json, url)


@users.command()
def roles(
    login: Login,
    given: Annotated[list[str] | None, typer.Argument(metavar="[ROLE]…")] = None,
    as_json: Json = False,
    url: Url = None,
) -> None:
    """Replace a user's roles by these; without any, remove all.

    Example: jobauto user roles anna editor
    """
    outcome = f"has the roles: {', '.join(given)}" if given else "has no roles"
    _change_user(login, {"roles": given or []}, outcome, as_json, url)


def _change_user(
    login: str,
    fields: dict[str, Any],
    outcome: str,
    as_json: bool,
    url: str | None,
    signed: tuple[str, str] | None = None,
) -> None:

    async def work(client: "Client") -> Any:
        users_ = await client.get("/users.json", login=login)
        if not users_:
            raise NotFound(f"there is no user {login}; see: jobauto user list")
        (user,) = users_.values()
        return await client.post("user", {"id": user["id"], **fields})

    call_and_print(url, work, as_json, lambda _user: f"user {login} {outcome}", signed=signed)


def _read_passwords(from_stdin: bool, own: bool = False) -> tuple[str, str]:
    """Return the current password ("" unless it is one's `own`) and the new one."""
    if from_stdin:
        text = sys.stdin.read().removesuffix("\n")
        present, _, new = text.partition("\n") if own else ("", "", text)
        return present, new
    if not sys.stdin.isatty():
        raise typer.BadParameter(
            "there is no terminal to ask for a password on", param_hint="--password-stdin"
        )
    present = typer.prompt("Current password", hide_input=True) if own else ""
    return present, typer.prompt("Password", hide_input=True, confirmation_prompt=True)


@tokens.command()
def issue(
    user: Annotated[
        str | None, typer.Option("--user", metavar="LOGIN", help="The user it is for.")
    ] = None,
    worker: Annotated[bool, typer.Option("--worker", help="A token for workers.")] = False,
    pool: Annotated[
        list[str] | None,
        typer.Option(
            "--pool", metavar="NAME", help="A work pool that workers with this token may serve."
        ),
    ] = None,
    ttl: Annotated[
        str | None,
        typer.Option("--ttl", metavar="TIME", help="How long it is valid: 90m, 12h, 30d."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Issue a token for a user, or for the workers of work pools. It is shown only once.

    Examples: jobauto token issue --user anna --ttl 30d · jobauto token issue --worker --pool main
    """
    if worker == (user is not None):
        raise typer.BadParameter("use either --user LOGIN or --worker", param_hint="--user")
    if worker != bool(pool):
        raise typer.BadParameter(
            "is required with --worker, and only used there", param_hint="--pool"
        )
    token, expires_at = _issue_token(user, pool or [], _parse_lifetime(ttl))
    if as_json:
        print_json({"token": token, "expires_at": expires_at})
    else:
        typer.echo(token)


def _parse_lifetime(ttl: str | None) -> timedelta | None:
    if ttl is None:
        return None
    match = TTL.fullmatch(ttl)
    if match is None:
        message = f"{ttl!r} is not a duration; write 90m, 12h or 30d"
        raise typer.BadParameter(message, param_hint="--ttl")
    return timedelta(**{UNITS[match[2]]: int(match[1])})


def _issue_token(
    login: str | None, pools: list[str], lifetime: timedelta | None
) -> tuple[str, str | None]:
    from jobauto_prefect.cli.local_ledger import local_actor, open_local_ledger
    from jobauto_prefect.ledger.access.tokens import issue_user_token, issue_worker_token
    from jobauto_prefect.ledger.queries.users import user_named

    with open_local_ledger() as ledger, ledger.writing(local_actor()) as session:
        expires_at = ledger.clock() + lifetime if lifetime else None
        if login is None:
            text, _ = issue_worker_token(session, pools, expires_at)
        else:
            user = user_named(session, login)
            if user is None:
                raise NotFound(f"there is no user {login}; see: jobauto user create --help")
            text, _ = issue_user_token(session, user, expires_at)
    return text, expires_at.isoformat() if expires_at else None


@tokens.command("list")
def list_tokens(as_json: Json = False) -> None:
    """List tokens: whose they are and how long they are valid. Their text is not stored."""
    from jobauto_prefect.cli.local_ledger import open_local_ledger
    from jobauto_prefect.ledger.queries.users import all_tokens

    with open_local_ledger() as ledger, ledger.reading() as session:
        now = ledger.clock()
        rows = [_token_fields(token, now) for token in all_tokens(session)]
    if as_json:
        print_json({str(row["id"]): row for row in rows})
        return
    shown = [
        (row["id"], row["kind"], row["user"] or ", ".join(row["pools"]), row["state"],
         format_time(row["expires_at"]))
        for row in rows
    ]  # fmt: skip
    print_table(("id", "kind", "of", "state", "expires"), shown)


def _token_fields(token: Any, now: Any) -> dict[str, Any]:
    expired = token.expires_at is not None and token.expires_at <= now
    state = "revoked" if token.revoked_at else "expired" if expired else "valid"
    return {
        "id": token.id,
        "kind": token.kind,
        "user": token.user.login if token.user else None,
        "pools": token.pools,
        "state": state,
        "expires_at": token.expires_at.isoformat() if token.expires_at else None,
        "created_at": token.created_at.isoformat(),
    }


@tokens.command()
def revoke(number: Annotated[int, number_argument("token")], as_json: Json = False) -> None:
    """Revoke a token: the next request with it is refused.

    Example: jobauto token revoke 3
    """
    from jobauto_prefect.cli.local_ledger import local_actor, open_local_ledger
    from jobauto_prefect.ledger.queries.lookup import get_record
    from jobauto_prefect.ledger.records import Token

    with open_local_ledger() as ledger, ledger.writing(local_actor()) as session:
        token = get_record(session, Token, number)
        token.revoked_at = token.revoked_at or session.clock()
        shown = _token_fields(token, session.clock())
    if as_json:
        print_json(shown)
    else:
        print_line(f"token {number} is revoked")
