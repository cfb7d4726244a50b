"""Trying again while a neighbouring service is away."""

import itertools

import pytest

from jobauto_prefect import retries
from jobauto_prefect.errors import FacadeUnavailable, Forbidden
from jobauto_prefect.retries import growing_pauses, retry, retry_until_available


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retries, "FIRST_PAUSE_SECONDS", 0.001)


def test_pauses_grow_up_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retries, "LONGEST_PAUSE_SECONDS", 0.005)
    assert [*itertools.islice(growing_pauses(), 5)] == [0.001, 0.002, 0.004, 0.005, 0.005]


async def test_a_service_that_is_away_is_asked_until_it_answers() -> None:
    answers = [FacadeUnavailable("away"), FacadeUnavailable("away"), "here"]

    async def ask(question: str) -> str:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return f"{question} {answer}"

    assert await retry_until_available(ask, "are you") == "are you here"
    assert answers == []


async def test_a_refusal_is_raised_at_once() -> None:
    asked = []

    async def ask() -> None:
        asked.append(1)
        raise Forbidden("no")

    with pytest.raises(Forbidden):
        await retry_until_available(ask)
    assert len(asked) == 1


async def test_patience_ends_with_the_last_error() -> None:
    async def ask() -> None:
        raise FacadeUnavailable("away")

    with pytest.raises(FacadeUnavailable):
        await retry(ask, lambda _error, usual: usual, patience_seconds=0.01)


async def test_what_is_away_says_itself_how_long_to_wait() -> None:
    pauses = []

    async def ask() -> None:
        raise FacadeUnavailable("away")

    def pause_of(_error: Exception, usual: float) -> float | None:
        pauses.append(usual)
        return None if len(pauses) == 3 else 0.0

    with pytest.raises(FacadeUnavailable):
        await retry(ask, pause_of)
    assert pauses == [0.001, 0.002, 0.004]
