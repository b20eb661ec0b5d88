"""All that a run depends on besides the data and the seed; it round-trips to JSON."""

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

from assent.evaluation.metrics import RewardForm
from assent.game.paper.tables import Strategy, TableSettings
from assent.game.retraining import ProactiveSettings, ScratchSettings
from assent.influence.settings import Estimator, InfluenceSettings
from assent.models import MF, MFSettings, ModelSettings, model_class
from assent.training import TrainingSettings
from assent.worth.settings import Source, ValueSettings


class Settings(BaseModel):
    """How models are trained and interactions valued.

    What is not given is the model's own default, and where it has none, assent's.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    model: str = Field(MF.name, description="name of the recommender")
    model_settings: SerializeAsAny[ModelSettings] = Field(
        MFSettings(), description="settings of the recommender"
    )
    training: TrainingSettings = Field(TrainingSettings(), description="how it is trained")
    influence: InfluenceSettings = Field(InfluenceSettings(), description="how rows are valued")
    value: ValueSettings = Field(ValueSettings(), description="where the value of a row comes from")
    anchors: int = Field(3, ge=1, description="T, selections that IFRQE++ trains a model on")
    anchor_rate: float = Field(0.9, gt=0, le=1, description="share of the rows that an anchor discloses")
    adaptive: int = Field(
        0,
        ge=0,
        description="anchors that IFRQE++ adds where its solution lies, to solve again (--value influence)",
    )
    rounds: int = Field(40, ge=1, description="largest number of rounds of the game")
    strategy: Strategy = Field(Strategy.FACTORED, description="factored, or the paper's table")
    table: TableSettings = Field(TableSettings(), description="how tables are learnt")
    reward: RewardForm = Field(
        RewardForm.SUM, description="validation loss that is played for: a user's sum (eq. 1) or mean"
    )
    proactive: ProactiveSettings = Field(ProactiveSettings(), description="how Proactive learns")
    scratch: ScratchSettings = Field(ScratchSettings(), description="how SCR explores")

    @property
    def idle(self) -> frozenset[str]:
        """Settings that the others leave nothing to say: where folds are pooled, there is one anchor."""
        return frozenset({"anchors", "anchor_rate", "adaptive", "table"} if self.value.is_pooled else ())

    @property
    def linearisation(self) -> InfluenceSettings:
        """How influence is computed where the source of values has a say in it."""
        if self.value.source is not Source.LISSA:
            return self.influence
        return self.influence.model_copy(update={"estimator": Estimator.LISSA})

    def per_fold(self, folds: int) -> InfluenceSettings:
        """The same for one of several anchors that are averaged, with fewer groups.

        The noise of groups is averaged over anchors and, unlike at single anchors, discounted by its
        reliability: a quarter of the groups in all has to do (docs/value.md).
        """
        groups = max(1, self.influence.groups // (4 * folds))
        return self.linearisation.model_copy(update={"groups": groups})

    @model_validator(mode="before")
    @classmethod
    def _defaults_of_the_model(cls, values: Any) -> Any:
        """Fill in what the named model wants by default."""
        if not isinstance(values, dict):
            return values
        values = {"model_settings": {}, **values}
        for part, defaults in model_class(values.get("model", MF.name)).defaults.items():
            asked = values.get(part, {})
            if isinstance(asked, dict):
                values[part] = {**defaults, **asked}
        return values

    @field_validator("model_settings", mode="before")
    @classmethod
    def _settings_of_the_model(cls, given: Any, info: ValidationInfo) -> Any:
        """Read `model_settings` as those of the named model."""
        return (
            model_class(info.data["model"]).Settings.model_validate(given) if "model" in info.data else given
        )
