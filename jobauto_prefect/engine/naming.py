"""The name of an application's flow: its own, or with a part of its UUID where another has that.

An application keeps the name its flow got, for another name would be another flow. Names are
reserved in the ledger before Prefect hears of them: two applications that are applied at the same
time must not end up in one flow.
"""

from jobauto_prefect.compiler.planning import flow_name
from jobauto_prefect.definitions import parse
from jobauto_prefect.ledger import queries
from jobauto_prefect.ledger.audit import SERVICE
from jobauto_prefect.ledger.records import App
from jobauto_prefect.ledger.store import Ledger, ReadingSession


def name_is_shared(session: ReadingSession, app: App, language: str) -> bool:
    """Whether the flow needs more than the application's name."""
    own, longer = _names(app, language)
    if app.flow_name in (own, longer):
        return app.flow_name == longer
    return own in queries.flow_names_of_others(session, app)


def reserve_name(ledger: Ledger, app_id: int, language: str) -> None:
    """Give the flow of an application its name, unless it has one already."""
    with ledger.reading() as session:
        app = session.get_one(App, app_id)
        if app.flow_name in _names(app, language):
            return
    with ledger.writing(SERVICE) as session:
        queries.lock_applications(session)
        app = session.get_one(App, app_id)
        own, longer = _names(app, language)
        app.flow_name = longer if name_is_shared(session, app, language) else own


def _names(app: App, language: str) -> tuple[str, str]:
    definition = parse(app.document)
    own, longer = (flow_name(app.id, definition, language, shared) for shared in (False, True))
    return own, longer
