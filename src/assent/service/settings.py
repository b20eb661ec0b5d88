"""The settings of the service: one YAML file, the same for web processes and workers."""

from pathlib import Path
from typing import Annotated, Any, Literal, Self
from urllib.parse import urlsplit

import yaml
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

from assent.support.errors import AssentError

Share = Annotated[float, Field(ge=0, le=1)]
Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]


def _address(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise ValueError("accepted: an address such as https://choices.example.org")
    return url


class Controller(BaseModel):
    """Who runs the service and answers for it: the receipts name them."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    id: str | None = None
    """An address that names them; without one, that of the service."""
    name: str = "The operator of this service"
    address: str = "not given"
    contact: str = "the platform that sent you here"
    """How to reach them."""
    notice: str | None = None
    """The address of the privacy notice; without one, that of the service."""
    jurisdiction: str = "not given"
    """Such as `EU`."""
    storage: str = "not given"
    """Where the data is stored."""
    retention: str = "until the person or the platform deletes it"


class ServiceSettings(BaseModel):
    """All settings of the service: web processes and workers of one database are given the same."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    database: str
    """sqlite:///FILE or postgresql://USER@HOST/DATABASE."""
    data: Path
    """The folder of run folders. Web processes and workers share it."""
    public_url: Annotated[str, AfterValidator(_address)] = "http://127.0.0.1:8000"
    """Where people reach the service; personal links begin with it."""
    secure_cookies: bool = True
    """Whether browsers send cookies by https alone."""
    demo: bool = False
    """Whether the first page lets anybody in, as the demo person or as operator: for demo data alone."""
    controller: Controller = Controller()
    unsaid: Share = 1.0
    """The unwillingness of what nobody said anything about. 1: it is not used until its owner is asked."""
    closed: Share | None = None
    """Interactions above this unwillingness are withheld unread."""
    method: str = "worth"
    budget: Share | None = None
    keep_quality: Share | None = None
    price: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None
    seed: int = 0
    seeds: Annotated[int, Field(ge=1)] | None = None
    """Seeds that quality is measured with; None: up to three."""
    k: Annotated[int, Field(ge=1)] = 10
    """The length of the lists that quality is measured on."""
    frontier: tuple[Share, ...] = ()
    """Budgets at which a training also measures quality, for the operator's page."""
    update_after: Seconds = 60.0
    """Seconds that a wish may wait until a worker begins to decide anew (a prompt update).

    Where updates train, also a deletion."""
    train_after: Seconds = 6 * 3600.0
    """Seconds that a wish or a deletion may wait for a model without it, until a worker begins to train."""
    train_every: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 24 * 3600.0
    """Seconds after which a worker trains anew in any case."""
    update_vectors: Literal["trained", "kept"] = "trained"
    """What an update does after it decided.

    `trained`: it trains the model anew on what is disclosed, with the settings of the last training, so that
    wishes are trained and served. `kept`: it keeps the items' vectors, and wishes wait for a training."""
    publish: Literal["at once", "by hand"] = "at once"
    """Whether a worker puts a model into service when it is done."""
    keep_models: Annotated[int, Field(ge=1)] = 5
    """How many models, with their decisions and run folders, are kept beside the one in service."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.budget is not None and self.keep_quality is not None:
            raise ValueError("budget and keep_quality: accepted: one of them")
        return self

    @property
    def runs(self) -> Path:
        """The folder of run folders."""
        return self.data / "runs"


def read_settings(file: Path | None, **given: Any) -> ServiceSettings:
    """Return the settings of a YAML file, with those that are given in its place."""
    read: Any = {}
    if file is not None:
        try:
            read = yaml.safe_load(file.read_text(encoding="utf-8")) or {}
        except OSError as error:
            raise AssentError(f"{file}: {error.strerror}") from None
        except (yaml.YAMLError, UnicodeDecodeError):
            raise AssentError(f"{file}: no YAML; accepted: lines such as 'budget: 0.5'") from None
        if not isinstance(read, dict):
            raise AssentError(f"{file}: no settings; accepted: lines such as 'budget: 0.5'")
    try:
        return ServiceSettings(**{**read, **given})
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(map(str, first["loc"])) or "settings"
        said = first["msg"].removeprefix("Value error, ")
        raise AssentError(f"{file or 'settings'}: {name}: {said}") from None
