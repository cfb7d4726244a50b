"""Operations of the contract: routes with their documentation and parameters."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from typing import Any, TypeVar
from urllib.parse import quote

from fastapi import APIRouter, Depends, Request, params
from fastapi.dependencies.models import Dependant
from fastapi.dependencies.utils import get_flat_params
from fastapi.routing import APIRoute
from pydantic import BaseModel

from jobauto_prefect.console_addresses import CONTRACT
from jobauto_prefect.definitions.findings import did_you_mean
from jobauto_prefect.errors import Fault, InvalidInput
from jobauto_prefect.facade.auth.request_state import ANSWER_HEADERS
from jobauto_prefect.facade.formats import FORMATS
from jobauto_prefect.facade.http.addresses import address_of
from jobauto_prefect.facade.http.dialect import OWN
from jobauto_prefect.facade.http.errors import PHRASES
from jobauto_prefect.facade.http.late_routes import LateRoute
from jobauto_prefect.facade.http.parameters import (
    FOR_LISTS,
    FOR_RECORDS,
    LIST_SUFFIX,
    SUFFIX,
    Json,
    dependency_on,
    query_names,
)
from jobauto_prefect.facade.http.requests import IGNORED_PARAMETERS, MAX_WARNED, SAFE

SERVICE = "Service"
SIGNING_IN = "Signing in"

OPEN: list[Json] = []
"""`security` of a public operation."""

COMMON_ERRORS = (400, 403, 404, 406, 503)
SIGN_IN_ERRORS = (401, 429)
WRITE_ERRORS = (409, 413, 415)
SCHEMAS = "#/components/schemas/"

PUBLISHED_ON_WRITES = ("limit", "token")
"""Parameters that the published document declares for writes, without effect."""

IGNORED = "X-Jobauto-Ignored"
"""Header that names the query parameters a read in another dialect ignored."""

CONDITIONS = ("If-Match", "If-Unmodified-Since")


async def refuse_conditions(request: Request) -> None:
    """Refuse a change with preconditions that are not supported: ignored, they would overwrite.

    Raises:
        InvalidInput: naming them.
    """
    named = [name for name in CONDITIONS if request.method != "GET" and name in request.headers]
    if named:
        message = (
            "records have no ETag, so this header can't be checked; send the change without it"
        )
        raise InvalidInput([Fault(f"/{name}", "condition", message) for name in named])


async def refuse_unknown_parameters(request: Request) -> None:
    """Refuse query parameters that the route does not declare: a mistyped filter must not widen
    what is changed. Reads in other dialects only name them. What published clients add to any read
    is ignored; on a write, only in their dialect.

    Raises:
        InvalidInput: naming all of them.
    """
    names = list(dict.fromkeys(request.query_params))
    if not names:
        return
    route: Operation = request.scope["route"]
    known_names = route.query_names(request.app.state.dialect_fields)
    reads, is_own = request.method == "GET", address_of(request).dialect is OWN
    passed: Collection[str] = IGNORED_PARAMETERS if reads else ()
    if not reads and not is_own:
        passed = route.passed
    unknown = [name for name in names if name not in known_names and name not in passed]
    if unknown and reads and not is_own:
        shown = ", ".join(quote(name[:64], safe=SAFE) for name in unknown[:MAX_WARNED])
        request.scope["state"][ANSWER_HEADERS] = {IGNORED: shown}
    elif unknown:
        shown = ", ".join(sorted(known_names)) or "none"
        raise InvalidInput(
            [
                Fault(
                    f"/{name}",
                    "unknown",
                    f"no such parameter here{did_you_mean(name, sorted(known_names))}"
                    f"; there are: {shown}",
                )
                for name in unknown
            ]
        )


class Operation(LateRoute):
    """A route of the contract.

    `body` is the request body's model. Its fields, or those that `fields` names, may also be in the
    query; on a write, so may other dialects' names of `item`'s fields. `passed` are parameters it
    ignores in the published dialect. `parameters` are those that the endpoint reads from the
    request itself.
    """

    def __init__(
        self,
        path: str,
        endpoint: Callable[..., Any],
        *,
        body: type[BaseModel] | None = None,
        fields: Callable[[], Iterable[str]] | None = None,
        item: str = "",
        passed: Collection[str] = PUBLISHED_ON_WRITES,
        parameters: Callable[[], Iterable[Any]] = tuple,
        **options: Any,
    ) -> None:
        super().__init__(f"{CONTRACT}{path}", endpoint, **options)
        self.body, self.item, self.passed = body, item, passed
        self._fields = fields or (lambda: body.model_fields if body else ())
        self._parameters = parameters

    def query_names(self, dialect_fields: Mapping[str, Collection[str]]) -> frozenset[str]:
        """Return the names of all permitted query parameters."""
        return self._own_names | frozenset(dialect_fields.get(self.item, ()))

    @cached_property
    def _own_names(self) -> frozenset[str]:
        self.examine()
        judged = get_flat_params(self.dependant)
        names = (each.alias for each in judged if isinstance(each.field_info, params.Query))
        return frozenset((*names, *query_names(self._parameters()), *self._fields()))

    def described(self) -> APIRoute:
        """Return the route for the document: with all parameters, whatever reads them."""
        self.examine()
        dependency = dependency_on((*_keys_of(self.dependant), *self._parameters()))
        return self.examined(dependencies=[*self.dependencies, dependency])


def _keys_of(dependant: Dependant) -> Iterator[Any]:
    """Yield the parameters that dependencies read themselves."""
    for each in dependant.dependencies:
        if (parameter := getattr(each.call, "parameter", None)) is not None:
            yield parameter
        yield from _keys_of(each)


Endpoint = TypeVar("Endpoint", bound=Callable[..., Any])


def operation(
    router: APIRouter,
    asked: str,
    name: str,
    summary: str,
    description: str,
    *,
    tag: str,
    answer: Mapping[int, Json],
    errors: Sequence[int] = (),
    formats: Sequence[str] = FOR_RECORDS,
    twin: str | None = "",
    route_name: str | None = None,
    dependencies: Sequence[params.Depends] = (),
    security: Sequence[Json] | None = None,
    request_body: Json | None = None,
    body_required: bool = True,
    include_in_schema: bool = True,
    **options: Any,
) -> Callable[[Endpoint], Endpoint]:
    """Return a decorator that adds a function as an operation, named so in the document.

    `asked` is its method and its path. `twin` is the path that does the same and is not in the
    document: the one without a suffix, or a last slash, unless it says another; None: there is
    none. `formats` are those of the path's suffix, `errors` further ones than all operations have.
    """
    method, path = asked.split()
    bare = path.removesuffix(".{suffix}").rstrip("/")
    if twin == "":
        twin = bare if bare != path else None
    common = COMMON_ERRORS if security == OPEN else (*COMMON_ERRORS, *SIGN_IN_ERRORS)
    extra: Json = {} if security is None else {"security": security}
    if request_body is None and (body := options.get("body")) is not None:
        request_body = json_body(body.__name__, required=body_required)
    if request_body is not None:
        extra["requestBody"] = request_body

    def add(endpoint: Endpoint) -> Endpoint:
        for each in filter(None, (path, twin)):
            add_route = (
                hidden
                if twin == each or not include_in_schema
                else partial(
                    _add,
                    operation_id=name,
                    tags=[tag],
                    summary=summary,
                    description=description,
                    status_code=next(iter(answer)),
                    responses={**answer, **error_responses(*errors), **error_responses(*common)},
                    openapi_extra=extra,
                )
            )
            add_route(
                router,
                f"{method} {each}",
                formats=formats,
                route_name=route_name,
                dependencies=dependencies,
                **options,
            )(endpoint)
        return endpoint

    return add


def hidden(router: APIRouter, asked: str, **options: Any) -> Callable[[Endpoint], Endpoint]:
    """Return a decorator that adds a route missing from the document."""
    return _add(router, asked, include_in_schema=False, **options)


def _add(
    router: APIRouter,
    asked: str,
    *,
    formats: Sequence[str] = FOR_RECORDS,
    route_name: str | None = None,
    dependencies: Sequence[params.Depends] = (),
    parameters: Callable[[], Iterable[Any]] = tuple,
    include_in_schema: bool = True,
    **options: Any,
) -> Callable[[Endpoint], Endpoint]:
    method, path = asked.split()
    judges = [Depends(refuse_conditions), Depends(refuse_unknown_parameters), *dependencies]
    suffixes = []
    if path.endswith(".{suffix}") and formats:
        suffixes = [LIST_SUFFIX if formats == FOR_LISTS else SUFFIX]

    def add(endpoint: Endpoint) -> Endpoint:
        route = Operation(
            path,
            endpoint,
            methods=[method],
            name=route_name or endpoint.__name__,
            include_in_schema=include_in_schema,
            dependencies=judges,
            parameters=lambda: (*suffixes, *parameters()),
            **options,
        )
        router.routes.append(route)
        return endpoint

    return add


def answered(
    description: str,
    model: Any,
    formats: Iterable[str] = FOR_RECORDS,
    status: int = 200,
    **keywords: Any,
) -> dict[int, Json]:
    """Declare a successful response; only JSON has a schema, which applies to the other formats."""
    content: Json = {FORMATS[name].media_type: {} for name in formats if name != "json"}
    content = {"application/json": {}, **content}
    return {status: {"model": model, "description": description, "content": content, **keywords}}


def keyed(model: Any) -> Any:
    """Return the type of an object of records by their keys."""
    return dict[str, model]


def to_pascal_case(words: str) -> str:
    """Turn `run templates` into `RunTemplates`."""
    return words.title().replace(" ", "")


def error_name(status: int) -> str:
    """Return the name of an error among the components: `NotFound`."""
    return PHRASES[status].replace(" ", "")


def error_responses(*statuses: int) -> dict[int, Json]:
    """Declare errors, which have the same form everywhere."""
    return {
        status: {"$ref": f"#/components/responses/{error_name(status)}"}
        for status in sorted(statuses)
    }


def json_body(schema: str | Json, *, required: bool = True, **other_types: Any) -> Json:
    """Describe a request body that is JSON: by its schema, or its schema's name."""
    described = {"$ref": f"{SCHEMAS}{schema}"} if isinstance(schema, str) else schema
    return {
        "required": required,
        "content": {"application/json": {"schema": described}, **other_types},
    }
