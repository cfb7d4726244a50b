"""Single settings, without reading all of them.

Commands that ask a running service need only its home.
"""

import os
from pathlib import Path

SYSTEM = Path("/etc/jobauto")
FILES = ("jobauto.env", "database.env")
"""Files in the configuration folder; the later one wins."""


def environment_home() -> Path:
    """Return the home in the process environment, else the default."""
    return Path(os.environ.get("JOBAUTO_HOME") or "~/.jobauto").expanduser()


def config_directory() -> Path:
    """Return the folder of the files with settings."""
    named = os.environ.get("JOBAUTO_CONFIG_DIR")
    if named:
        return Path(named).expanduser()
    return SYSTEM if SYSTEM.is_dir() else environment_home()


def config_files() -> tuple[Path, ...]:
    """Return the files with settings, existing or not; the later one wins."""
    return tuple(config_directory() / name for name in FILES)


def variable(name: str) -> str | None:
    """Return a variable of the process environment, else of the files; None if there is none."""
    value = os.environ.get(name)
    if value is not None:
        return value
    for file in reversed(config_files()):
        stored = _kept(file, name)
        if stored is not None:
            return stored
    return None


def home() -> Path:
    """Return the home according to the settings."""
    path = variable("JOBAUTO_HOME")
    return Path(path).expanduser() if path else environment_home()


def adopt_prefect_settings(*, of_server: bool) -> None:
    """Pass Prefect's settings (`PREFECT_…`) in the files to Prefect, before it is imported.

    Without `of_server`, its server's settings are left out: its URLs of database and Redis may have
    a password.
    """
    for file in reversed(config_files()):
        for name, value in stored_variables(file).items():
            of_servers = name.startswith(("PREFECT_SERVER_", "PREFECT_REDIS_"))
            is_servers = of_servers or "DATABASE" in name
            if name.startswith("PREFECT_") and (of_server or not is_servers):
                os.environ.setdefault(name, value)


def stored_variables(file: Path) -> dict[str, str]:
    """Return the variables in a file; none if it can't be read."""
    from dotenv import dotenv_values

    try:
        return {name: value or "" for name, value in dotenv_values(file).items()}
    except (OSError, UnicodeDecodeError):
        return {}


def _kept(file: Path, name: str) -> str | None:
    try:
        if name not in file.read_text():
            return None
    except (OSError, UnicodeDecodeError):
        return None
    return stored_variables(file).get(name)
