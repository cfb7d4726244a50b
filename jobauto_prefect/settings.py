"""Settings: process environment over `database.env` over `jobauto.env`."""

import getpass
import os
import re
import socket
from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Self
from urllib.parse import urlsplit

from pydantic import (
    Field,
    IPvAnyNetwork,
    SecretStr,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic_settings import (
    BaseSettings,
    NoDecode,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
)

from jobauto_prefect.clock import zone_names
from jobauto_prefect.errors import Fault, InvalidInput
from jobauto_prefect.logs import LogFormat
from jobauto_prefect.text_patterns import error_message, matching
from jobauto_prefect.variables import config_files, environment_home

DRIVERS = {
    "sqlite": "sqlite",
    "pgsql": "postgresql+psycopg",
    "postgresql": "postgresql+psycopg",
    "postgres": "postgresql+psycopg",
}
"""Values of DB_CONNECTION, and the SQLAlchemy driver of each."""

RUN_AS_DIRECTORY = Path("/var/lib/jobauto-jobs")
"""Where workers keep the directories of jobs that run as other users."""

COMPANY_ID = "{company_id}"
"""Placeholder for the id of a credential's company in `JOBAUTO_ENV_FILES`."""

NOT_IN_NAMES = str.maketrans(dict.fromkeys("/%", "-"))

MANAGEMENT_PORTS = 20
"""Number of ports, from JOBAUTO_MANAGEMENT_PORT on, for the parts on one host."""

WEB_ADDRESS = r"^https?://[^\s@#/?]+([/?][^\s#]*)?$"
EXPECTED_WEB_ADDRESS = "must be an http or https address, without a user, a password or a fragment"
WebAddress = Annotated[str, matching(WEB_ADDRESS, EXPECTED_WEB_ADDRESS, max_length=2000)]
"""A URL with http or https, without a user, a password or a fragment."""

_REDIS_HOSTS = r"(?:\[[0-9A-Fa-f:.]+\]|[^\s:/?#@,\[\]]+)(?::\d+)?"
REDIS_URL = (
    r"(?:redis|rediss)(\+sentinel)?://(?:[^\s/?#@]*@)?"
    rf"{_REDIS_HOSTS}(?(1)(?:,{_REDIS_HOSTS})*/[^\s/?#@]+)(?:/\d*)?(?:\?[^\s#@]*)?"
)
"""A URL as prefect-redis and docket take it; Sentinel's has several hosts and a master's name."""

Days = Annotated[int, Field(ge=0, le=36500)]
"""Retention in days; 0: forever."""


LONGEST_MAIL_ADDRESS = 254  # RFC 5321
MAIL_ADDRESS = (
    r"^[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+(\.[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+)*"
    r"@[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?(\.[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?)*$"
)
MailAddress = Annotated[
    str,
    matching(
        MAIL_ADDRESS,
        "must be a mail address, such as eva@example.com",
        max_length=LONGEST_MAIL_ADDRESS,
    ),
]
"""An address according to RFC 5322, without quotes, comments and names: no space, no line end."""


class SmtpSecurity(StrEnum):
    """How the connection to a mail server is protected."""

    STARTTLS = "starttls"  #: begins in plain text, encrypted before anything else is sent
    TLS = "tls"  #: encrypted from the start
    NONE = "none"


SMTP_PORTS: Mapping[SmtpSecurity, int] = {
    SmtpSecurity.STARTTLS: 587,
    SmtpSecurity.TLS: 465,
    SmtpSecurity.NONE: 25,
}


class Scheduler(StrEnum):
    """Who creates the flow runs of windows."""

    PREFECT = "prefect"  #: Prefect's scheduler, wherever it reads the schedule alike
    LEDGER = "ledger"  #: the window scheduler
    AUTO = "auto"  #: by the number of scheduled run templates


class Settings(BaseSettings):
    """All settings of the service; `docs/settings.md` documents each.

    The environment variable of a field is `JOBAUTO_` and its name, unless it has an alias.
    """

    model_config = SettingsConfigDict(env_prefix="JOBAUTO_", extra="ignore", populate_by_name=True)

    home: Path = Field(
        default_factory=environment_home, description="Where this service keeps its files."
    )
    database_url: str = Field(
        default="", description="SQLAlchemy URL of the ledger; default: ledger.db in the home."
    )
    database_listen_url: str = Field(
        default="",
        description="PostgreSQL URL of the server itself, if the ledger's URL leads to a pool that "
        "gives each transaction another session (PgBouncer); default: the ledger's URL.",
    )
    database_connections: int = Field(
        default=30, ge=2, le=1000, description="Most connections of a process to PostgreSQL."
    )
    database_connect_seconds: float = Field(
        default=5, gt=0, description="Seconds to wait for PostgreSQL to accept a connection."
    )
    database_answer_seconds: float = Field(
        default=15,
        gt=0,
        description="Seconds to wait for PostgreSQL to answer a statement before its connection is "
        "closed.",
    )
    database_long_seconds: float = Field(
        default=3600,
        gt=0,
        description="Seconds to wait for an answer in migrations, and in `jobauto apply` on this "
        "machine's ledger.",
    )
    database_idle_seconds: float = Field(
        default=60,
        gt=0,
        description="Seconds after which PostgreSQL ends an idle transaction.",
    )
    key_file: Path | None = Field(
        default=None, description="File with the key of the secret values; default: in the home."
    )
    url: str = Field(
        default="http://127.0.0.1:8000",
        description="Address of the REST facade for people; links use it.",
    )
    facade_url: str = Field(
        default="",
        description="Address at which workers and services reach the facade; default: JOBAUTO_URL.",
    )
    prefect_api_url: str = Field(
        default="http://127.0.0.1:4200/api",
        validation_alias="PREFECT_API_URL",
        description="Address of Prefect's API.",
    )
    redis_url: SecretStr | None = Field(
        default=None,
        description="URL of the Redis through which several Prefect servers share their work; "
        "default: none, a single server.",
    )
    prefect_ui_url: str = Field(
        default="",
        description="Address of Prefect's UI; default: derived from the address of the API.",
    )
    api_host: str = Field(default="127.0.0.1", description="Address the facade listens on.")
    api_port: int = Field(default=8000, ge=1, le=65535, description="Port of the facade.")
    prefect_port: int = Field(default=4200, ge=1, le=65535, description="Port of Prefect.")
    log_format: LogFormat = Field(
        default="text",
        description="Log format of the parts: text, or json with one object per line.",
    )
    management_host: str = Field(
        default="127.0.0.1", description="Address the management ports listen on."
    )
    management_port: int | None = Field(
        default=None,
        ge=1,
        le=65535 - MANAGEMENT_PORTS,
        description="First management port, which is the facade's; default: no management ports.",
    )
    pool: str = Field(default="jobauto", description="Work pool of run templates that name none.")
    timezone: str = Field(default="UTC", description="Time zone of schedules that name none.")
    scheduler: Scheduler = Field(
        default=Scheduler.AUTO,
        description="What creates the flow runs of schedules: prefect, or ledger (the window "
        "scheduler). auto means ledger above 1,000 scheduled run templates.",
    )
    language: str = Field(default="en", description="Language of localized texts.")
    lease_seconds: float = Field(
        default=30,
        gt=0,
        le=3600,
        description="Seconds without a sign of life after which a job counts as lost.",
    )
    grace_seconds: float = Field(
        default=30, ge=0, description="Seconds a worker's jobs have to finish at shutdown."
    )
    stop_seconds: float = Field(
        default=5, ge=0, description="Seconds between TERM and KILL when a job is ended."
    )
    timeout_seconds: float = Field(
        default=32767,
        gt=0,
        description="Seconds a job may run if its run template sets no timeout.",
    )
    extra_env: Annotated[tuple[str, ...], NoDecode] = Field(
        default=(),
        description="Comma-separated names of variables that jobs of all applications may get "
        "besides those of their definitions; default: none.",
    )
    company_pools: Annotated[tuple[str, ...], NoDecode] = Field(
        default=(),
        description="Comma-separated work pools that run templates may name besides the default "
        "one; ID=POOL allows a pool only for the company with this id; default: "
        "none, except in run templates that administrators save.",
    )
    helm_charts: Annotated[tuple[str, ...], NoDecode] = Field(
        default=(),
        description="Comma-separated charts that definitions of companies may install; ID=CHART "
        "allows a chart only for the company with this id; default: none, except in definitions "
        "that administrators save.",
    )
    kubernetes_namespaces: Annotated[tuple[str, ...], NoDecode] = Field(
        default=(),
        description="Comma-separated namespaces that definitions of companies may name; "
        "ID=NAMESPACE allows a namespace only for the company with this id; default: none, "
        "except in definitions that administrators save.",
    )
    kubernetes_service_accounts: Annotated[tuple[str, ...], NoDecode] = Field(
        default=(),
        description="Comma-separated service accounts that run templates may name; ID=ACCOUNT "
        "allows an account only for the company with this id; default: none, except in run "
        "templates that administrators save.",
    )
    output_limit_bytes: int = Field(
        default=10 * 1024 * 1024, gt=0, description="Bytes of output to keep of one job."
    )
    artifact_limit_bytes: int = Field(
        default=32 * 1024 * 1024, gt=0, description="Bytes of artifacts to keep of one job."
    )
    keep_jobs_days: Days = Field(default=365, description="Days to keep an ended job; 0: forever.")
    keep_jobs_count: int = Field(
        default=0, ge=0, description="How many ended jobs of a run template to keep; 0: all."
    )
    keep_output_days: Days = Field(
        default=90, description="Days to keep the output and artifacts of an ended job."
    )
    keep_runs_days: Days = Field(
        default=90, description="Days to keep an ended job's flow run and its logs in Prefect."
    )
    keep_tasks_days: Days = Field(
        default=365, description="Days after its deadline to keep an ended task."
    )
    keep_events_days: Days = Field(
        default=90, description="Days to keep an event with its deliveries and actions."
    )
    keep_audit_months: int = Field(
        default=24,
        ge=1,
        description="Whole months that `jobauto audit archive` leaves in the ledger.",
    )
    body_limit_bytes: int = Field(
        default=4 * 1024 * 1024,
        gt=0,
        description="Largest request body that the facade reads, in bytes.",
    )
    apply_limit_bytes: int = Field(
        default=16 * 1024 * 1024,
        gt=0,
        description="Largest request body of `POST /apply`, all files together, in bytes.",
    )
    worker_token: SecretStr | None = Field(
        default=None, description="Token of a worker (`jobauto token issue --worker`)."
    )
    worker_directory: Path | None = Field(
        default=None,
        description="Folder for the directories of a worker's jobs; default: the folder work in "
        f"the home, or {RUN_AS_DIRECTORY} if run_as is set.",
    )
    worker_limit: int | None = Field(
        default=None,
        ge=1,
        description="Jobs a worker runs at once; default: 4 per core, at most 16.",
    )
    run_as: Annotated[tuple[str, ...], NoDecode] = Field(
        default=(),
        description="Comma-separated users that a worker's native jobs run as: USER, or ID=USER "
        "for jobs of the company with this id; default: the worker's own user.",
    )
    docker_url: str | None = Field(
        default=None,
        description="Address of Docker's API; default: DOCKER_HOST, or Docker's socket.",
    )
    podman_url: str | None = Field(
        default=None,
        description="Address of Podman's API; default: CONTAINER_HOST, or Podman's socket.",
    )
    kubernetes_namespace: str | None = Field(
        default=None,
        description="Namespace of jobs whose application names none; default: that of the cluster "
        "configuration.",
    )
    kubernetes_context: str | None = Field(
        default=None, description="Context of KUBECONFIG; default: the current one."
    )
    kubernetes_pending_seconds: float = Field(
        default=300, gt=0, description="Seconds to wait for a pod to run before it is given up."
    )
    kubernetes_copy_image: str = Field(
        default="docker.io/library/busybox:1.37",
        description="Image with sh and tar, to copy files out of pods.",
    )
    helm_directory: Path | None = Field(
        default=None,
        description="Folder to which relative paths of Helm charts and values files refer; "
        "default: helm in the home.",
    )
    tls_cert: Path | None = Field(
        default=None, description="PEM file with the certificate and its chain, to serve HTTPS."
    )
    tls_key: Path | None = Field(
        default=None, description="PEM file with the key of the certificate, without a password."
    )
    trusted_proxies: Annotated[tuple[IPvAnyNetwork, ...], NoDecode] = Field(
        default=(),
        description="Comma-separated addresses or CIDR ranges of proxies whose X-Forwarded-Proto, "
        "X-Forwarded-For and X-Forwarded-Host are trusted.",
    )
    event_source_targets: Annotated[tuple[str, ...], NoDecode] = Field(
        default=(),
        description="Comma-separated addresses, CIDR ranges and host names that event sources may "
        "use, and folders of their SQLite files; default: all but link-local and metadata "
        "addresses.",
    )
    webhook_urls: Annotated[tuple[WebAddress, ...], NoDecode] = Field(
        default=(),
        description="Comma-separated addresses to notify of every change in an event source, and "
        "of every end of a job.",
    )
    webhook_secret: SecretStr | None = Field(
        default=None, description="Key that signs the notifications to JOBAUTO_WEBHOOK_URLS."
    )
    webhook_token: SecretStr | None = Field(
        default=None, description="Token sent to JOBAUTO_WEBHOOK_URLS as X-MultiFlexi-Token."
    )
    webhook_targets: Annotated[tuple[str, ...], NoDecode] = Field(
        default=(),
        description="Comma-separated addresses, CIDR ranges and host names that webhooks may be "
        "sent to; default: all but link-local and metadata addresses.",
    )
    smtp_host: str | None = Field(
        default=None, description="Mail server for notices; default: none."
    )
    smtp_port: int | None = Field(
        default=None,
        ge=1,
        le=65535,
        description="Port of the mail server; default: 587 with starttls, 465 with tls, 25 "
        "with none.",
    )
    smtp_tls: SmtpSecurity = Field(
        default=SmtpSecurity.STARTTLS,
        description="Encryption of the connection to the mail server: starttls, tls, or none.",
    )
    smtp_user: str | None = Field(
        default=None, description="User name for the mail server; default: no sign-in."
    )
    smtp_password: SecretStr | None = Field(
        default=None, description="Password for the mail server."
    )
    smtp_from: MailAddress | None = Field(default=None, description="Sender address of the mails.")
    notice_seconds: float = Field(
        default=300, ge=0, description="Seconds between two messages with notices to one recipient."
    )
    availability_commands: Annotated[tuple[str, ...], NoDecode] = Field(
        default=(),
        description="Comma-separated absolute paths of programs, or of folders of programs, that "
        "credential types may name to check availability; default: none.",
    )
    env_files: Annotated[tuple[str, ...], NoDecode] = Field(
        default=(),
        description="Comma-separated absolute paths of .env files, or of folders of them, that "
        "credentials may read values from; {company_id} stands for the id of the credential's "
        "company; default: none.",
    )
    vaults: Annotated[tuple[str, ...], NoDecode] = Field(
        default=(),
        description="Comma-separated addresses of HashiCorp Vault that credentials may read values "
        "from, such as https://vault.example.com:8200; default: none.",
    )
    password_min_length: int = Field(
        default=8, ge=1, le=128, description="Minimum length of a new password, in characters."
    )
    sign_in_failures_per_network: int = Field(
        default=5,
        ge=1,
        description="After this many failed sign-ins of an account from one network, the network "
        "is refused for the account.",
    )
    sign_in_failures_per_account: int = Field(
        default=20,
        ge=1,
        description="After this many failed sign-ins of an account, networks new to the account "
        "are refused.",
    )
    sign_in_failures_of_network: int = Field(
        default=50,
        ge=1,
        description="After this many failed sign-ins from one network, of all accounts together, "
        "it is refused for accounts that did not sign in from it in the last 30 days.",
    )
    sign_in_window_seconds: float = Field(
        default=300, gt=0, description="Seconds for which a failed sign-in counts."
    )
    db_connection: str = Field(default="", validation_alias="DB_CONNECTION")
    db_host: str = Field(default="localhost", validation_alias="DB_HOST")
    db_port: str = Field(default="", validation_alias="DB_PORT")
    db_database: str = Field(default="", validation_alias="DB_DATABASE")
    db_username: str = Field(default="", validation_alias="DB_USERNAME")
    db_password: SecretStr = Field(default=SecretStr(""), validation_alias="DB_PASSWORD")

    @field_validator(
        "trusted_proxies",
        "event_source_targets",
        "run_as",
        "webhook_urls",
        "webhook_targets",
        "availability_commands",
        "env_files",
        "vaults",
        "extra_env",
        "company_pools",
        "helm_charts",
        "kubernetes_namespaces",
        "kubernetes_service_accounts",
        mode="before",
    )
    @classmethod
    def _separated(cls, value: Any) -> Any:
        if isinstance(value, str):
            return list(dict.fromkeys(item.strip() for item in value.split(",") if item.strip()))
        return value

    @field_validator("env_files")
    @classmethod
    def _by_id(cls, paths: tuple[str, ...]) -> tuple[str, ...]:
        """Refuse the placeholder of earlier versions: a slug may be given to another company."""
        if any("{company}" in path for path in paths):
            raise ValueError(
                f"{{company}} is no longer supported; write {COMPANY_ID}, and name each folder by "
                "the id of its company, for example with a link: ln -s acme 7"
            )
        return paths

    @field_validator("timezone")
    @classmethod
    def _zone(cls, name: str) -> str:
        if name not in zone_names():
            raise ValueError(f"there is no time zone {name!r}; use a name such as Europe/Prague")
        return name

    @field_validator("language")
    @classmethod
    def _language(cls, code: str) -> str:
        if not re.fullmatch(r"[A-Za-z]{2,3}([-_][A-Za-z0-9]+)*(\.[\w-]+)?", code):
            raise ValueError(f"{code!r} is not a language; use a code such as en or cs_CZ")
        return code

    @field_validator("url", "facade_url", "prefect_api_url", "prefect_ui_url")
    @classmethod
    def _address(cls, address: str) -> str:
        if address and not _is_web_address(address):
            raise ValueError("must be a URL such as http://127.0.0.1:8000, without a user")
        return address

    @field_validator("redis_url")
    @classmethod
    def _redis(cls, url: SecretStr | None) -> SecretStr | None:
        """Require what Prefect, its broker and its task queue all take; they would say it late."""
        if url is None:
            return None
        if re.match(r"rediss?\+cluster:", url.get_secret_value(), re.IGNORECASE):
            raise ValueError(
                "Prefect can't use Redis Cluster; use a single Redis (redis://), or Redis Sentinel"
                " (redis+sentinel://)"
            )
        if not re.fullmatch(REDIS_URL, url.get_secret_value()):
            raise ValueError(
                "must be a URL such as redis://:PASSWORD@HOST:6379/0, rediss:// for TLS, or"
                " redis+sentinel://HOST:26379,HOST:26379/MASTER; in a password, write characters"
                " other than letters and digits as %XX"
            )
        return url

    @field_validator("management_port")
    @classmethod
    def _apart(cls, first: int | None, known: ValidationInfo) -> int | None:
        """Require that ports without authentication differ from those with it."""
        for name in ("api_port", "prefect_port"):
            other = known.data.get(name)
            if first is not None and other in range(first, first + MANAGEMENT_PORTS):
                raise ValueError(
                    f"management ports are {first} to {first + MANAGEMENT_PORTS - 1};"
                    f" JOBAUTO_{name.upper()} must not be among them"
                )
        return first

    @model_validator(mode="after")
    def _sends_mail(self) -> Self:
        """Require a sender for mails, and encryption for the password."""
        if self.smtp_host is not None and self.smtp_from is None:
            raise ValueError(
                "JOBAUTO_SMTP_HOST needs a sender for the mails: set JOBAUTO_SMTP_FROM"
            )
        if self.smtp_user is not None and self.smtp_tls is SmtpSecurity.NONE:
            raise ValueError(
                "JOBAUTO_SMTP_USER would sign in without encryption: set JOBAUTO_SMTP_TLS to "
                "starttls or tls"
            )
        return self

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Order the sources: process environment over database.env over jobauto.env."""
        return init_settings, env_settings, dotenv_settings

    @property
    def ledger_url(self) -> str:
        """The SQLAlchemy URL of the ledger, password included."""
        if self.database_url:
            scheme, separator, rest = self.database_url.partition("://")
            return DRIVERS.get(scheme, scheme) + separator + rest
        if self.db_connection and self.db_connection != "sqlite":
            from urllib.parse import quote

            driver = DRIVERS.get(self.db_connection)
            if driver is None or not self.db_database:
                missing = (
                    "DB_DATABASE has no value"
                    if driver
                    else "DB_CONNECTION must be sqlite or pgsql"
                )
                raise InvalidInput(
                    [Fault("/DB_CONNECTION", "setting", missing)],
                    f"the database settings are incomplete: {missing}; "
                    "set it in database.env or give JOBAUTO_DATABASE_URL",
                )
            password = self.db_password.get_secret_value()
            login = quote(self.db_username, safe="") + (
                f":{quote(password, safe='')}" if password else ""
            )
            port = f":{self.db_port}" if self.db_port else ""
            return f"{driver}://{login}@{self.db_host}{port}/{self.db_database}"
        return f"sqlite:///{self.db_database or self.home / 'ledger.db'}"

    @property
    def key_path(self) -> Path:
        """The file with the key of the secret values."""
        return self.key_file or self.home / "secret.key"

    @property
    def work_directory(self) -> Path:
        """Where the workers of this machine keep their jobs' directories.

        The home is closed, so jobs that run as other users have theirs outside it.
        """
        own = RUN_AS_DIRECTORY if self.run_as else self.home / "work"
        return self.worker_directory or own

    @property
    def facade(self) -> str:
        """The address at which workers and services reach the facade."""
        return self.facade_url or self.url

    @property
    def prefect_ui(self) -> str:
        """The address of Prefect's UI, without a trailing slash."""
        return (self.prefect_ui_url or self.prefect_api_url.removesuffix("/api")).rstrip("/")

    @property
    def smtp_port_used(self) -> int:
        """The port of the mail server."""
        return self.smtp_port or SMTP_PORTS[self.smtp_tls]

    @property
    def concurrent_jobs(self) -> int:
        """The number of jobs that a worker of this machine runs at once."""
        return self.worker_limit or min(16, 4 * (os.cpu_count() or 1))


def _is_web_address(text: str) -> bool:
    try:
        parts = urlsplit(text)
        return bool(re.match(WEB_ADDRESS, text) and parts.hostname) and parts.port != 0
    except ValueError:
        return False


def load_settings(files: Sequence[Path] | None = None, /, **values: Any) -> Settings:
    """Read the settings once; `values` override every source. `files` None: the usual ones.

    Raises:
        InvalidInput: it names every invalid setting.
    """
    try:
        return Settings(_env_file=files or config_files(), **values)
    except ValidationError as error:
        faults = [
            Fault("/" + "/".join(map(str, item["loc"])), item["type"], error_message(item))
            for item in error.errors(include_input=False)
        ]
        named = "; ".join(f"{fault.pointer[1:]}: {fault.message}" for fault in faults)
        raise InvalidInput(faults, f"settings can't be read: {named}") from None


def local_operator() -> str:
    """Return the name of this machine's command-line user in the audit trail."""
    return f"os:{getpass.getuser()}"


def worker_name(pool: str) -> str:
    """Return the default name of a pool's worker on this machine."""
    return f"{host_name()} {pool}".translate(NOT_IN_NAMES)


def host_name() -> str:
    """Return this machine's name, as workers report it."""
    return socket.gethostname()
