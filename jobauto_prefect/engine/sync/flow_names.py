"""The name of an application's flow: its own, or with a part of its UUID where another has that.

An application keeps the name its flow got, for another name would be another flow. Names are
reserved in the ledger before Prefect hears of them: two applications that are applied at the same
time must not end up in one flow.
"""

from jobauto_prefect.compiler.deployments import flow_name
from jobauto_prefect.errors import Locked
from jobauto_prefect.ledger.audit.trail import SERVICE
from jobauto_prefect.ledger.queries.applications import (
    flow_names_of_others,
    is_flow_leaving,
    lock_applications,
)
from jobauto_prefect.ledger.records import App
from jobauto_prefect.ledger.store import Ledger, ReadingSession


def name_is_shared(session: ReadingSession, app: App, language: str) -> bool:
    """Whether the flow needs more than the application's name."""
    own, longer = _names(app, language)
    if app.flow_name in (own, longer):
        return app.flow_name == longer
    return own in flow_names_of_others(session, app)


def has_name(app: App, language: str) -> bool:
    """Whether the flow of an application has its name."""
    return app.flow_name in _names(app, language)


def reserve_name(ledger: Ledger, app_id: int, language: str) -> None:
    """Give the flow of an application its name, unless it has one already.

    Raises:
        Locked: the flow of that name is being deleted with its former application; found by its
            name now, it would be gone a moment later.
    """
    with ledger.reading() as session:
        if has_name(session.get_one(App, app_id), language):
            return
    with ledger.writing(SERVICE) as session:
        lock_applications(session)
        app = session.get_one(App, app_id)
        own, longer = _names(app, language)
        if is_flow_leaving(session, own):
            raise Locked(f"flow {own} is being deleted with its former application")
        app.flow_name = longer if name_is_shared(session, app, language) else own


def _names(app: App, language: str) -> tuple[str, str]:
    definition = app.definition
    own, longer = (flow_name(app.id, definition, language, shared) for shared in (False, True))
    return own, longer
