"""The log of a job that wrote 50,000 lines: each answer has a part of it."""

import html
import re

import httpx
import pytest
from sqlalchemy import func, update

from jobauto_prefect.facade.console.jobs import log
from jobauto_prefect.facade.console.jobs.log import (
    CONTEXT_LINES,
    MAX_LIVE_LINES,
    PAGE_CHARACTERS,
    PAGE_LINES,
    PART_MARKUP,
)
from jobauto_prefect.facade.console.jobs.terminal_text import MAX_LINE, TerminalText, TextPart
from jobauto_prefect.ledger.audit.trail import SERVICE
from jobauto_prefect.ledger.records import OutputLine
from jobauto_prefect.settings import Settings
from tests.support.job_records import JobRecords

LINES = 50_000
MARKUP = 400  # bytes that a line of the page has beside its text, at most
FRAME = 100_000  # bytes of a page without lines, at most
NEEDLE = "needle"


@pytest.fixture
def ledger_settings(ledger_settings: Settings) -> Settings:
    """A busy machine takes long for so many lines."""
    return ledger_settings.model_copy(update={"database_answer_seconds": 120})


@pytest.fixture
def job(jobs: JobRecords) -> int:
    """A job that runs and has written this much; each ten-thousandth line can be looked for."""
    job = jobs.job(state="running")
    jobs.long_output(job, LINES, f":seq \x1b[32mrow\x1b[0m {'x' * 60} hay")
    with jobs.ledger.writing(SERVICE) as session:
        of_job = (OutputLine.job_id == job, OutputLine.seq % 10_000 == 0)
        marked = func.replace(OutputLine.text, "hay", NEEDLE)
        session.execute(update(OutputLine).where(*of_job).values(text=marked))
    return job


def _read(browser: httpx.Client, address: str, characters: int = 100) -> tuple[str, list[int]]:
    """A page and the numbers of its lines, whose texts have so many characters."""
    answer = browser.get(address)
    assert answer.status_code == 200
    numbers = [int(number) for number in re.findall(r'id="L(\d+)"', answer.text)]
    assert len(numbers) <= PAGE_LINES
    assert len(answer.content) <= FRAME + len(numbers) * (MARKUP + characters)
    return answer.text, numbers


def _link(page: str, text: str) -> str:
    (address,) = re.findall(rf'href="([^"]+)">{text}', page)
    return html.unescape(address)


def test_each_page_of_a_long_log_has_a_part_of_it(operator: httpx.Client, job: int) -> None:
    page, numbers = _read(operator, f"/console/jobs/{job}")
    assert numbers == list(range(LINES - PAGE_LINES + 1, LINES + 1))
    page, numbers = _read(operator, _link(page, "Earlier lines"))
    assert (numbers[0], numbers[-1]) == (LINES - 2 * PAGE_LINES + 1, LINES - PAGE_LINES)
    _, numbers = _read(operator, f"/console/jobs/{job}?before={PAGE_LINES // 2}")
    assert (numbers[0], numbers[-1]) == (1, PAGE_LINES // 2 - 1)

    found, numbers = _read(operator, f"/console/jobs/{job}?find={NEEDLE.upper()}")
    assert numbers == list(range(10_000, LINES + 1, 10_000))
    (first, *_) = re.findall(r'class="number" href="([^"]+)"', found)
    _, numbers = _read(operator, html.unescape(first))
    assert 10_000 in numbers[-CONTEXT_LINES - 1 :]
    found, numbers = _read(operator, f"/console/jobs/{job}?find=hay")
    assert (len(numbers), numbers[-1]) == (PAGE_LINES, LINES - 1)
    _, earlier = _read(operator, _link(found, "Earlier lines"))
    assert earlier[-1] < numbers[0]


def test_a_page_follows_a_long_log_by_what_is_new(
    operator: httpx.Client, jobs: JobRecords, job: int
) -> None:
    page, _ = _read(operator, f"/console/jobs/{job}")
    (following,) = re.findall(r'hx-get="([^"]+)"', page)
    jobs.lines(job, "one more", first=LINES + 1)
    _, numbers = _read(operator, html.unescape(following))
    assert numbers == [LINES + 1]
    # Somebody who was away for long gets the end, not all that was written meanwhile.
    _, numbers = _read(operator, f"/console/jobs/{job}/log?after=1&first=1&state=running")
    assert numbers[-1] == LINES + 1
    late = LINES - MAX_LIVE_LINES
    _, numbers = _read(
        operator, f"/console/jobs/{job}/log?after={LINES}&first={late}&state=running"
    )
    assert (len(numbers), numbers[-1]) == (PAGE_LINES, LINES + 1)


def test_of_long_lines_a_page_has_fewer(operator: httpx.Client, jobs: JobRecords) -> None:
    job = jobs.job()
    last = 2 * PAGE_CHARACTERS // MAX_LINE
    jobs.lines(job, *(f"{number} {'y' * 2 * MAX_LINE} end" for number in range(1, last + 1)))
    page, numbers = _read(operator, f"/console/jobs/{job}", MAX_LINE)
    assert len(page) < PAGE_CHARACTERS + FRAME + len(numbers) * MARKUP
    assert numbers[-1] == last
    seen = list(numbers)
    while numbers[0] > 1:
        page, numbers = _read(operator, _link(page, "Earlier lines"), MAX_LINE)
        seen = [*numbers, *seen]
    assert seen == list(range(1, last + 1))
    found, _ = _read(operator, f"/console/jobs/{job}?find=y", 2 * MAX_LINE)
    assert len(found) < PAGE_CHARACTERS + FRAME
    assert "Earlier lines" in found


def test_of_lines_in_many_colours_a_page_has_fewer(
    operator: httpx.Client, jobs: JobRecords, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []  # each takes long

    class CountingText(TerminalText):
        def parts_of(self, line: str, sought: str = "") -> list[TextPart]:
            read.append(line)
            return super().parts_of(line, sought)

    monkeypatch.setattr(log, "TerminalText", CountingText)
    job = jobs.job()
    rainbow = "".join(f"\x1b[{31 + number % 6}mz" for number in range(MAX_LINE))
    jobs.lines(job, *[rainbow] * 100)
    page, numbers = _read(operator, f"/console/jobs/{job}", MAX_LINE * (PART_MARKUP + 1))
    assert len(page) < PAGE_CHARACTERS + FRAME
    assert 1 <= len(numbers) == len(read) < 100


def test_a_page_has_a_bound_of_colours(operator: httpx.Client, jobs: JobRecords) -> None:
    """Each takes a tenth of a millisecond, which others wait for."""
    job = jobs.job()
    jobs.lines(job, *["\x1b[31mr\x1b[0m " * 20] * PAGE_LINES)
    page, numbers = _read(operator, f"/console/jobs/{job}")
    assert 100 < len(numbers) < PAGE_LINES
    assert page.count('class="f1"') < 10_000
