"""Routes are examined when they are first asked for, and all of them can be."""

import httpx
from fastapi import FastAPI

from jobauto_prefect.facade import metrics, worker_api
from jobauto_prefect.facade.http.late_routes import LateRoute, router
from jobauto_prefect.facade.openapi import docs_page
from jobauto_prefect.facade.resources.crud import build_contract_router


async def test_a_request_examines_the_route_it_is_for_and_no_other() -> None:
    made = router()

    @made.get("/{number}")
    def asked(number: int) -> int:
        return number

    @made.post("/{number}")
    def other(number: int) -> int:
        return number

    app = FastAPI()
    app.router.routes.extend(made.routes)
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://facade") as http:
        answer = await http.get("/7")
    assert answer.json() == 7
    examined = {
        route.name: hasattr(route, "dependant")
        for route in made.routes
        if isinstance(route, LateRoute)
    }
    assert examined == {"asked": True, "other": False}


def test_every_route_of_the_facade_is_late_and_can_be_examined() -> None:
    contract = build_contract_router()
    for each in (worker_api.router, metrics.router, docs_page.router, contract):
        for route in each.routes:
            assert isinstance(route, LateRoute)
            path, name, methods = route.path, route.name, route.methods
            route.examine()
            assert (route.path, route.name, route.methods) == (path, name, methods)
            assert route.dependant.call is route.endpoint
