"""The way to Prefect for processes that run under Prefect's own client settings."""

import ssl

from jobauto_prefect.engine.api import PrefectApi, authorization
from jobauto_prefect.errors import NotReady


def connect() -> PrefectApi:
    """A client of the server that Prefect's settings name (environment or profile).

    Raises:
        NotReady: they name none.
    """
    from prefect.settings import get_current_settings

    said = get_current_settings().api
    if not said.url:
        raise NotReady("PREFECT_API_URL is not set; it names the Prefect server's API")
    login = said.auth_string.get_secret_value() if said.auth_string else None
    key = said.key.get_secret_value() if said.key else None
    return PrefectApi(
        said.url,
        authorization=authorization(login, key),
        timeout_seconds=said.request_timeout,
        verify=False if said.tls_insecure_skip_verify else _trusted(said.ssl_cert_file),
    )


def _trusted(certificates: str | None) -> ssl.SSLContext | bool:
    return ssl.create_default_context(cafile=certificates) if certificates else True
