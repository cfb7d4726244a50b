"""What Prefect's log has of a job's output."""

from uuid import uuid4

import pytest

from jobauto_prefect.clock import utc_now
from jobauto_prefect.engine.api import PrefectApi
from jobauto_prefect.engine.worker.log_shipper import MOST_LINES, LogShipper
from jobauto_prefect.runtime.protocol import OutputLines


def _lines(first: int, count: int) -> list[OutputLines]:
    """Two parts, the second with all lines but one."""
    texts = [f"line {number}" for number in range(first, first + count)]
    parts = [(first, texts[:1]), (first + 1, texts[1:])]
    return [
        OutputLines.model_construct(seq=seq, stream="stdout", texts=texts, at=utc_now())
        for seq, texts in parts
        if texts
    ]


@pytest.mark.parametrize("batch", [1, 999, MOST_LINES, 3 * MOST_LINES])
async def test_a_long_output_ends_in_prefects_log_with_one_notice(batch: int) -> None:
    shipper = LogShipper(PrefectApi("http://127.0.0.1:9/api"))
    add = shipper.run_log(uuid4(), 7)
    for first in range(1, MOST_LINES + 2500, batch):
        await add(_lines(first, batch))
    messages = [waiting["message"] for waiting in shipper._waiting]
    assert messages[:MOST_LINES] == [f"line {number}" for number in range(1, MOST_LINES + 1)]
    assert messages[MOST_LINES:] == ["more than 10000 lines; all of them: jobauto job logs 7"]


async def test_an_output_of_as_many_lines_as_the_log_takes_has_no_notice() -> None:
    shipper = LogShipper(PrefectApi("http://127.0.0.1:9/api"))
    await shipper.run_log(uuid4(), 7)(_lines(1, MOST_LINES))
    assert len(shipper._waiting) == MOST_LINES
