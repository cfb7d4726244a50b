"""Records what people and programs meet, to compare it before and after a change of the code.

    python -m scripts.surfaces record before.json
    python -m scripts.surfaces compare before.json after.json

A recording has the answer of every GET in every format and of the published dialect, of refused
requests, the console's pages as four people see them in two languages, plans of faulty files, the
help of every command and the document of the contract. Ids, times and ports are left out.
"""

import difflib
import itertools
import json
import os
import re
import subprocess
import sys
import tempfile
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urljoin, urlsplit

import httpx
from typer.main import get_command
from typer.testing import CliRunner

from jobauto_prefect.cli.app import app as command_line
from jobauto_prefect.ledger.opening import open_ledger
from jobauto_prefect.ledger.store import Ledger
from jobauto_prefect.settings import Settings
from tests.support.console_records import make_records, sign_in
from tests.support.ports import free_port
from tests.support.servers import client, facade, user_token

CONTRACT = "/api/v1"
DIALECT = "/api/VitexSoftware/MultiFlexi/1.0.0"
SUFFIXES = (".json", ".yaml", ".xml", ".html", ".csv", ".xyz", "")
QUERIES = ("", "?limit=1", "?limit=x&offset=y", "?order=-id", "?order=nothing", "?company_id=acme",
           "?company_id=nobody", "?no_such=1", "?cursor=x")  # fmt: skip
KEYS = ("1", "2", "acme", "acme%2FAcme%20invoices", "nobody", "0", "99", "1.5")
BODIES: tuple[Any, ...] = ({}, [], None, {"no_such": 1}, {"name": 5, "limit": "x"}, {"id": 99})
FILES = (
    ("odd.json", '{"kind": "runtemplate", "company": "nobody", "name": 5}'),
    ("odd.yaml", "kind: company\nslug: a b\nnothing: 1\n---\nkind: unknown\n"),
    ("broken.json", '{"kind": '),
)
PEOPLE = (
    ("eva", "super_admin", None),
    ("tom", "viewer", 1),
    ("ida", "editor", 1),
    ("jan", "user", None),
)
MOST_PAGES = 400  # of one person in one language
HEADERS = (
    "content-type",
    "location",
    "x-total-count",
    "x-jobauto-ignored",
    "warning",
    "allow",
    "link",
)
VARYING = re.compile(
    r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|\+\d\d:\d\d)?|\b\d{1,2}:\d\d(:\d\d)?\b"
    r"|[0-9a-f]{8}-[0-9a-f-]{27}|\b[0-9a-f]{32,}\b|127\.0\.0\.1:\d+|cursor=[^&\">]+"
    r"|\b\d+(\.\d+)? (ms|s|seconds?|minutes?)\b|/tmp/\w+|_jobauto_session_\d+"
)

Surfaces = dict[str, Any]


def record() -> Surfaces:
    """Record everything, over a facade with a ledger of its own."""
    with tempfile.TemporaryDirectory() as folder:
        settings = Settings(
            home=Path(folder),
            url=f"http://127.0.0.1:{free_port()}",
            prefect_api_url=f"http://127.0.0.1:{free_port()}/api",  # where nobody answers
        )
        for words in (("secrets", "init"), ("db", "upgrade")):
            argv = [sys.executable, "-m", "jobauto_prefect.cli", *words]
            environment = os.environ | {"JOBAUTO_HOME": folder}
            subprocess.run(argv, env=environment, check=True, capture_output=True)
        ledger = open_ledger(settings)
        seen: Surfaces = {}
        with facade(settings, ledger) as url, client(url, user_token(ledger)) as rest:
            rest.base_url = httpx.URL(f"{url}{CONTRACT}")
            make_records(rest, ledger)
            rest.base_url = httpx.URL(url)
            document = rest.get(f"{CONTRACT}/openapi.json").json()
            seen["document"] = document
            for method, path, body in requests(document):
                answer = rest.request(method, path, json=body)
                seen[f"{method} {path} {json.dumps(body)}"] = told(answer)
            seen |= pages(url, ledger)
        ledger.close()
    return seen | helps()


def requests(document: Any) -> Iterator[tuple[str, str, Any]]:
    """Yield what is asked of the contract: method, path and body."""
    for path, operations in document["paths"].items():
        bare = path.replace(".{suffix}", "")
        places = [re.sub(r"\{\w+\}", key, bare) for key in (KEYS if "{" in bare else ("",))]
        if "get" in operations:
            for place, suffix in itertools.product(places, SUFFIXES):
                yield "GET", f"{CONTRACT}{place}{suffix}", None
                yield "GET", f"{DIALECT}{place}{suffix}", None
            yield from (("GET", f"{CONTRACT}{places[0]}.json{query}", None) for query in QUERIES)
        if "post" in operations and "log" not in path:
            yield from (("POST", f"{CONTRACT}{places[-1]}", body) for body in BODIES)
            yield from (("POST", f"{DIALECT}{places[-1]}", body) for body in BODIES[:2])
    for name, text in FILES:
        body = {"files": [{"name": name, "text": text}]}
        yield "POST", f"{CONTRACT}/apply.json", body


def pages(url: str, ledger: Ledger) -> Surfaces:
    """Return the console's pages, found by their links."""
    seen: Surfaces = {}
    for login, role, company in PEOPLE:
        browser = sign_in(url, ledger, login, role, company)
        for language in ("en", "cs"):
            browser.headers["accept-language"] = language
            waiting, met = deque(["/console/"]), {"/console/"}
            while waiting and len(met) <= MOST_PAGES:
                path = waiting.popleft()
                answer = browser.get(path)
                seen[f"{login} {language} {path}"] = told(answer)
                for link in re.findall(r'<a [^>]*href="([^"]+)"', answer.text):
                    found = urlsplit(urljoin(path, link.replace("&amp;", "&")))
                    if (
                        found.path.startswith("/console")
                        and found.path not in met
                        and not found.netloc
                    ):
                        met.add(found.path)
                        waiting.append(found.path)
    return seen


def helps() -> Surfaces:
    """Return the help of every command."""
    seen: Surfaces = {}
    runner = CliRunner(env={"COLUMNS": "100", "TERM": "dumb"})
    waiting: list[tuple[list[str], Any]] = [([], get_command(command_line))]
    while waiting:
        words, command = waiting.pop()
        seen[" ".join(["jobauto", *words, "--help"])] = runner.invoke(
            command_line, [*words, "--help"]
        ).output
        below = getattr(command, "commands", {})
        waiting += [([*words, word], each) for word, each in below.items()]
    return seen


def told(answer: httpx.Response) -> list[Any]:
    """Return what is compared of an answer."""
    headers = {
        name: VARYING.sub("@", answer.headers[name]) for name in HEADERS if name in answer.headers
    }
    return [answer.status_code, headers, VARYING.sub("@", answer.text)]


def compare(before: Surfaces, after: Surfaces) -> int:
    """Print what differs; return how much that is."""
    differing = [name for name in sorted({*before, *after}) if before.get(name) != after.get(name)]
    for name in differing:
        print(f"== {name}")
        old, new = (
            json.dumps(each.get(name), indent=1, ensure_ascii=False)
            .replace("\\n", "\n")
            .splitlines()
            for each in (before, after)
        )
        lines = difflib.unified_diff(old, new, lineterm="", n=0)
        print("\n".join(itertools.islice(lines, 2, 40)))
    print(f"{len(before)} before, {len(after)} after, {len(differing)} differ")
    return len(differing)


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["record", target]:
            Path(target).write_text(
                json.dumps(record(), indent=1, ensure_ascii=False, sort_keys=True)
            )
        case ["compare", old, new]:
            sys.exit(compare(*(json.loads(Path(each).read_text()) for each in (old, new))) > 0)
        case _:
            sys.exit(__doc__)
