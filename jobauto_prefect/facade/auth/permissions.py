"""Who may do what: one table of roles, one of memberships (reference facts, section 6).

`super_admin` and `admin` hold everywhere, and they alone change what belongs to no company. The
other roles hold only in the companies a person belongs to, and there the membership adds to them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from jobauto_prefect.errors import Forbidden, NotFound
from jobauto_prefect.ledger.base import noun_of

Permissions = frozenset[str]


class Role(StrEnum):
    """The roles of the service, the highest first."""

    SUPER_ADMIN = "super_admin"
    ADMIN = "admin"
    EDITOR = "editor"
    USER = "user"
    VIEWER = "viewer"


class Membership(StrEnum):
    """The roles in a company, the highest first."""

    ADMIN = "admin"
    MANAGER = "manager"
    VIEWER = "viewer"


def _permissions_on(of: str, actions: str = "create read update delete") -> set[str]:
    return {f"{of}.{action}" for action in actions.split()}


_VIEWER = frozenset({"companies.read", "applications.read", "jobs.read", "profile.read"})
_USER = _VIEWER | {"jobs.create", "jobs.update", "profile.update"}
_EDITOR = _USER | {"companies.update", "applications.update", "jobs.execute"}
_ADMIN = frozenset(
    _permissions_on("users")
    | {"roles.read", "roles.assign"}
    | _permissions_on("companies")
    | _permissions_on("applications")
    | _permissions_on("jobs", "create read update delete execute")
    | {"security.audit", "security.config", "profile.read", "profile.update"}
    | {"system.config", "system.logs", "members.update", "credentials.reveal"}
)
_SUPER_ADMIN = (
    _ADMIN
    | _permissions_on("roles")
    | {"system.admin", "system.backup", "users.impersonate", "security.whitelist"}
)

ROLES: Mapping[Role, Permissions] = {
    Role.SUPER_ADMIN: _SUPER_ADMIN,
    Role.ADMIN: _ADMIN,
    Role.EDITOR: _EDITOR,
    Role.USER: _USER,
    Role.VIEWER: _VIEWER,
}
"""What each role may."""

MEMBERSHIPS: Mapping[Membership, Permissions] = {
    Membership.VIEWER: _VIEWER,
    Membership.MANAGER: _EDITOR,
    Membership.ADMIN: _EDITOR
    | _permissions_on("companies")
    | {"jobs.delete", "members.update", "credentials.reveal"},
}
"""What a membership adds in its company. `members.update` is to assign and remove its members,
`credentials.reveal` to see secret values in clear.
"""

SYSTEM_WIDE = frozenset({Role.SUPER_ADMIN, Role.ADMIN})
ROLE_IDS: Mapping[Role, int] = {role: number for number, role in enumerate(Role, start=1)}
"""The ids by which lists of roles are keyed."""

ROLE_DESCRIPTIONS: Mapping[Role, str] = {
    Role.SUPER_ADMIN: "May everything",
    Role.ADMIN: "Manages users, companies, applications and jobs everywhere",
    Role.EDITOR: "Changes and runs what there is, in their companies",
    Role.USER: "Creates jobs, in their companies",
    Role.VIEWER: "Reads, in their companies",
}

PERSONAL = frozenset({"profile.read", "profile.update"})
"""Permissions about oneself: they need no company."""


@dataclass(frozen=True, slots=True)
class Rights:
    """What somebody may: everywhere, in companies, and with what belongs to no company.

    `companies` maps the id of a company to what is allowed there.
    """

    everywhere: Permissions = frozenset()
    companies: Mapping[int, Permissions] = field(default_factory=dict)
    companyless: Permissions = frozenset()
    roles: frozenset[Role] = frozenset()

    def may(self, permission: str, company_id: int | None) -> bool:
        """Whether something is allowed; None: with what belongs to no company."""
        if permission in self.everywhere:
            return True
        if company_id is None:
            return permission in self.companyless
        return permission in self.companies.get(company_id, frozenset())

    def may_read(self, permissions: str, company_id: int | None) -> bool:
        """Whether records of this kind (of this company) may be read."""
        return self.may(f"{permissions}.read", company_id)

    def require(
        self, permissions: str, action: str, company_id: int | None, record: Any = None
    ) -> None:
        """Require a permission; `record` is what the action is done to, None for a new one.

        Raises:
            NotFound: the record may not even be seen.
            Forbidden: it may be seen, and this may not be done.
        """
        if self.may(f"{permissions}.{action}", company_id):
            return
        if record is not None and not self.may_read(permissions, company_id):
            raise NotFound(f"there is no {noun_of(record)} {record.id}")
        raise Forbidden(f"this needs the permission {permissions}.{action}; ask an administrator")

    def companies_with(self, permission: str) -> frozenset[int] | None:
        """Return the companies in which something is allowed; None: in all."""
        if permission in self.everywhere:
            return None
        return frozenset(
            company_id for company_id, allowed in self.companies.items() if permission in allowed
        )

    def anywhere(self, permission: str) -> bool:
        """Whether something is allowed at all."""
        return (
            permission in self.everywhere
            or permission in self.companyless
            or any(permission in allowed for allowed in self.companies.values())
        )

    @property
    def system_wide(self) -> bool:
        """Whether one of the roles holds everywhere."""
        return not self.roles.isdisjoint(SYSTEM_WIDE)

    @property
    def rank(self) -> int:
        """How high the highest role stands: 0 is super_admin; without a role, below all."""
        order = list(Role)
        return min((order.index(role) for role in self.roles), default=len(order))


def combine_rights(roles: frozenset[Role], memberships: Mapping[int, Membership]) -> Rights:
    """Return what roles and memberships allow together; `memberships` is by company id."""
    by_role: Permissions = frozenset().union(*(ROLES[role] for role in roles))
    wide = roles & SYSTEM_WIDE
    everywhere: Permissions = frozenset().union(*(ROLES[role] for role in wide))
    companies = {
        company_id: by_role | MEMBERSHIPS[kind] for company_id, kind in memberships.items()
    }
    read = frozenset({"applications.read"}) if roles or memberships else frozenset()
    personal = by_role & PERSONAL if roles else PERSONAL if memberships else frozenset()
    return Rights(everywhere, companies, read | personal, roles)


NO_RIGHTS = Rights()

EVERYTHING = Rights(everywhere=_SUPER_ADMIN, roles=frozenset({Role.SUPER_ADMIN}))
"""What the local operator may."""
