"""Where the picture of event rules has its boxes and arrows."""

import re

from jobauto_prefect.facade.console.records.rules import (
    COLUMN,
    MARGIN,
    Arrow,
    Origin,
    Picture,
    draw_rules,
)


def _draw(*pairs: str) -> Picture:
    """The picture of rules like `ab`: a starts b."""
    origins = {key: Origin(key * 30, f"/{key}") for key in "abcd"}
    return draw_rules(origins, [Arrow(start, end, "/rule", "", True) for start, end in pairs])


def _columns(picture: Picture) -> dict[str, int]:
    return {box.title[0]: (box.x - MARGIN) // COLUMN for box in picture.boxes}


def test_what_is_started_stands_to_the_right_of_all_that_starts_it() -> None:
    assert _columns(_draw("ab", "bc", "ac")) == {"a": 0, "b": 1, "c": 2}


def test_circles_end() -> None:
    columns = _columns(_draw("ab", "ba", "bc"))
    assert set(columns) == {"a", "b", "c"}
    assert max(columns.values()) < 3


def test_no_two_boxes_stand_in_one_place() -> None:
    picture = _draw("ac", "bc", "ad", "bd")
    places = [(box.x, box.y) for box in picture.boxes]
    assert len(set(places)) == len(places) == 4


def test_an_arrow_past_a_column_leads_between_its_rows() -> None:
    near, _, far = _draw("ab", "bc", "ac").curves
    heights = [set(re.findall(r",(\d+)", curve.path)) for curve in (near, far)]
    assert [len(each) for each in heights] == [1, 2]


def test_rules_about_what_one_may_not_see_are_left_out() -> None:
    picture = _draw("ax", "ab")
    assert len(picture.curves) == 1
    assert all(len(box.label) <= 26 for box in picture.boxes)


def test_without_rules_there_is_nothing_to_draw() -> None:
    assert _draw().boxes == []
