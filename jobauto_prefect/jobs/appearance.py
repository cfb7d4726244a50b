"""How a flow run looks in Prefect's lists; workers decide it, and hold nothing of the ledger."""

from dataclasses import dataclass

WARNING_TAG = "severity:warning"
WARNING_SUFFIX = " (warning)"


@dataclass(frozen=True, slots=True)
class Appearance:
    """The name and all tags of a flow run: Prefect replaces all tags at once."""

    name: str
    tags: tuple[str, ...] = ()

    def ended(self, *, with_warning: bool) -> "Appearance":
        """The same run once it is over; whatever it looked like before, it looks the same then."""
        name = self.name.removesuffix(WARNING_SUFFIX)
        others = tuple(tag for tag in self.tags if tag != WARNING_TAG)
        if not with_warning:
            return Appearance(name, others)
        return Appearance(f"{name}{WARNING_SUFFIX}", (*others, WARNING_TAG))
