"""How long jobs and their output are kept, by settings, company and run template."""

from collections.abc import Mapping
from dataclasses import dataclass

NO_BOUND = 0
"""As a number of days or jobs: unlimited."""

LONGEST_DAYS = 36500


@dataclass(frozen=True, slots=True)
class Retention:
    """Retention in days after the end; `jobs_count` the newest ended jobs of a run template.

    0 means no limit. `output_days` is for lines of output and artifacts, `runs_days` for flow runs
    in Prefect with their logs; both are deleted with their job if not before. `events_days` is for
    events with their deliveries and actions.
    """

    jobs_days: int
    jobs_count: int
    output_days: int
    runs_days: int
    tasks_days: int
    events_days: int


BOUNDS = tuple(Retention.__slots__)
"""The names of all bounds."""


def override_bounds(retention: Retention, *given: Mapping[str, int]) -> Retention:
    """Return the limits, overridden by the `given` ones in order; missing ones stay."""
    bounds = {name: getattr(retention, name) for name in BOUNDS}
    for bounds_given in given:
        bounds |= bounds_given
    return Retention(**bounds)
