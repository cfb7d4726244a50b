"""One trace from a request through all parts to the job's process, at a receiver of OTLP."""

from collections.abc import Mapping
from dataclasses import dataclass

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.support.secrets import SECRET
from tests.support.service import Watched
from tests.support.waits import eventually
from tests.support.webhook_receiver import Receiver

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
CALLER = "00f067aa0ba902b7"


@dataclass(frozen=True, slots=True)
class Span:
    """A span as it came."""

    name: str
    id: str
    parent: str
    part: str
    attributes: Mapping[str, str]


def spans_of(received: Receiver, trace_id: str) -> list[Span]:
    """All spans of a trace that came."""
    found = []
    for request in received.received:
        assert request.path == "/v1/traces"
        for resource in ExportTraceServiceRequest.FromString(request.content).resource_spans:
            named = {one.key: one.value.string_value for one in resource.resource.attributes}
            for span in (span for scope in resource.scope_spans for span in scope.spans):
                if span.trace_id.hex() == trace_id:
                    attributes = {one.key: str(one.value) for one in span.attributes}
                    ids = (span.span_id.hex(), span.parent_span_id.hex())
                    found.append(Span(span.name, *ids, named["service.name"], attributes))
    return found


def test_a_request_its_run_its_process_its_report_and_what_follows_are_one_trace(
    watched: Watched,
) -> None:
    service, received = watched.service, watched.spans
    templates = service.rest().get("/api/v1/runtemplates.json").json().values()
    say = next(one for one in templates if one["name"] == "Say")
    answer = service.rest().post(
        "/api/v1/job/",
        json={"runtemplate_id": say["id"], "env": {"PASSWORD": SECRET}},
        headers={"traceparent": f"00-{TRACE}-{CALLER}-01"},
    )
    job = service.job_in(answer.json()["id"], "succeeded")
    wanted = {"POST /job/", "create flow run", "claim", "job", "report"}

    def complete() -> list[Span]:
        spans = spans_of(received, TRACE)
        names = [span.name for span in spans]
        return spans if all(names.count(name) >= 1 for name in wanted) and "report" in names else []

    spans = eventually(complete, 60)
    by_name = {span.name: span for span in reversed(spans)}
    request = by_name["POST /job/"]
    mine = {
        span.name: span
        for span in spans
        if f"int_value: {job['id']}\n" in span.attributes.get("jobauto.job_id", "")
    }
    assert request.parent == CALLER
    assert {mine[name].parent for name in ("create flow run", "claim", "job")} == {request.id}
    assert mine["report"].parent == mine["job"].id
    assert {span.name: span.part for span in spans if span.name in ("job", "report")} == {
        "job": "jobauto-worker",
        "report": "jobauto-facade",
    }
    assert job["stdout"].strip() == f"00-{TRACE}-{mine['job'].id}-01"
    follower = eventually(
        lambda: [
            one for one in spans_of(received, TRACE) if one.name == "job" and one != mine["job"]
        ],
        60,
    )
    assert follower[0].parent == request.id
    assert SECRET not in str([span.attributes for span in spans])
    lines = (service.home / "logs" / "worker.log").read_text() + service.logs()
    assert TRACE in lines


def test_a_job_that_somebody_starts_without_a_trace_begins_one(
    watched: Watched,
) -> None:
    service, received = watched.service, watched.spans
    job = service.json("run", "acme/Say", "--wait")
    _, trace_id, span_id, _ = job["stdout"].strip().split("-")

    def shown() -> list[Span]:
        spans = spans_of(received, trace_id)
        return spans if {"job", "report"} <= {span.name for span in spans} else []

    spans = eventually(shown, 60)
    ids = {span.id for span in spans}
    assert span_id in ids
    assert len([span for span in spans if span.parent not in ids]) == 1  # the root
