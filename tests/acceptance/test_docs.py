"""The first hour: what the tutorial and the README tell people to do, done."""

import re
import time
from collections.abc import Iterator

import pytest

from tests.support.guides import Command, File, Shell, is_answer, steps
from tests.support.paths import ROOT
from tests.support.service import Service

DOCUMENTS = ("docs/tutorial.md", "README.md")
IN_DOCUMENTS = ("http://127.0.0.1:8000", "http://127.0.0.1:4200")
HOUR, READING = 3600.0, 150.0  # seconds; in the second all documents are followed
NUMBERED = re.compile(r"\b(job |#)\d+")
"""The second document begins with another number than it says."""


@pytest.fixture(scope="module")
def own_service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service in which nothing has happened yet."""
    home = tmp_path_factory.mktemp("first") / "home"
    service = Service(home, JOBAUTO_GRACE_SECONDS="2")
    service.start()
    try:
        yield service
    finally:
        service.stop()


def environment_of(service: Service) -> dict[str, str]:
    addresses = {"JOBAUTO_URL": service.url, "PREFECT_API_URL": f"{service.prefect}/api"}
    return service.environment | addresses


def await_an_hour_that_lasts() -> None:
    """Wait for the next hour where this one is nearly over.

    What readers make runs hourly: in the midst of the documents that job would be the last one.
    """
    left = HOUR - time.time() % HOUR
    if left < READING:
        time.sleep(left + 1)


def test_the_tutorial_and_the_readme_do_what_they_say(own_service: Service) -> None:
    await_an_hour_that_lasts()
    real = dict(zip(IN_DOCUMENTS, (own_service.url, own_service.prefect), strict=True))
    with Shell(own_service.home.parent, environment_of(own_service)) as shell:
        for name in DOCUMENTS:
            for step in steps((ROOT / name).read_text()):
                follow(name, step, shell, real)


def follow(name: str, step: File | Command, shell: Shell, real: dict[str, str]) -> None:
    if isinstance(step, File):
        shell.write(step)
        return
    words = step.words
    for written, address in real.items():
        words = words.replace(written, address)
    expected, answer = (NUMBERED.sub(r"\1N", text) for text in (step.answer, shell.type(words)))
    assert is_answer(expected, answer), (
        f"{name}: $ {step.words}\n{answer}\n-- instead of\n{expected}"
    )
