"""The operating-system users of native jobs."""

import os
import pwd
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from jobauto_prefect.errors import Fault, InvalidInput, NotReady, StartFailed
from jobauto_prefect.runtime.exit_codes import NOT_EXECUTABLE
from jobauto_prefect.runtime.protocol import Launch
from jobauto_prefect.runtime.watchdog.job_handles import User

OTHERS = ""
ID = re.compile("[1-9][0-9]{0,8}")


@dataclass(frozen=True, slots=True)
class Users:
    """`companies` maps company ids to users; `default` is for other companies.

    Without either, jobs run as this process's own user.
    """

    default: User | None = None
    companies: Mapping[int, User] = field(default_factory=dict)

    def user_of(self, launch: Launch) -> User | None:
        """Return the user of a job, by its company; None means this process's own user.

        Raises:
            StartFailed: other companies have users, but this one has none.
        """
        user = self.companies.get(launch.company_id, self.default)
        if user is None and self.companies:
            raise StartFailed(
                f"this worker runs no jobs of company {launch.company}: it was started with"
                f" --run-as for others; add --run-as {launch.company_id}=USER",
                NOT_EXECUTABLE,
            )
        return user


def parse_users(names: Sequence[str], workspace: Path) -> Users:
    """Return the users given by `--run-as`: `USER`, or `ID=USER` for the company with this id.

    Raises:
        InvalidInput: a user does not exist, this process may not switch to it, or a company has two
            users or is not named by its id.
        NotReady: a user can't reach the workspace.
    """
    users = {
        company: find_user(login, workspace) for company, login in parse_user_names(names).items()
    }
    default = users.pop(OTHERS, None)
    return Users(default, {int(company): user for company, user in users.items()})


def parse_user_names(names: Sequence[str]) -> dict[str, str]:
    """Return company id -> user; `""` is for companies without an entry.

    Raises:
        InvalidInput: a company, or the rest, has two users; or a company is not named by its id.
    """
    logins: dict[str, str] = {}
    for name in names:
        company, _, login = name.rpartition("=")
        if company and not ID.fullmatch(company):
            raise _bad_user(
                f"--run-as {name}: give the company's id, not its slug, which may be reused;"
                f" jobauto company show {company} shows the id"
            )
        if company in logins:
            raise _bad_user(
                f"--run-as {name}: a user for {company or 'the others'} is already given"
            )
        logins[company] = login
    return logins


def find_user(name: str, workspace: Path) -> User:
    """Return an operating-system user, with the supplementary groups.

    Raises:
        InvalidInput: the user does not exist, or this process may not switch to it.
        NotReady: the user can't reach the workspace.
    """
    try:
        entry = pwd.getpwnam(name)
    except KeyError:
        raise _bad_user(f"there is no user {name}") from None
    if os.geteuid() != 0:
        raise _bad_user("only a worker started as root can run jobs as another user")
    groups = tuple(os.getgrouplist(name, entry.pw_gid))
    user = User(entry.pw_uid, entry.pw_gid, groups, entry.pw_dir)
    for folder in reversed(workspace.parents):
        if not _may_pass(user, folder):
            raise NotReady(
                f"jobs that run as {name} can't reach {workspace}: {folder} is closed to them;"
                " set JOBAUTO_WORKER_DIRECTORY to a directory they can reach"
            )
    return user


def _bad_user(message: str) -> InvalidInput:
    return InvalidInput([Fault("/run-as", "user", message)], message)


def _may_pass(user: User, folder: Path) -> bool:
    status = folder.stat()
    if status.st_uid == user.uid:
        return bool(status.st_mode & 0o100)
    return bool(status.st_mode & (0o010 if status.st_gid in user.groups else 0o001))
