"""The words of the console's pages, in the languages it has."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

DEFAULT_LANGUAGE = "en"


@dataclass(frozen=True, slots=True)
class Texts:
    """All words of the console's pages in one language; `{…}` are filled in.

    `states` are those of jobs and workers; `months` are short names, from January.
    """

    sign_in: str
    sign_in_lead: str
    login: str
    password: str
    wrong: str
    throttled: str

    start: str
    running: str
    waiting: str
    failed: str
    warnings: str
    missed: str
    workers: str
    since: str
    all: str
    frozen: str

    success: str
    success_note: str
    share: str
    no_jobs: str
    numbers: str
    day: str
    succeeded: str

    ended: str
    no_running: str
    no_waiting: str
    no_ended: str
    no_missed: str
    no_workers: str
    job: str
    company: str
    state: str
    reason: str
    window: str
    worker: str
    pool: str
    load: str

    ago: str
    overdue: str
    lasting: str
    in_time: str
    any_moment: str
    exit_code: str
    free_of: str
    states: Mapping[str, str]
    months: Sequence[str]
    date: str


TEXTS: Mapping[str, Texts] = {
    "en": Texts(
        sign_in="Sign in",
        sign_in_lead="Sign in to see what runs, what waits and what failed.",
        login="Login",
        password="Password",  # noqa: S106 - a label
        wrong="Login or password is wrong.",
        throttled="Too many failed attempts. Try again in {time}.",
        start="Start",
        running="Running",
        waiting="Waiting",
        failed="Failed",
        warnings="With a warning",
        missed="Windows missed",
        workers="Workers",
        since="since yesterday",
        all="Show all",
        frozen="Nothing starts at the moment: {reason}",
        success="Success over two weeks",
        success_note="Share of the jobs that ended well, by day ({zone}).",
        share="{share} % of {total} jobs",
        no_jobs="no job ended",
        numbers="The same in numbers",
        day="Day",
        succeeded="Ended well",
        ended="Failed or warned since yesterday",
        no_running="No job is running.",
        no_waiting="No job is waiting.",
        no_ended="Nothing failed and nothing warned. All is well.",
        no_missed="No window was missed since yesterday.",
        no_workers="No worker has reported. Start one: jobauto worker start --pool {pool}",
        job="Job",
        company="Company",
        state="State",
        reason="Why",
        window="Window",
        worker="Worker",
        pool="Work pool",
        load="Load",
        ago="{time} ago",
        overdue="due {time} ago",
        lasting="for {time}",
        in_time="in {time}",
        any_moment="It may start at any moment.",
        exit_code="exit code {code}",
        free_of="{running} of {limit}",
        states={},
        months=["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"],
        date="{day} {month}",
    ),
    "cs": Texts(
        sign_in="Přihlášení",
        sign_in_lead="Po přihlášení uvidíte, co běží, co čeká a co selhalo.",
        login="Přihlašovací jméno",
        password="Heslo",  # noqa: S106 - a label
        wrong="Jméno nebo heslo není správné.",
        throttled="Příliš mnoho neúspěšných pokusů. Zkuste to znovu za {time}.",
        start="Přehled",
        running="Běží",
        waiting="Čeká",
        failed="Selhalo",
        warnings="S varováním",
        missed="Zmeškaná okna",
        workers="Workery",
        since="od včerejška",
        all="Zobrazit vše",
        frozen="Teď se nic nespouští: {reason}",
        success="Úspěšnost za dva týdny",
        success_note="Podíl úloh, které skončily dobře, po dnech ({zone}).",
        share="{share} % z {total} úloh",
        no_jobs="žádná úloha neskončila",
        numbers="Totéž v číslech",
        day="Den",
        succeeded="Skončilo dobře",
        ended="Selhání a varování od včerejška",
        no_running="Žádná úloha neběží.",
        no_waiting="Žádná úloha nečeká.",
        no_ended="Nic neselhalo a nic nevarovalo. Vše je v pořádku.",
        no_missed="Od včerejška nebylo zmeškáno žádné okno.",
        no_workers="Žádný worker se neohlásil. Spusťte ho: jobauto worker start --pool {pool}",
        job="Úloha",
        company="Společnost",
        state="Stav",
        reason="Proč",
        window="Okno",
        worker="Worker",
        pool="Work pool",
        load="Vytížení",
        ago="před {time}",
        overdue="na řadě už {time}",
        lasting="už {time}",
        in_time="za {time}",
        any_moment="Může začít každou chvíli.",
        exit_code="návratový kód {code}",
        free_of="{running} z {limit}",
        states={
            "failed": "selhání",
            "lost": "ztráta",
            "blocked": "blokováno",
            "warning": "varování",
            "working": "pracuje",
            "silent": "mlčí",
            "hindered": "omezeno",
            "frozen": "pozastaveno",
        },
        months=[f"{month}." for month in range(1, 13)],
        date="{day}. {month}",
    ),
}
"""By the code of the language."""


def choose_page_language(languages: Sequence[str]) -> str:
    """Return the first of these languages that the console has; `cs-CZ` is `cs`."""
    codes = (language.partition("-")[0].lower() for language in languages)
    return next((code for code in codes if code in TEXTS), DEFAULT_LANGUAGE)
