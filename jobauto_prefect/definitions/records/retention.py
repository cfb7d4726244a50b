"""How long jobs and what they leave is kept, by settings, company and run template."""

from collections.abc import Mapping
from dataclasses import dataclass

NO_BOUND = 0
"""As a number of days or jobs: for ever, all of them."""

LONGEST_DAYS = 36500


@dataclass(frozen=True, slots=True)
class Retention:
    """What is kept, in days since its end; `jobs_count` the newest ended jobs of a run template.

    0 stands for no bound. `output_days` is of lines of output and of artifacts, `runs_days` of
    flow runs in Prefect with their logs; both go with their job at the latest. `events_days` is of
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
    """Return the bounds where the later of the `given` ones win; what they leave out stays."""
    bounds = {name: getattr(retention, name) for name in BOUNDS}
    for bounds_given in given:
        bounds |= bounds_given
    return Retention(**bounds)
