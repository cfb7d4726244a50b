"""The parts of an installation outside its databases: settings, versions, the environment."""

import os
from collections.abc import Mapping
from importlib import metadata
from typing import Any

from pydantic import SecretStr

from jobauto_prefect.settings import Settings
from jobauto_prefect.variables import config_files

OURS = ("JOBAUTO_", "PREFECT_", "DB_")
"""Prefixes of the variables that determine how the service runs."""

TOKENS = ("JOBAUTO_TOKEN", "JOBAUTO_WORKER_TOKEN", "PREFECT_API_AUTH_STRING", "PREFECT_API_KEY")
"""Variables that identify somebody; they are useless in another installation."""

PLACES = frozenset({"home", "database_url", "database_listen_url", "key_file", "redis_url"})
"""Settings of an installation's location: each has its own."""

GUARDED = frozenset({"webhook_urls"})
"""Settings whose values may contain others' secrets: a path may be one."""


def effective_settings(settings: Settings) -> dict[str, Any]:
    """Return the settings that may be shown, as JSON, by name; not the addresses of databases."""
    return {
        name: value
        for name, value in settings.model_dump(mode="json").items()
        if name not in PLACES | GUARDED
        and not name.startswith("db_")
        and not isinstance(getattr(settings, name), SecretStr)
    }


def differing_settings(backup: Mapping[str, Any], settings: Settings) -> dict[str, tuple[Any, Any]]:
    """Return changed settings: name -> (former value, present value)."""
    here = effective_settings(settings)
    names = sorted(backup.keys() | here.keys())
    return {
        name: (backup.get(name), here.get(name))
        for name in names
        if backup.get(name) != here.get(name)
    }


def read_settings_files() -> dict[str, str]:
    """Return the existing settings files, by name."""
    files = (file for file in config_files() if file.is_file() and os.access(file, os.R_OK))
    return {file.name: file.read_text() for file in files}


def service_environment() -> dict[str, str]:
    """Return the variables of this process that determine how the service runs."""
    return {
        name: os.fsencode(value).decode(errors="replace")
        for name, value in sorted(os.environ.items())
        if name.startswith(OURS) and name not in TOKENS
    }


def versions() -> tuple[str, str]:
    """Return the versions of this program and of Prefect."""
    return metadata.version("jobauto-prefect"), metadata.version("prefect")
