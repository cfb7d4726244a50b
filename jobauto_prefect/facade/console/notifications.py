"""What a page says after a form was sent: addresses name one of these as `?done=`."""

from collections.abc import Mapping

NOTIFICATIONS: Mapping[str, str] = {
    "lost": "It is lost; its jobs are tried again.",
    "paused": "Paused: nothing starts until it is resumed.",
    "reachable": "It answers.",
    "replayed": "It is tried again.",
    "resumed": "Resumed.",
    "revoked": "It counts no more.",
    "saved": "Saved.",
    "started": "The job is on its way.",
    "cancelled": "The job is being cancelled.",
    "excused": "The window is excused.",
    "retried": "One more attempt is on its way.",
}
"""By their key; English, as the catalogs of translations have them."""
