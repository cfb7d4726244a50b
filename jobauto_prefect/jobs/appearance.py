"""How flow runs look in Prefect's lists. Workers import this: nothing here needs the ledger."""

import re
from dataclasses import dataclass

WARNING_TAG = "severity:warning"
WARNING_SUFFIX = " (warning)"


@dataclass(frozen=True, slots=True)
class RunAppearance:
    """The name and all tags of a flow run: Prefect replaces all tags at once."""

    name: str
    tags: tuple[str, ...] = ()

    def ended(self, *, with_warning: bool) -> "RunAppearance":
        """Return how the run looks once it is over, whatever it looked like before."""
        name = self.name.removesuffix(WARNING_SUFFIX)
        others = tuple(tag for tag in self.tags if tag != WARNING_TAG)
        if not with_warning:
            return RunAppearance(name, others)
        return RunAppearance(f"{name}{WARNING_SUFFIX}", (*others, WARNING_TAG))


_WINDOW = re.compile("[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}")


def is_window_name(name: str, title: str) -> bool:
    """Whether a flow run was named ahead, for a window of the run template of a launch's title."""
    lead = f"{title.rpartition(' #')[0]} "
    return name.startswith(lead) and _WINDOW.fullmatch(name, len(lead)) is not None
