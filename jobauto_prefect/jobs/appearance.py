"""How flow runs look in Prefect's lists. Workers import this: nothing here needs the ledger."""

import re
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jobauto_prefect.ledger.records import Job, RunTemplate

WARNING_TAG = "severity:warning"
WARNING_SUFFIX = " (warning)"


@dataclass(frozen=True, slots=True)
class RunAppearance:
    """The name and all tags of a flow run: Prefect replaces all tags at once."""

    name: str
    tags: tuple[str, ...] = ()

    def ended(self, *, with_warning: bool) -> "RunAppearance":
        """Return how the run looks after its end, whatever it looked like before."""
        name = self.name.removesuffix(WARNING_SUFFIX)
        others = tuple(tag for tag in self.tags if tag != WARNING_TAG)
        if not with_warning:
            return RunAppearance(name, others)
        return RunAppearance(f"{name}{WARNING_SUFFIX}", (*others, WARNING_TAG))


def window_name(template: "RunTemplate", due: datetime) -> str:
    """Name the flow run of a future window as Prefect shows it; `due` is in the schedule's zone."""
    return f"{template.company.name} / {template.name} {due:%Y-%m-%d %H:%M}"


def run_name(job: "Job") -> str:
    """Return the name of a job's flow run in Prefect."""
    name = f"{job.runtemplate.company.name} / {job.runtemplate.name} #{job.id}"
    if job.task_id is None:
        return name
    return f"{name} (task {job.task_id}, attempt {job.attempt})"


_WINDOW = re.compile("[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}")


def is_window_name(name: str, title: str) -> bool:
    """Whether the flow run has the name of a future window of the launched run template."""
    lead = f"{title.rpartition(' #')[0]} "
    return name.startswith(lead) and _WINDOW.fullmatch(name, len(lead)) is not None
