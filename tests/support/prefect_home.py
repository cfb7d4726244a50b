"""A home whose commands reach a real Prefect."""

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from uuid import uuid4

from tests.support.counting_proxy import Counted
from tests.support.homes import APPLICATION, InProcessHome
from tests.support.servers import prefect_client

PATIENCE = 150  # seconds; what somebody who was killed had taken is free after 60


class PrefectHome(InProcessHome):
    """A home whose commands reach Prefect through a counter; `slug` is its own company."""

    def __init__(self, path: Path, prefect: Counted, api: str) -> None:
        super().__init__(path)
        self.slug = f"co-{uuid4().hex[:8]}"
        self.prefect = prefect
        self.rest = prefect_client(api)
        self.environment |= {"PREFECT_API_URL": prefect.url, "JOBAUTO_POOL": f"pool-{self.slug}"}

    def actions(self, *words: str, code: int = 0) -> dict[str, str]:
        """What `plan` says becomes of each record."""
        planned = self.told("plan", "files", *words, code=code)
        return {
            f"{change['kind']} {change['title']}": change["action"] for change in planned["changes"]
        }

    def apply(self, *words: str) -> Any:
        """Apply the files, and see that Prefect knows of it."""
        applied = latest = self.told("apply", "files", "--yes", *words)
        until = time.monotonic() + PATIENCE
        while latest["waiting_for_prefect"]:  # it was busy
            assert time.monotonic() < until
            latest = self.told("apply", "files", "--yes", *words)
        return applied

    def deployments(self) -> dict[str, Any]:
        """The deployments of the company in Prefect, by the name of the run template."""
        tags = {"deployments": {"tags": {"all_": [f"company:{self.slug}"]}}, "limit": 200}
        answer = self.rest.post("/deployments/filter", json=tags).raise_for_status()
        return {deployment["name"].partition(" - ")[2]: deployment for deployment in answer.json()}

    def definition(self, **members: Any) -> str:
        """A definition whose name is this company's own."""
        name = {"en": f"Probe {self.slug}", "cs": f"Sonda {self.slug}"}
        return json.dumps(APPLICATION | {"name": name} | members)

    def company(self, **members: Any) -> dict[str, Any]:
        """Its company, as files say it."""
        return {"kind": "company", "slug": self.slug, "name": "Company", **members}

    def template(self, name: str, **members: Any) -> dict[str, Any]:
        """A run template of the company, as files say it."""
        app = f"Sonda {self.slug}"
        return {"kind": "runtemplate", "company": self.slug, "app": app, "name": name, **members}

    def records(self, *records: Mapping[str, Any], **more: str) -> None:
        """Write records, and other files beside them."""
        self.write(rest_json=json.dumps(records), **more)
