"""The chart of the success rate: positions of its points; `templates/start.html` draws it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from jobauto_prefect.facade.console.overview import DayResult
from jobauto_prefect.facade.formats.html.page_language import Translator

WIDTH, HEIGHT = 560, 210
LEFT, RIGHT, TOP, BOTTOM = 52, 30, 14, 32
LABEL_EVERY = 3  # days
GRID = (0, 50, 100)  # percent


MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


@dataclass(frozen=True, slots=True)
class ChartDay:
    """A day; `share` is the percentage of successful jobs, None if no job ended."""

    x: float
    y: float
    label: str
    share: int | None
    good: int
    bad: int
    has_label: bool
    note: str


@dataclass(frozen=True, slots=True)
class Chart:
    """`lines` and `areas` are points of polylines, interrupted by days without jobs."""

    days: Sequence[ChartDay]
    lines: Sequence[str]
    areas: Sequence[str]
    grid: Sequence[tuple[int, float]]
    width: int = WIDTH
    height: int = HEIGHT
    left: int = LEFT
    right: int = WIDTH - RIGHT


def draw_success(days: Sequence[DayResult], translate: Translator) -> Chart:
    """Place the days from left to right, with 100 % at the top."""
    step = (WIDTH - LEFT - RIGHT) / max(1, len(days) - 1)
    placed = [
        _place(result, LEFT + step * number, (len(days) - 1 - number) % LABEL_EVERY == 0, translate)
        for number, result in enumerate(days)
    ]
    runs = list(_unbroken(placed))
    return Chart(
        days=placed,
        lines=[_points(run) for run in runs],
        areas=[f"{run[0].x:.1f},{_y(0)} {_points(run)} {run[-1].x:.1f},{_y(0)}" for run in runs],
        grid=[(percent, _y(percent)) for percent in GRID],
    )


def _place(result: DayResult, x: float, has_label: bool, translate: Translator) -> ChartDay:
    total = result.good + result.bad
    # Rounded down, so that 100 % means that nothing failed.
    share = 100 * result.good // total if total else None
    month = translate(MONTHS[result.begins.month - 1])
    label = translate("{day} {month}", day=result.begins.day, month=month)
    figures = (
        translate("{share} % of {total} jobs", share=share, total=total)
        if total
        else translate("no job ended")
    )
    return ChartDay(
        x=round(x, 1),
        y=_y(share or 0),
        label=label,
        share=share,
        good=result.good,
        bad=result.bad,
        has_label=has_label,
        note=f"{label}: {figures}",
    )


def _y(percent: int) -> float:
    return round(TOP + (HEIGHT - TOP - BOTTOM) * (100 - percent) / 100, 1)


def _unbroken(days: Sequence[ChartDay]) -> Iterator[list[ChartDay]]:
    run: list[ChartDay] = []
    for day in days:
        if day.share is not None:
            run.append(day)
        elif run:
            yield run
            run = []
    if run:
        yield run


def _points(days: Sequence[ChartDay]) -> str:
    return " ".join(f"{day.x},{day.y}" for day in days)
