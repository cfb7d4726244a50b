"""What answers look like, in every format."""

import base64
import csv
import hashlib
import io
import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import yaml
from defusedxml.ElementTree import fromstring
from hypothesis import given, settings
from hypothesis import strategies as st

from jobauto_prefect.errors import NotAcceptable
from jobauto_prefect.facade.formats import (
    FORMATS,
    ListFilter,
    PageLink,
    View,
    negotiate,
    negotiate_error,
    render,
    stream_json,
)
from jobauto_prefect.facade.formats.html.page import CONTENT_SECURITY_POLICY
from jobauto_prefect.kinds import KINDS
from tests.support.definitions import PROBE

BROWSER = "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,*/*;q=0.8"
SCRIPT = "<script>alert(1)</script>"
PIXEL = "data:image/png;base64,iVBORw0KGgo="
JOB: dict[str, Any] = {
    "id": 12,
    "app_id": 3,
    "runtemplate_id": 5,
    "task_id": None,
    "launched_by": 1,
    "state": "failed",
    "severity": "critical",
    "exitcode": -9,
    "begin": "2026-11-21T09:46:24+00:00",
    "end": "2026-11-21T09:48:31.5+00:00",
    "env": {"GREETING": "dobrý den"},
    "stdout": "one\ntwo\n",
    "artifacts": [{"id": 7, "name": "Report", "path": "report.html"}],
    "prefect_url": "http://localhost:4200/runs/flow-run/6a2c",
}


def one(data: Any, item: str = "job", **more: Any) -> View:
    return View("A record", item, data, path=f"/api/v1/{item}/12", **more)


def many(*records: dict[str, Any], item: str = "job", **more: Any) -> View:
    keyed = {str(record["id"]): record for record in records}
    collection = KINDS[item].collection
    return View("Records", item, keyed, is_list=True, path=f"/api/v1/{collection}", **more)


def text(format_name: str, view: View) -> str:
    return render(format_name, view)[0].decode()


class Page(HTMLParser):
    """A page as a browser reads it: its elements, and its text."""

    VOID = frozenset({"meta", "link", "input", "img"})

    def __init__(self, view: View) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.texts: list[str] = []
        self.open: list[str] = []
        self.style = ""
        self.source = text("html", view)
        self.feed(self.source)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "style":
            self.style += data
        else:
            self.texts.append(data)

    @property
    def text(self) -> str:
        return " ".join("".join(self.texts).split())

    def all(self, tag: str) -> list[dict[str, str]]:
        return [attributes for name, attributes in self.elements if name == tag]

    @property
    def links(self) -> set[str]:
        return {attributes["href"] for attributes in self.all("a")}


def assert_harmless(page: Page) -> None:
    """Nothing runs, nothing is fetched, nothing is styled past the policy."""
    tags = {tag for tag, _ in page.elements}
    assert not tags & {"script", "iframe", "object", "embed", "base"}
    for tag, attributes in page.elements:
        assert not any(name.startswith("on") or name in {"style", "srcdoc"} for name in attributes)
        if "src" in attributes:
            assert attributes["src"].startswith("data:image/")
        if tag == "a":
            assert re.match(r"/(?!/)|https?://|#", attributes["href"])


# Which format.


@pytest.mark.parametrize("suffix", ["json", "yaml", "xml", "html", "csv"])
def test_the_suffix_wins_over_the_accept_header(suffix: str) -> None:
    assert negotiate(suffix, "image/png", is_list=True) == suffix


@pytest.mark.parametrize(
    ("accept", "expected"),
    [
        (None, "json"),
        ("", "json"),
        ("*/*", "json"),
        (BROWSER, "html"),
        ("application/json", "json"),
        ("application/xml", "xml"),
        ("text/xml; charset=utf-8", "xml"),
        ("text/yaml", "yaml"),
        ("application/x-yaml;q=0.2", "yaml"),
        ("text/csv", "csv"),
        ("text/html;q=0.4, application/xml;q=0.6", "xml"),
        ("text/html;q=0.4, */*;q=0.1", "html"),
        ("application/json;q=0, */*", "yaml"),
        ("text/*", "html"),
        ("TEXT/HTML", "html"),
        ("application/xml;q=nonsense, text/html;q=0.1", "html"),
        ("complete nonsense", "json"),
        ("application/json, text/html", "json"),
    ],
)
def test_without_a_suffix_the_accept_header_decides(accept: str | None, expected: str) -> None:
    assert negotiate(None, accept, is_list=True) == expected


@pytest.mark.parametrize(
    ("suffix", "accept", "is_list"),
    [
        ("pdf", None, True),
        ("csv", None, False),
        ("JSON", None, True),
        ("", None, True),
        (None, "image/png", True),
        (None, "text/csv", False),
        (None, "*/*;q=0", True),
    ],
)
def test_a_format_that_is_not_spoken_is_refused_with_those_that_are(
    suffix: str | None, accept: str | None, is_list: bool
) -> None:
    with pytest.raises(NotAcceptable) as caught:
        negotiate(suffix, accept, is_list=is_list)
    spoken = ["json", "yaml", "xml", "html", "csv"][: 5 if is_list else 4]
    assert list(caught.value.formats) == spoken
    assert ", ".join(spoken) in str(caught.value)


@pytest.mark.parametrize(
    ("suffix", "accept", "expected"),
    [
        ("xml", BROWSER, "xml"),
        ("csv", BROWSER, "html"),
        ("pdf", "image/png", "json"),
        (None, "text/yaml", "yaml"),
        (None, None, "json"),
    ],
)
def test_an_error_always_finds_a_format(
    suffix: str | None, accept: str | None, expected: str
) -> None:
    assert negotiate_error(suffix, accept) == expected


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_says_its_media_type(name: str) -> None:
    _, content_type = render(name, many(JOB))
    assert content_type.partition(";")[0] == FORMATS[name].media_type
    assert ("charset=utf-8" in content_type) == (name not in {"json", "yaml"})


# JSON and YAML.


def test_json_keeps_letters_as_they_are() -> None:
    assert '"dobrý den"' in text("json", one(JOB))
    assert json.loads(text("json", one(JOB))) == JOB


@pytest.mark.parametrize("nothing", [{}, []])
def test_a_list_without_records_is_an_empty_object(nothing: object) -> None:
    view = View("Jobs", "job", nothing, is_list=True, path="/api/v1/jobs")
    assert text("json", view) == "{}"
    assert text("yaml", view) == "{}\n"
    assert fromstring(text("xml", view)).tag == "jobs"
    assert text("csv", view) == "id\r\n"
    assert "nothing here yet" in text("html", view)


def test_half_a_surrogate_pair_is_escaped_in_json() -> None:
    assert render("json", one({"name": "\ud800"}))[0] == b'{"name":"\\ud800"}'


def test_a_streamed_list_is_the_same_as_a_whole_one() -> None:
    records = [{**JOB, "id": number, "note": "x" * 500} for number in range(400)]
    pieces = list(stream_json(records))
    assert len(pieces) > 2
    assert b"".join(pieces) == render("json", many(*records))[0]
    assert b"".join(stream_json([])) == b"{}"


def test_yaml_keeps_order_letters_and_empty_maps() -> None:
    view = one({"z": "dobrý den", "a": {}, "m": [{"k": {}}], "time": JOB["begin"]})
    lines = text("yaml", view).splitlines()
    assert lines[:2] == ["z: dobrý den", "a: {}"]
    assert yaml.safe_load(text("yaml", view)) == view.data


# XML.


def test_xml_repeats_numeric_keys_as_elements_of_their_kind() -> None:
    root = fromstring(text("xml", many(JOB, {"id": 13})))
    assert (root.tag, [child.tag for child in root]) == ("jobs", ["job", "job"])
    assert [child.get("id") for child in root] == ["12", "13"]
    definition = fromstring(text("xml", one(PROBE, "app")))
    codes = definition.findall("exitCodes/exitCode")
    assert {code.get("key"): code.findtext("severity") for code in codes}["5"] == "critical"


def test_xml_keeps_keys_that_can_not_name_an_element() -> None:
    keys = ["$schema", "a b", "1FOO", "xmlns", "a:b", "žluť", "", "-", "\x00", "ok"]
    root = fromstring(text("xml", one({"env": dict.fromkeys(keys, "v")})))
    found = [child.get("key", child.tag) for child in root.find("env")]
    assert found == [*keys[:-2], "\ufffd", "ok"]


def test_xml_tells_null_from_empty_and_keeps_line_ends() -> None:
    record = {"a": None, "b": "", "c": {}, "d": True, "e": "one\r\ntwo\x01", "tags": ["x", "y"]}
    root = fromstring(text("xml", one(record)))
    assert root.find("a").get("nil") == "true"
    assert root.find("b").attrib == {}
    assert len(root.find("c")) == 0
    assert root.findtext("d") == "true"
    assert root.findtext("e") == "one\r\ntwo\ufffd"
    assert [tag.text for tag in root.findall("tags/tag")] == ["x", "y"]


def test_xml_names_what_is_no_record_after_its_path() -> None:
    status = View("Status", "", {"version": "1"}, path="/api/v1/status")
    assert fromstring(text("xml", status)).tag == "status"
    error = View("Not Found", "", {"error": "Not Found"}, path="/api/v1/job/99")
    assert fromstring(text("xml", error)).tag == "error"
    members = View("Members", "", {"1": {"role": "admin"}}, True, path="/api/v1/company/2/users")
    assert fromstring(text("xml", members)).tag == "users"


# CSV.


def read_csv(view: View) -> list[list[str]]:
    return list(csv.reader(io.StringIO(text("csv", view), newline="")))


def test_csv_has_the_columns_asked_for_and_nested_values_as_json() -> None:
    view = many(JOB, columns=("id", "env", "task_id", "state"))
    assert read_csv(view) == [
        ["id", "env", "task_id", "state"],
        ["12", '{"GREETING": "dobrý den"}', "", "failed"],
    ]


def test_csv_has_all_scalar_fields_where_no_columns_are_asked_for() -> None:
    head, *rows = read_csv(many({"id": 1, "a": True, "b": {}}, {"id": 2, "b": None, "c": "x"}))
    assert head == ["id", "a", "c"]
    assert rows == [["1", "true", ""], ["2", "", "x"]]


@pytest.mark.parametrize("begin", ["=", "+", "-", "@", "\t", "\r"])
def test_csv_text_is_never_a_formula(begin: str) -> None:
    rows = read_csv(many({"id": 1, "name": f"{begin}1+1", "exitcode": -9}))
    assert rows[1] == ["1", f"'{begin}1+1", "-9"]


# Pages.


def test_the_policy_admits_the_page_s_own_style_and_nothing_else() -> None:
    page = Page(one(JOB))
    digest = base64.b64encode(hashlib.sha256(page.style.encode()).digest()).decode()
    assert f"style-src 'sha256-{digest}'" in CONTENT_SECURITY_POLICY
    assert CONTENT_SECURITY_POLICY.startswith("default-src 'none';")
    assert "url(" not in page.style
    assert "@import" not in page.style
    assert_harmless(page)


@pytest.mark.parametrize("kind", KINDS.values(), ids=lambda kind: kind.item)
def test_a_script_in_any_field_of_any_kind_stays_text(kind: Any) -> None:
    record = dict.fromkeys([*kind.columns, "title", "description", "logo", "stdout"], SCRIPT)
    record |= {SCRIPT: SCRIPT, "env": {SCRIPT: [SCRIPT]}, "changes": {SCRIPT: [SCRIPT, {}]}}
    record |= {"id": 1, "environment": {SCRIPT: {SCRIPT: SCRIPT}}}
    names = {other: {"1": SCRIPT} for other in KINDS}
    about = {"item": kind.item, "names": names, "user": SCRIPT, "query": {SCRIPT: SCRIPT}}
    for view in (
        replace(one(record, **about), title=SCRIPT),
        many(record, filters=(ListFilter(SCRIPT, SCRIPT, (SCRIPT,), "choice"),), **about),
        many({**record, "app_id": 1, "name": {"en": SCRIPT}}, columns=tuple(record), **about),
    ):
        page = Page(view)
        assert_harmless(page)
        assert SCRIPT in page.text
        assert "<script" not in page.source


HIDDEN = "\u202e\u2066\u200b\u2028\u2029\xad\ufeff\U000e0041\x7f\x9f\x01"
CODES = "".join(re.findall(r"\\[xuU][0-9a-f]+", ascii(HIDDEN)))


def test_pages_show_hidden_characters_as_codes_and_forms_and_other_formats_keep_them() -> None:
    joined = "\u0645\u06cc\u200c\u062e \U0001f469\u200d\U0001f467"
    written = f'a{HIDDEN} value="{HIDDEN}" <textarea>{HIDDEN} {joined}'
    record = {**JOB, "note": written, "env": {HIDDEN: written}, "stdout": f"one\n{written}\n"}
    app, asked = {"id": 1, "name": written}, {"note": written}
    filters = (ListFilter("note", "Note", "text"),)
    for view in (
        one(record),
        many(app, item="app", query=asked, filters=filters),
        View("Error", "", {"error": "Bad Request", "message": written, "details": [written]}),
    ):
        page = text("html", view)
        assert CODES in page
        assert joined in page
        shown = re.sub(r'<input type="text" name="note" value="[^"]*">', "", page)
        assert not set(HIDDEN) & set(shown)
        assert (HIDDEN in page) == bool(view.filters)
    assert json.loads(text("json", one(record)))["note"] == written


def test_errors_are_pages_that_escape_what_they_repeat() -> None:
    faults = [{"pointer": SCRIPT, "message": SCRIPT, "line": 3}, SCRIPT]
    error = {"error": "Bad Request", "message": SCRIPT, "details": faults, "request_id": "9f1c"}
    page = Page(View("Bad Request", "", error, path=f"/{SCRIPT}"))
    assert_harmless(page)
    assert page.text.count(SCRIPT) == 4
    assert "line 3" in page.text
    assert "9f1c" in page.text
    formats = {"error": "Not Acceptable", "details": {"formats": ["json", "yaml"]}}
    assert re.search("formats *json *yaml", Page(View("Not Acceptable", "", formats)).text)
    assert "Bad Request" in Page(View("", "", {"error": "Bad Request"})).text


@pytest.mark.parametrize("path", ["//evil.example/jobs", "/\\evil.example", '/"><b>', "jobs"])
def test_a_path_can_not_lead_links_elsewhere(path: str) -> None:
    page = Page(replace(many(JOB), path=path, next_query={"cursor": "x"}))
    assert_harmless(page)
    assert all(urlsplit(link).hostname in {None, "localhost"} for link in page.links)


def test_references_lead_to_the_records_they_name() -> None:
    names = {"app": {"3": "Invoice import"}}
    page = Page(one(JOB, names=names, base="/api"))
    assert {"/api/app/3.html", "/api/runtemplate/5.html", "/api/user/1.html"} <= page.links
    assert "/api/artifact/7" in page.links
    assert "/api/job/12/output.txt" in page.links
    assert JOB["prefect_url"] in page.links
    assert "Invoice import" in page.text


@pytest.mark.parametrize(
    ("member", "href"),
    [
        ("company_id", "/api/v1/company/9.html"),
        ("credential_type_id", "/api/v1/credential_type/9.html"),
        ("fulfilled_by_job_id", "/api/v1/job/9.html"),
        ("event_source_id", "/api/v1/eventsource/9.html"),
        ("runtemplate_source_id", "/api/v1/runtemplate/9.html"),
        ("topic_id", "/api/v1/topic/9.html"),
    ],
)
def test_every_field_that_holds_an_id_is_a_link(member: str, href: str) -> None:
    assert href in Page(one({member: 9}, "task")).links
    assert href in Page(one({member: "9"}, "task")).links
    assert not any("evil" in link for link in Page(one({member: "../evil"}, "task")).links)


def test_an_audit_entry_leads_to_what_it_is_about_and_shows_before_and_after() -> None:
    entry = {"id": 1, "entity_type": "CredentialType", "entity_id": 4, "action": "update"}
    page = Page(one({**entry, "changes": {"name": ["Old", "New"]}}, "auditlog"))
    assert "/api/v1/credential_type/4.html" in page.links
    assert re.search("Field *Before *After *name *Old *New", page.text)


def test_a_list_links_its_records_the_other_formats_and_all_collections() -> None:
    page = Page(many(JOB, query={"state": "failed"}))
    assert "/api/v1/job/12.html" in page.links
    assert {f"/api/v1/jobs.{name}?state=failed" for name in ("json", "csv")} <= page.links
    collections = {f"/api/v1/{kind.collection}.html" for kind in KINDS.values()}
    assert collections | {"/api/v1/status.html", "/api/v1/index.html"} <= page.links
    assert "/api/v1/job/12.csv" not in Page(one(JOB)).links


def test_pages_are_turned_by_links_that_keep_the_filters() -> None:
    view = many(
        JOB,
        query={"state": "failed", "cursor": "now"},
        total=250,
        first_query={"state": "failed"},
        next_query={"state": "failed", "cursor": "a b&c"},
    )
    page = Page(view)
    assert {"/api/v1/jobs.html?state=failed"} < page.links
    assert "/api/v1/jobs.html?state=failed&cursor=a+b%26c" in page.links
    assert "1 of 250 jobs" in page.text
    assert "Next page" not in Page(replace(view, next_query=None)).text


def test_heads_of_columns_order_the_list_and_begin_it_anew() -> None:
    query = {"state": "failed", "order": "begin", "cursor": "x"}
    page = Page(many(JOB, query=query, orders=("begin", "id")))
    orders = [parse_qs(urlsplit(link).query).get("order") for link in page.links]
    assert ["-begin"] in orders
    assert ["id"] in orders
    ordering = [link for link in page.links if "order=-begin" in link and ".html" in link]
    assert ordering == ["/api/v1/jobs.html?state=failed&order=-begin"]
    assert {"scope": "col", "aria-sort": "ascending"} in page.all("th")


def test_filters_show_what_is_asked_for_and_keep_the_order() -> None:
    filters = (
        ListFilter("state", "State", ("failed", "fulfilled_late"), "choice"),
        ListFilter("from", "From", kind="time"),
        ListFilter("user_id", "User", kind="number"),
    )
    query = {"state": "failed", "from": "2026-11-21 10:46:24+01:00", "order": "-id", "offset": "5"}
    page = Page(many(JOB, filters=filters, query=query))
    assert {"value": "failed", "selected": ""} in page.all("option")
    values = {field["name"]: field["value"] for field in page.all("input")}
    assert values == {"order": "-id", "from": "2026-11-21T09:46:24", "user_id": ""}
    assert page.all("form")[0] | {"class": ""} == {
        "class": "",
        "method": "get",
        "action": "/api/v1/jobs.html",
    }
    assert "/api/v1/jobs.html?order=-id" in page.links


def test_times_are_readable_and_exact() -> None:
    page = Page(one(JOB))
    assert "21 Nov 2026, 09:46:24 UTC" in page.text
    assert "after 2 min 7 s" in page.text
    assert {"datetime": JOB["end"], "title": JOB["end"]} in page.all("time")
    assert "10:00:00 +02:00" in Page(one({"at": "2026-07-01T10:00:00+02:00"})).text


def test_states_and_severities_have_their_colour() -> None:
    badges = [span.get("class") for span in Page(one(JOB)).all("span")]
    assert {"badge bad", "badge worst"} <= set(badges)


@pytest.mark.parametrize(
    ("logo", "is_shown"),
    [
        (PIXEL, True),
        (PIXEL.replace("png", "webp"), True),
        (PIXEL.replace("png", "svg+xml"), False),
        ("https://example.com/logo.png", False),
        ("data:text/html;base64,AAAA", False),
        (f'{PIXEL}" onerror="alert(1)', False),
    ],
)
def test_only_embedded_pictures_are_shown(logo: str, is_shown: bool) -> None:
    page = Page(one({"id": 1, "logo": logo}, "company"))
    assert [picture["src"] for picture in page.all("img")] == ([logo] if is_shown else [])
    assert_harmless(page)


@pytest.mark.parametrize(
    "address",
    [
        "javascript:alert(1)",
        "data:text/html,x",
        "//evil.example",
        "http://",
        "https://a b",
        "ftp://x",
    ],
)
def test_only_web_addresses_are_links(address: str) -> None:
    record = {"id": 1, "homepage": address, "prefect_url": address}
    page = Page(one(record, "app", related=(PageLink("Elsewhere", address),)))
    assert address not in page.links
    assert_harmless(page)


def test_output_keeps_its_lines_and_long_texts_are_folded() -> None:
    page = Page(one({**JOB, "stdout": "\n one\n  two", "message": "long " * 200}))
    assert "\n one\n  two" in "".join(page.texts)
    assert len(page.all("details")) == 1


def test_texts_in_several_languages_show_all_of_them_and_english_in_lists() -> None:
    record = {**PROBE, "id": 1}
    assert {"lang": "cs"} in Page(one(record, "app")).all("li")
    listed = Page(many(record, item="app")).text
    assert "Probe" in listed
    assert "Sonda" not in listed


def test_the_index_links_what_can_be_read_without_an_id() -> None:
    paths = ["/jobs.{suffix}", "/job/{job_id}.{suffix}", "/status"]
    index = {"index": [{"path": path, "methods": ["GET"]} for path in paths]}
    index["index"].append({"path": "/app/", "methods": ["POST"]})
    page = Page(View("Index", "", index, path="/api/v1/index"))
    inside = [link for link in page.links if "{" in link or link == "/api/v1/app/.html"]
    assert inside == []
    assert {"/api/v1/jobs.html", "/api/v1/status.html"} <= page.links


# Every record.

any_text = st.text(st.characters(exclude_categories=()), max_size=30)
names = st.one_of(
    any_text,
    st.sampled_from(
        [
            "id", "name", "state", "enabled", "app_id", "prefect_url", "stdout", "logo", "color",
            "env", "artifacts", "jobs", "changes", "description", "begin", "end", "entity_id",
            "path", "methods", "homepage", "command", "xml", "error",
        ]
    ),
)  # fmt: skip
scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(10**12), 10**12),
    st.floats(allow_nan=False, allow_infinity=False),
    any_text,
    st.sampled_from([SCRIPT, PIXEL, "https://example.com/x", "http://[", "=1", "failed", "12"]),
    st.sampled_from(["2026-11-21T09:46:24Z", "9999-99-99T99:99:99Z", "0001-01-01T00:00:00+14:00"]),
)
values = st.recursive(
    scalars,
    lambda below: st.lists(below, max_size=4) | st.dictionaries(names, below, max_size=4),
    max_leaves=12,
)
records = st.dictionaries(names, values, max_size=8)


def carried(value: Any) -> Any:
    """The value in text that UTF-8 can carry."""
    return json.loads(json.dumps(value, ensure_ascii=False).encode("utf-8", "replace"))


@settings(max_examples=150, deadline=None)
@given(records, st.sampled_from(["", *KINDS]))
def test_every_record_has_every_form(record: dict[str, Any], item: str) -> None:
    view = one(record, item)
    assert json.loads(render("json", view)[0]) == record
    assert yaml.safe_load(text("yaml", view)) == carried(record)
    root = fromstring(render("xml", view)[0])
    assert len(root) == len(carried(record))
    assert_harmless(Page(view))


@settings(max_examples=100, deadline=None)
@given(st.lists(records, max_size=4), st.sampled_from(["", *KINDS]))
def test_every_list_has_every_form(found: list[dict[str, Any]], item: str) -> None:
    keyed = {str(number): record for number, record in enumerate(found)}
    view = View("Records", item, keyed, is_list=True, path="/api/v1/records")
    assert json.loads(render("json", view)[0]) == keyed
    assert yaml.safe_load(text("yaml", view)) == carried(keyed)
    assert [child.get("id") for child in fromstring(render("xml", view)[0])] == list(keyed)
    assert len(read_csv(view)) == len(found) + 1
    assert_harmless(Page(view))


def test_what_is_nested_to_the_limit_of_definitions_still_has_every_form() -> None:
    deep: Any = "bottom"
    for _ in range(70):
        deep = {"level": [deep]}
    for name in FORMATS:
        assert "bottom" in text(name, many({"id": 1, "deep": deep}, columns=("id", "deep"))) or (
            name == "html"
        )
        assert "bottom" in text(name, one({"id": 1, "deep": deep})) or name in {"csv", "html"}
