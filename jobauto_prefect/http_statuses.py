"""Errors and HTTP statuses: what the facade answers, and what its clients make of that again."""

from collections.abc import Mapping

from jobauto_prefect.errors import (
    Conflict,
    Forbidden,
    InvalidInput,
    JobautoError,
    KeyReused,
    NotAcceptable,
    NotFound,
    NotReady,
    PrefectFailed,
    RecordExists,
    TooLarge,
    TooManyRequests,
    Unauthorized,
    Unavailable,
    UnknownEncoding,
)

STATUS: Mapping[type[JobautoError], int] = {
    InvalidInput: 400,
    Unauthorized: 401,
    Forbidden: 403,
    NotFound: 404,
    NotAcceptable: 406,
    KeyReused: 422,
    TooLarge: 413,
    UnknownEncoding: 415,
    TooManyRequests: 429,
    Conflict: 409,
    RecordExists: 412,
    PrefectFailed: 502,
    Unavailable: 503,
    NotReady: 503,
    JobautoError: 500,
}
"""The classes of errors, and the statuses they are answered with."""

BUSY = frozenset({408, 425, 429})
"""Statuses below 500 that say to try again."""

REFUSALS: Mapping[int, type[JobautoError]] = {
    STATUS[kind]: kind for kind in (Unauthorized, Forbidden, NotFound, Conflict)
}
"""What an answer with one of these statuses is raised as."""


def status_of(error: JobautoError) -> int:
    """Return the HTTP status of an error: that of the nearest class in the tree."""
    return next(STATUS[kind] for kind in type(error).__mro__ if kind in STATUS)
