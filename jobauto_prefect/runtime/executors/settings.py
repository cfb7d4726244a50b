"""What a run template can set for the executor of its jobs (`executor_settings`)."""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, field_validator

from jobauto_prefect.text_patterns import matching


class ExecutorSettings(BaseModel):
    """Base of the settings of an executor, without fields.

    Values have the types of the published schema: `"yes"` and 1 are not true. `anyones` are the
    settings that anyone who configures a run template may use; the others, which affect other jobs,
    networks, accounts or the machine, are for administrators.
    """

    anyones: ClassVar[frozenset[str]] = frozenset()

    model_config = ConfigDict(extra="forbid", strict=True)


Model = TypeVar("Model", bound=ExecutorSettings)


def settings_for(model: type[Model], settings: Mapping[str, Any]) -> Model:
    """Return the settings of one executor; the others belong to other executors.

    Raises:
        ValidationError: their values are invalid.
    """
    taken = {name: value for name, value in settings.items() if name in model.model_fields}
    return model.model_validate(taken)


Amount = Annotated[
    str,
    matching(
        r"^[1-9][0-9]{0,15}(k|m|g)?$",
        "must be a number of bytes, or one with k, m or g, such as 512m",
    ),
]
Name = Annotated[
    str,
    matching(
        r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,99}$",
        "must be up to 100 letters, digits, _, . and -, and begin with a letter or digit",
    ),
]
User = Annotated[
    str,
    matching(
        r"^[0-9]{1,9}(:[0-9]{1,9})?$", "must be a user id, or user and group id, such as 1000:1000"
    ),
]
Ulimit = Annotated[
    str,
    matching(
        r"^(-1|[0-9]{1,15})(:(-1|[0-9]{1,15}))?$",
        "must be a limit, or soft:hard, such as 1024:2048; -1 is unlimited",
    ),
    Field(description="Soft limit, or soft:hard; -1: unlimited."),
]
UlimitName = Annotated[
    str,
    matching(r"^[a-z]{2,12}$", "must be two to twelve lower-case letters"),
    Field(description="Two to twelve lower-case letters."),
]


Label = Annotated[
    str,
    matching(
        r"^([A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?)?$", "must be a Kubernetes label value"
    ),
    Field(description="A Kubernetes label value."),
]
LabelKey = Annotated[
    str,
    matching(
        r"^([a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?$",
        "must be a Kubernetes label key, such as acme.example/part",
    ),
    Field(description="A Kubernetes label key, such as acme.example/part."),
]
ObjectName = Annotated[
    str,
    matching(r"^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$", "must be a Kubernetes object name"),
    Field(description="A Kubernetes object name."),
]


class ImageSettings(ExecutorSettings):
    """Settings of every executor that runs images."""

    anyones = frozenset({"memory", "cpu", "pull", "read_only"})

    user: User | None = Field(
        default=None,
        description="UID or UID:GID of the process. With Docker and Podman, the worker must be "
        "root. Default with Docker and Podman: the company's --run-as user, else the worker's own "
        "user. Default on Kubernetes: the image's user.",
        examples=["1000:1000"],
    )
    memory: Amount | None = Field(
        default=None,
        description="Memory limit, in bytes or with k, m, g (powers of 1024).",
        examples=["256m"],
    )
    cpu: float | None = Field(
        default=None, gt=0, le=1024, description="CPU limit in cores.", examples=[0.5]
    )
    pull: Literal["always", "missing", "never"] = Field(
        default="missing", description="When to pull the image.", examples=["always"]
    )
    read_only: bool = Field(
        default=False, description="Whether only the job's directory is writable.", examples=[True]
    )


class ContainerSettings(ImageSettings):
    """Settings of Docker and Podman."""

    anyones = ImageSettings.anyones | {"init"}

    network: Name | None = Field(
        default=None,
        description="Name of one of the engine's networks, or `none` for no network; default: the "
        "engine's default network. `host` is refused.",
        examples=["none"],
    )
    ulimits: dict[UlimitName, Ulimit] = Field(
        default_factory=dict,
        description="Limits by name: soft, or soft:hard.",
        examples=[{"nofile": "1024:4096"}],
    )
    runtime: Name | None = Field(
        default=None,
        description="The engine's OCI runtime; default: the engine's default.",
        examples=["runc"],
    )
    init: bool = Field(
        default=False,
        description="Whether the first process is a small init that forwards signals and reaps "
        "processes.",
        examples=[True],
    )

    @field_validator("network")
    @classmethod
    def _not_the_machines(cls, value: str | None) -> str | None:
        if value == "host":
            raise ValueError("a job can't use the machine's own network; name another one")
        return value


class KubernetesSettings(ImageSettings):
    """Settings of Kubernetes."""

    anyones = ImageSettings.anyones | {"memory_request", "cpu_request"}

    memory_request: Amount | None = Field(
        default=None,
        description="Memory a node must have free; default: `memory`.",
        examples=["128m"],
    )
    cpu_request: float | None = Field(
        default=None,
        gt=0,
        le=1024,
        description="Cores a node must have free; default: `cpu`.",
        examples=[0.25],
    )
    service_account: ObjectName | None = Field(
        default=None,
        description="The pod's service account; default: the namespace's, without a token.",
        examples=["statements"],
    )
    image_pull_secrets: list[ObjectName] = Field(
        default_factory=list,
        description="Secrets with the credentials of image registries.",
        examples=[["registry-acme"]],
    )
    labels: dict[LabelKey, Label] = Field(
        default_factory=dict,
        description="Labels of the Job and of its pod.",
        examples=[{"acme.example/part": "bank"}],
    )
    node_selector: dict[LabelKey, Label] = Field(
        default_factory=dict,
        description="Labels a node must have.",
        examples=[{"kubernetes.io/arch": "amd64"}],
    )
