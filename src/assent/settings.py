"""All that a run depends on besides the data and the seed; it round-trips to JSON."""

from typing import Any

from pydantic import BaseModel, ConfigDict, Field, SerializeAsAny, model_validator

from assent.influence.estimate import InfluenceSettings
from assent.models import MFSettings, ModelSettings, model_class
from assent.training import TrainingSettings


class Settings(BaseModel):
    """How models are trained and interactions valued."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    model: str = Field("mf", description="name of the recommender")
    model_settings: SerializeAsAny[ModelSettings] = Field(
        MFSettings(), description="settings of the recommender"
    )
    training: TrainingSettings = Field(TrainingSettings(), description="how it is trained")
    influence: InfluenceSettings = Field(InfluenceSettings(), description="how rows are valued")
    anchors: int = Field(3, ge=1, description="T, selections that IFRQE++ trains a model on")
    anchor_rate: float = Field(0.9, gt=0, le=1, description="share of the rows that an anchor discloses")
    rounds: int = Field(10, ge=1, description="largest number of rounds of the game")

    @model_validator(mode="before")
    @classmethod
    def _settings_of_the_model(cls, values: Any) -> Any:
        """Read `model_settings` as the settings of the named model."""
        if isinstance(values, dict):
            kind = model_class(values.get("model", "mf")).Settings
            given = values.get("model_settings", {})
            return values | {
                "model_settings": given if isinstance(given, kind) else kind.model_validate(given)
            }
        return values
