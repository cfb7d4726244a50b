"""Which database Prefect's server has, as its own settings say."""

import os
import warnings

from jobauto_prefect.settings import Settings
from jobauto_prefect.variables import adopt_prefect_settings


def prefect_database_url(settings: Settings) -> str:
    """Return the SQLAlchemy URL of the database that `jobauto prefect start` would use here."""
    adopt_prefect_settings(of_server=True)
    os.environ.setdefault("PREFECT_HOME", str(settings.home / "prefect"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its home need not be there
        from prefect.settings import Settings as PrefectSettings

        url = PrefectSettings().server.database.connection_url
    assert url is not None  # noqa: S101 - it has a default
    return url.get_secret_value()
