"""Certificates are loaded beside the event loops of the service, and once."""

import asyncio
from pathlib import Path

import pytest

from jobauto_prefect import certificates
from jobauto_prefect.engine.api import PrefectApi
from jobauto_prefect.errors import PrefectUnavailable
from jobauto_prefect.ledger.store import Ledger
from jobauto_prefect.monitoring.health import check_answers
from jobauto_prefect.settings import Settings
from jobauto_prefect.sources.webhooks import WebhookSender

NOBODY = "https://127.0.0.1:9"


async def ask_prefect(certificate_file: str | None = None) -> None:
    async with PrefectApi(f"{NOBODY}/api", certificate_file=certificate_file) as prefect:
        with pytest.raises(PrefectUnavailable):
            await prefect.get("/flows/1")


async def check() -> None:
    assert "does not answer" in str(await check_answers(NOBODY)())


def test_no_event_loop_loads_certificates(
    ledger: Ledger,
    ledger_settings: Settings,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import ssl

    import certifi

    loading: list[bool] = []
    load = ssl.create_default_context

    def watched(*given: object, **named: object) -> ssl.SSLContext:
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            loading.append(False)
        else:
            loading.append(True)
        return load(*given, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(ssl, "create_default_context", watched)
    certificates.load_certificates.cache_clear()

    async def run() -> None:
        sending = asyncio.create_task(WebhookSender(ledger, ledger_settings).run())
        await asyncio.gather(ask_prefect(), check(), check(), ask_prefect(certifi.where()))
        for _ in range(500):  # until the sender has its client
            if len(loading) >= 3:
                break
            await asyncio.sleep(0.01)
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)
        await check()

    asyncio.run(run())
    assert not any(loading)
    # For all that heeds the environment, for webhooks, and of the file; some ask at once.
    assert 3 <= len(loading) <= 5
