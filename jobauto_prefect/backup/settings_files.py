"""The settings files of a backup, in a new installation; storing the addresses of new databases.

`jobauto.env` takes effect if there is none and it names no place: without its time zone, its
retention and the like the installation would behave differently. Other files are only stored, to be
compared manually: `database.env` would lead to the former database.
"""

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from io import StringIO
from pathlib import Path

from dotenv import dotenv_values, set_key

from jobauto_prefect.backup.archive import Backup
from jobauto_prefect.backup.installation import PLACES
from jobauto_prefect.backup.restore_mark import write_new
from jobauto_prefect.home import make_folder
from jobauto_prefect.settings import Settings, load_settings
from jobauto_prefect.variables import FILES, config_directory, config_files

TAKEN = FILES[0]
BESIDE = "restored"
"""The folder in the home for files not in effect."""

ENVIRONMENT = "environment"


@dataclass(frozen=True, slots=True)
class PutFile:
    """Where a settings file is now; `why` it is not in effect, None if it is."""

    path: Path
    why: str | None


def staged_settings(settings: Settings, backup: Backup, staging: Path) -> Settings:
    """Return the settings the installation will have; their file is written to `staging`."""
    if _hindrance(backup) is not None or TAKEN not in backup.secrets.files:
        return settings
    file = staging / TAKEN
    write_new(file, backup.secrets.files[TAKEN])
    return load_settings((file, *config_files()))


def put_files(settings: Settings, backup: Backup, staging: Path) -> list[PutFile]:
    """Put the files where they belong."""
    files, put = backup.secrets.files, list[PutFile]()
    why = _hindrance(backup)
    staged, target = staging / TAKEN, config_directory() / TAKEN
    if staged.exists():
        make_folder(target.parent)
        staged.replace(target)
        put.append(PutFile(target, None))
    elif TAKEN in files:
        put.append(_beside(settings, TAKEN, files[TAKEN], why or ""))
    for name in (name for name in files if name != TAKEN):
        put.append(_beside(settings, name, files[name], "it names the former databases"))
    if variables := backup.secrets.environment:
        text = "".join(f"{name}={_quoted(value)}\n" for name, value in variables.items())
        why = "the environment of the command that made the backup"
        put.append(_beside(settings, ENVIRONMENT, text, why))
    return put


def store_variables(variables: Mapping[str, str]) -> Path | None:
    """Write variables to `database.env`, all or none of them; return it.

    None: it can't be written.
    """
    file = config_directory() / FILES[1]
    staged = file.with_name(f".{file.name}.new")
    try:
        make_folder(file.parent)
        staged.unlink(missing_ok=True)
        write_new(staged, file.read_text() if file.exists() else "")
        if file.exists():
            shutil.copymode(file, staged)
        for name, value in variables.items():
            set_key(staged, name, value)
        staged.replace(file)
    except OSError:
        return None
    return file


def _beside(settings: Settings, name: str, content: str, why: str) -> PutFile:
    path = settings.home / BESIDE / name
    make_folder(path.parent)
    write_new(path, content)
    return PutFile(path, why)


def _quoted(value: str) -> str:
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _hindrance(backup: Backup) -> str | None:
    """Return why jobauto.env does not take effect; None if it may."""
    content = backup.secrets.files.get(TAKEN)
    target = config_directory() / TAKEN
    if target.exists():
        return f"{target} already exists"
    if content is None:
        return None
    if target.parent.is_dir() and not os.access(target.parent, os.W_OK):
        return f"{target.parent} can't be written"
    places = {f"JOBAUTO_{name.upper()}" for name in PLACES}
    variables = dotenv_values(stream=StringIO(content))
    named = sorted(name for name in variables if name in places or name.startswith("DB_"))
    return f"it names {', '.join(named)}" if named else None
