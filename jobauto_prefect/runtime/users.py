"""Whom native jobs run as."""

import os
import pwd
from pathlib import Path

from jobauto_prefect.errors import Fault, InvalidInput, NotReady
from jobauto_prefect.runtime.watchdog.client import User


def user_named(name: str, workplace: Path) -> User:
    """The user `--run-as` names, with the supplementary groups.

    Raises:
        InvalidInput: there is no such user, or this process may not become one.
        NotReady: the user has no way to the workplace.
    """
    try:
        entry = pwd.getpwnam(name)
    except KeyError:
        raise _bad_user(f"there is no user {name}") from None
    if os.geteuid() != 0:
        raise _bad_user("only a worker started as root can run jobs as another user")
    groups = tuple(os.getgrouplist(name, entry.pw_gid))
    user = User(entry.pw_uid, entry.pw_gid, groups, entry.pw_dir)
    for folder in reversed(workplace.parents):
        if not _may_pass(user, folder):
            raise NotReady(
                f"jobs run as {name} can't reach {workplace}: {folder} is closed to them;"
                " set JOBAUTO_WORKER_DIRECTORY to a place that is open"
            )
    return user


def _bad_user(message: str) -> InvalidInput:
    return InvalidInput([Fault("/run-as", "user", message)], message)


def _may_pass(user: User, folder: Path) -> bool:
    found = folder.stat()
    if found.st_uid == user.uid:
        return bool(found.st_mode & 0o100)
    return bool(found.st_mode & (0o010 if found.st_gid in user.groups else 0o001))
