"""What a base model is trained with: the model, its own settings and those of the trainer."""

from typing import Any

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SerializeAsAny,
    ValidationInfo,
    field_validator,
    model_validator,
)

from assent.models import MF, MFSettings, ModelSettings, model_class
from assent.training.trainer import TrainingSettings


class Settings(BaseModel):
    """The base model and how it is trained; round-trips to JSON.

    A setting that is not given takes the model's own default, or else assent's.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    model: str = Field(MF.name, description="name of the recommender")
    model_settings: SerializeAsAny[ModelSettings] = Field(
        MFSettings(), description="settings of the recommender"
    )
    training: TrainingSettings = Field(TrainingSettings(), description="how it is trained")

    @model_validator(mode="before")
    @classmethod
    def _defaults_of_the_model(cls, values: Any) -> Any:
        if not isinstance(values, dict):
            return values
        values = {"model_settings": {}, **values}
        asked = values.get("training", {})
        if isinstance(asked, dict):
            values["training"] = {**defaults_of(values.get("model", MF.name), "training"), **asked}
        return values

    @field_validator("model_settings", mode="before")
    @classmethod
    def _settings_of_the_model(cls, given: Any, info: ValidationInfo) -> Any:
        if "model" not in info.data:
            return given
        return model_class(info.data["model"]).Settings.model_validate(given)


def defaults_of(model: str, part: str) -> dict[str, Any]:
    """Return the defaults of `part` ("training" or "influence") that differ from assent's for a model."""
    return dict(model_class(model).defaults.get(part, {}))
