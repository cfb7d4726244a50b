"""The way to Prefect for processes that run under Prefect's own client settings."""

import contextlib
import ssl
from collections.abc import Iterator

from jobauto_prefect.engine.api import PrefectApi, authorization
from jobauto_prefect.errors import NotReady


def connect() -> PrefectApi:
    """Return a client of the server that Prefect's settings name (environment or profile).

    Raises:
        NotReady: they name none.
    """
    from prefect.settings import get_current_settings

    settings = get_current_settings().api
    if not settings.url:
        raise NotReady("PREFECT_API_URL is not set; it names the Prefect server's API")
    login = settings.auth_string.get_secret_value() if settings.auth_string else None
    key = settings.key.get_secret_value() if settings.key else None
    return PrefectApi(
        settings.url,
        authorization=authorization(login, key),
        timeout_seconds=settings.request_timeout,
        verify=False if settings.tls_insecure_skip_verify else _trusted(settings.ssl_cert_file),
    )


@contextlib.contextmanager
def sign_in_as(worker_token: str) -> Iterator[None]:
    """Sign all of Prefect's clients in the block in as this worker, unless told who they are.

    Not by the environment: jobs inherit that.
    """
    from prefect.settings import PREFECT_API_AUTH_STRING, get_current_settings, temporary_settings

    settings = get_current_settings().api
    if settings.auth_string or settings.key:
        yield
        return
    with temporary_settings({PREFECT_API_AUTH_STRING: f"worker:{worker_token}"}):
        yield


def _trusted(certificates: str | None) -> ssl.SSLContext | bool:
    return ssl.create_default_context(cafile=certificates) if certificates else True
