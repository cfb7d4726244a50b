"""Single settings, read without reading all of them: commands that ask a running service need no
more than its home.
"""

import os
from pathlib import Path

SYSTEM = Path("/etc/jobauto")
FILES = ("jobauto.env", "database.env")
"""In the folder of the configuration; the later one wins."""


def environment_home() -> Path:
    """Return the home that the process environment says, else the default."""
    return Path(os.environ.get("JOBAUTO_HOME") or "~/.jobauto").expanduser()


def config_directory() -> Path:
    """Return where the files with settings are."""
    named = os.environ.get("JOBAUTO_CONFIG_DIR")
    if named:
        return Path(named).expanduser()
    return SYSTEM if SYSTEM.is_dir() else environment_home()


def config_files() -> tuple[Path, ...]:
    """Return the files with settings, whether they are there or not; the later one wins."""
    return tuple(config_directory() / name for name in FILES)


def variable(name: str) -> str | None:
    """Return what the process environment says, else the files; None: nothing does."""
    value = os.environ.get(name)
    if value is not None:
        return value
    for file in reversed(config_files()):
        stored = _kept(file, name)
        if stored is not None:
            return stored
    return None


def home() -> Path:
    """Return the home as the settings have it."""
    path = variable("JOBAUTO_HOME")
    return Path(path).expanduser() if path else environment_home()


def adopt_prefect_settings(*, of_server: bool) -> None:
    """Let Prefect find its settings (`PREFECT_…`) that the files say; it must not be imported yet.

    Without `of_server` those of its server stay out: that of its database may have a password.
    """
    for file in reversed(config_files()):
        for name, value in stored_variables(file).items():
            is_servers = name.startswith("PREFECT_SERVER_") or "DATABASE" in name
            if name.startswith("PREFECT_") and (of_server or not is_servers):
                os.environ.setdefault(name, value)


def stored_variables(file: Path) -> dict[str, str]:
    """Return what a file says, by name; nothing where it can't be read."""
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
