"""Permissions: one table of roles, one of memberships (reference facts, section 6).

`super_admin` and `admin` apply everywhere, and only they change what belongs to no company. The
other roles apply only in the companies a person belongs to, where the membership adds to them.
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
"""The permissions of each role."""

MEMBERSHIPS: Mapping[Membership, Permissions] = {
    Membership.VIEWER: _VIEWER,
    Membership.MANAGER: _EDITOR,
    Membership.ADMIN: _EDITOR
    | _permissions_on("companies")
    | {"jobs.delete", "members.update", "credentials.reveal"},
}
"""The permissions a membership adds in its company. `members.update` allows assigning and removing
its members, `credentials.reveal` seeing secret values in clear.
"""

SYSTEM_WIDE = frozenset({Role.SUPER_ADMIN, Role.ADMIN})
ROLE_IDS: Mapping[Role, int] = {role: number for number, role in enumerate(Role, start=1)}
"""Ids that are keys in lists of roles."""

ROLE_DESCRIPTIONS: Mapping[Role, str] = {
    Role.SUPER_ADMIN: "Can do everything",
    Role.ADMIN: "Manages users, companies, applications and jobs in all companies",
    Role.EDITOR: "Changes and runs existing records in the user's companies",
    Role.USER: "Creates jobs in the user's companies",
    Role.VIEWER: "Reads in the user's companies",
}

PERSONAL = frozenset({"profile.read", "profile.update"})
"""Permissions on one's own account: they need no company."""


@dataclass(frozen=True, slots=True)
class Rights:
    """A user's permissions: everywhere, in companies, and on what belongs to no company.

    `companies` maps a company's id to the permissions there.
    """

    everywhere: Permissions = frozenset()
    companies: Mapping[int, Permissions] = field(default_factory=dict)
    companyless: Permissions = frozenset()
    roles: frozenset[Role] = frozenset()

    def may(self, permission: str, company_id: int | None) -> bool:
        """Whether a permission is held; company None: on what belongs to no company."""
        if permission in self.everywhere:
            return True
        if company_id is None:
            return permission in self.companyless
        return permission in self.companies.get(company_id, frozenset())

    def may_read(self, permissions: str, company_id: int | None) -> bool:
        """Whether records of this kind (in this company) may be read."""
        return self.may(f"{permissions}.read", company_id)

    def require(
        self, permissions: str, action: str, company_id: int | None, record: Any = None
    ) -> None:
        """Require a permission; `record` is the object of the action, None for a new one.

        Raises:
            NotFound: they may not even see the record.
            Forbidden: they may see it, but not do this.
        """
        if self.may(f"{permissions}.{action}", company_id):
            return
        if record is not None and not self.may_read(permissions, company_id):
            raise NotFound(f"there is no {noun_of(record)} {record.id}")
        raise Forbidden(f"this needs the permission {permissions}.{action}; ask an administrator")

    def companies_with(self, permission: str) -> frozenset[int] | None:
        """Return the companies in which a permission is held; None: in all."""
        if permission in self.everywhere:
            return None
        return frozenset(
            company_id for company_id, allowed in self.companies.items() if permission in allowed
        )

    def anywhere(self, permission: str) -> bool:
        """Whether a permission is held anywhere."""
        return (
            permission in self.everywhere
            or permission in self.companyless
            or any(permission in allowed for allowed in self.companies.values())
        )

    @property
    def system_wide(self) -> bool:
        """Whether one of the roles applies everywhere."""
        return not self.roles.isdisjoint(SYSTEM_WIDE)

    @property
    def rank(self) -> int:
        """Rank of the highest role: 0 is super_admin; without a role, below all."""
        order = list(Role)
        return min((order.index(role) for role in self.roles), default=len(order))


def combine_rights(roles: frozenset[Role], memberships: Mapping[int, Membership]) -> Rights:
    """Combine the permissions of roles and memberships; `memberships` is by company id."""
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
"""The local operator's permissions."""
