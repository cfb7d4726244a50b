"""Files of records, and a home that applies them."""

from typing import Any

import yaml

from tests.support.definitions import PROBE
from tests.support.homes import InProcessHome


class FilesHome(InProcessHome):
    """A home whose commands say what they did as JSON."""

    def write_records(self, *documents: dict[str, Any]) -> None:
        """Write the file that is planned and applied."""
        (self.path / "files.yaml").write_text(yaml.safe_dump_all(documents, sort_keys=False))

    def actions(self, code: int = 3) -> dict[str, str]:
        """What `plan` says becomes of each record."""
        planned = self.told("plan", "files.yaml", code=code)
        return {
            f"{change['kind']} {change['title']}": change["action"] for change in planned["changes"]
        }

    def apply(self, *documents: dict[str, Any]) -> None:
        """Write records and apply them."""
        self.write_records(*documents)
        self.told("apply", "files.yaml", "--yes")

    def owners(self, group: str) -> dict[str, Any]:
        """Owner (slug) of each record, by its id."""
        companies = self.told("company", "list").values()
        slugs = {company["id"]: company["slug"] for company in companies}
        records = self.told(group, "list")
        return {number: slugs.get(record["company_id"]) for number, record in records.items()}


def company(slug: str) -> dict[str, Any]:
    """A company in a file."""
    return {"kind": "company", "slug": slug, "name": slug.title()}


def app(name: str, **members: Any) -> dict[str, Any]:
    """An application in a file: the probe without its UUID."""
    definition = {key: value for key, value in PROBE.items() if key != "uuid"}
    return {**definition, "name": name, **members}


def template(slug: str, **members: Any) -> dict[str, Any]:
    """A run template of the probe in a file."""
    return {"kind": "runtemplate", "company": slug, "name": "t", "app": "Probe", **members}
