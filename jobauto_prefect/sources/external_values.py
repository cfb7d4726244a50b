"""Values that a credential refers to: in a .env file, or in HashiCorp Vault.

They are read on the service's own machine, beside its key. Therefore the settings limit the files
and servers: `JOBAUTO_ENV_FILES`, `JOBAUTO_VAULTS`.
"""

import os
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any

from dotenv import dotenv_values

from jobauto_prefect.definitions import to_text
from jobauto_prefect.errors import Fault, SourceUnavailable
from jobauto_prefect.settings import COMPANY_ID, Settings

LARGEST_FILE = 1_000_000  # bytes
SECONDS = 5
"""Time limit for an answer of a vault."""

Fields = Mapping[str, str]
"""Keyword of a credential's field -> its value, secrets included."""


@dataclass(frozen=True, slots=True)
class ValueSource:
    """A kind of source: the keywords its credential types need, and how to read it."""

    needed: Sequence[str]
    refusal: Callable[[Fields, int, Settings], str | None]
    read: Callable[[Fields], dict[str, Any]]


def faults_of_type(kind: str | None, keywords: Sequence[str]) -> Iterator[Fault]:
    """Yield the keywords that a credential type lacks for its source."""
    lacking = [name for name in SOURCES[kind].needed if name not in keywords] if kind else []
    if lacking:
        yield Fault("/source", "fields", f"{kind} needs the fields {', '.join(lacking)}; add them")


def faults_of_values(
    kind: str | None, values: Fields, company_id: int, settings: Settings
) -> Iterator[Fault]:
    """Yield why a source can never be read with these values; nothing while some are missing."""
    if kind is None or not all(values.get(name) for name in SOURCES[kind].needed):
        return
    reason = SOURCES[kind].refusal(values, company_id, settings)
    if reason is not None:
        yield Fault(f"/values/{SOURCES[kind].needed[0]}", "target", reason)


def read_values(kind: str, values: Fields, company_id: int, settings: Settings) -> dict[str, str]:
    """Return all values of a source, as text; may block for some seconds.

    Raises:
        SourceUnavailable: it is forbidden, is missing, or does not answer.
    """
    source = SOURCES[kind]
    lacking = [name for name in source.needed if not values.get(name)]
    if lacking:
        raise SourceUnavailable(f"it has no {', '.join(lacking)}")
    reason = source.refusal(values, company_id, settings)
    if reason is not None:
        raise SourceUnavailable(reason)
    values_by_name = source.read(values)
    return {name: to_text(value) for name, value in values_by_name.items() if value is not None}


def _refusal_of_file(values: Fields, company_id: int, settings: Settings) -> str | None:
    """Return why a file may not be read; None: it may. The targets of links count.

    A company's folder is named by its id: a slug may be given to another company later.
    """
    path = values["ENV_FILE_PATH"]
    if not Path(path).is_absolute():
        return f"{path} is not an absolute path"
    real = Path(os.path.realpath(path))
    named = [name.replace(COMPANY_ID, str(company_id)) for name in settings.env_files]
    allowed = [Path(os.path.realpath(name)) for name in named]
    if any(real == place or place in real.parents for place in allowed):
        return None
    return (
        f"{path} is not among JOBAUTO_ENV_FILES; an administrator has to name it, or its folder,"
        " there"
    )


def _read_file(values: Fields) -> dict[str, Any]:
    path = os.path.realpath(values["ENV_FILE_PATH"])
    try:
        # A path that is no regular file, such as a pipe, must not block.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
    except OSError as error:
        raise SourceUnavailable(f"{path} can't be read ({error.strerror})") from None
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_size > LARGEST_FILE:
            raise SourceUnavailable(f"{path} is not a file of at most {LARGEST_FILE} bytes")
        text = os.read(descriptor, LARGEST_FILE).decode()
    except UnicodeDecodeError:
        raise SourceUnavailable(f"{path} is not in UTF-8") from None
    finally:
        os.close(descriptor)
    # Not interpolated, as that would reveal this process's own environment.
    return dict(dotenv_values(stream=StringIO(text), interpolate=False))


def _refusal_of_vault(values: Fields, _company_id: int, settings: Settings) -> str | None:
    address = values["VAULT_ADDR"].rstrip("/")
    if address in {allowed.rstrip("/") for allowed in settings.vaults}:
        return None
    return f"{address} is not among JOBAUTO_VAULTS; an administrator has to name it there"


def _read_vault(values: Fields) -> dict[str, Any]:
    try:
        import hvac
        import hvac.exceptions
        import requests
    except ImportError:
        raise SourceUnavailable(
            "Vault needs a package that is not installed: pip install 'jobauto-prefect[vault]'"
        ) from None
    session = requests.Session()
    session.trust_env = False  # use no proxies or passwords of this process's environment
    client = hvac.Client(
        url=values["VAULT_ADDR"].rstrip("/"),
        token=values.get("VAULT_TOKEN", ""),
        namespace=values.get("VAULT_NAMESPACE") or None,
        timeout=SECONDS,
        allow_redirects=False,
        session=session,
    )
    try:
        if values.get("VAULT_ROLE_ID"):
            client.auth.approle.login(values["VAULT_ROLE_ID"], values.get("VAULT_SECRET_ID"))
        answer = client.secrets.kv.v2.read_secret_version(
            path=values["VAULT_PATH"],
            mount_point=values.get("VAULT_MOUNT") or "secret",
            raise_on_deleted_version=True,
        )
        return dict(answer["data"]["data"])
    except (hvac.exceptions.VaultError, requests.RequestException) as error:
        # The library's messages may repeat what was sent.
        reason = type(error).__name__
        raise SourceUnavailable(f"{values['VAULT_ADDR']} gives no values ({reason})") from None
    except (KeyError, TypeError, ValueError):
        message = f"{values['VAULT_ADDR']} does not answer as a vault"
        raise SourceUnavailable(message) from None
    finally:
        session.close()


SOURCES: Mapping[str, ValueSource] = {
    "env_file": ValueSource(("ENV_FILE_PATH",), _refusal_of_file, _read_file),
    "vault": ValueSource(("VAULT_ADDR", "VAULT_PATH"), _refusal_of_vault, _read_vault),
}
"""`source` of a credential type -> its kind."""
