"""What is remembered of parsed definitions."""

import json

from jobauto_prefect.definitions.parse import LONG, LONG_KEPT, parse_text
from tests.support.documents import smallest


def test_few_long_definitions_are_cached() -> None:
    short = json.dumps(smallest())
    longs = [
        json.dumps(smallest() | {"description": f"{number} " + "x" * LONG})
        for number in range(LONG_KEPT + 1)
    ]
    first, *others = [parse_text(text) for text in (short, *longs)]
    assert parse_text(longs[-1]) is others[-1]
    assert parse_text(longs[0]) is not others[0]
    assert parse_text(short) is first
