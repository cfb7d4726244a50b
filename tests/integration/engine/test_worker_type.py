"""Our type of work pool among those that Prefect's UI offers."""

from typing import Any

import httpx

from jobauto_prefect.engine.work_pools import LOGO_URL
from jobauto_prefect.engine.worker.jobauto_worker import JobautoWorker


def test_prefect_offers_it_beside_its_own_with_name_description_and_logo(
    prefect_server: str,
) -> None:
    answer = httpx.get(f"{prefect_server}/collections/views/aggregate-worker-metadata", timeout=60)
    types: dict[str, Any] = answer.raise_for_status().json()
    assert "process" in types["prefect"]
    ours = types["jobauto-prefect"]["jobauto"]
    assert ours["display_name"] == "jobauto"
    assert ours["description"] == JobautoWorker.get_description()
    assert ours["logo_url"] == LOGO_URL == JobautoWorker.get_logo_url()
    assert ours["default_base_job_configuration"] == JobautoWorker.get_default_base_job_template()
