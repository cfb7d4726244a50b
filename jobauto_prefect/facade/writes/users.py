"""Users."""

from typing import Annotated

from pydantic import StringConstraints, WithJsonSchema

from jobauto_prefect.errors import Forbidden
from jobauto_prefect.facade import people
from jobauto_prefect.facade.passwords import hash_password, refuse_weak
from jobauto_prefect.facade.permissions import Role
from jobauto_prefect.facade.requests import Body
from jobauto_prefect.facade.requests import parse as parse_body
from jobauto_prefect.facade.spellings import Truth
from jobauto_prefect.facade.writes.base import ShortText, Write, Written, require, take
from jobauto_prefect.ledger import queries
from jobauto_prefect.ledger.records import User

OF_ONESELF = frozenset({"email", "firstname", "lastname", "password"})
"""What everybody may change of themselves."""


Login = Annotated[str, StringConstraints(pattern=r"^[^\s:\x00-\x1f\x7f-\x9f]{1,64}$")]
RoleName = Annotated[str, WithJsonSchema({"type": "string", "enum": [*Role]})]


class UserBody(Body):
    """A user, known by its login."""

    login: Login | None = None
    email: ShortText | None = None
    firstname: ShortText | None = None
    lastname: ShortText | None = None
    enabled: Truth = True
    password: Annotated[str, StringConstraints(max_length=1000)] | None = None
    roles: list[RoleName] | None = None


def write_user(write: Write) -> Written:
    """A user, known by its login; the password is stored as a hash.

    Raises:
        Forbidden: who asks may not, or the user stands above them.
    """
    body = parse_body(UserBody, write.fields)
    user = _known_user(write, body)
    created = user is None
    if user is None:
        write.creating("users", None)
        require(body, "login")
        user = User()
        write.session.add(user)
    take(user, body, except_for={"password", "roles"})
    if body.password is not None:
        refuse_weak(body.password, user.login, write.settings.password_min_length)
        user.password_hash = hash_password(body.password)
    if body.roles is not None:
        people.set_roles(write.session, write.who, user, body.roles, replace=True)
    people.keep_a_super_admin(write.session)
    return Written(user, created)


def _known_user(write: Write, body: UserBody) -> User | None:
    if write.record_id is not None:
        user: User | None = queries.get(write.session, User, write.record_id)
    else:
        user = queries.user_named(write.session, body.login) if body.login else None
    if user is None:
        return None
    if user.id == write.who.user_id and not write.who.rights.may("users.update", None):
        return _oneself(write, body, user)
    write.updatable(user, "users")
    people.refuse_above(write.who, user, write.session.clock())
    return user


def _oneself(write: Write, body: UserBody, user: User) -> User:
    """Somebody who may not change users changes their own profile."""
    same_login = body.login in (None, user.login)
    if not (same_login and body.model_fields_set <= OF_ONESELF | {"login"}):
        raise Forbidden(f"of yourself you can change {', '.join(sorted(OF_ONESELF))}")
    if not write.who.rights.anywhere("profile.update"):
        raise Forbidden("your role does not let you change your profile")
    return user
