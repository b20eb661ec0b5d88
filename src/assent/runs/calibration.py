"""A calibration: what a live run finds out on its split, by which it decides on all rows.

    settings   of the base model, for everything
    method     with the weights of its sources that trials found
    budget     given, or found to keep the quality
    measured   the quality on the split, and the figures of the certificate that need it

A fit makes its own. An update may keep that of the run before (`Calibration.of`): the split is then not
looked at, and the quality stays that of the run which measured it, by name. So a fit with the same
calibration on the same rows gives the same decisions and the same model.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from assent.methods import Choice, Method
from assent.runs.folder import Run
from assent.runs.plan import plan_of, settings_of
from assent.support.arrays import hash_arrays
from assent.support.errors import AssentError
from assent.support.files import as_json
from assent.training import Settings, Tune

CHECKED: Final = ("predicted_reward", "true_reward", "prediction_error", "reward_loss", "reward_form")
"""Figures of a certificate that need rows which no model has seen: those of the split."""
_QUALITY: Final = ("seeds", "people", "reached", "kept", "above_nothing", "measured_in", "operating_point")
"""What is measured; a prompt update adds its age, which is not kept."""
_ASKED: Final = (
    "method", "objective", "method_settings", "price", "budget", "keep_quality", "confidence", "k", "model",
    "model_settings", "training",
)  # fmt: skip
"""What a calibration is found for."""
MEASURED_IN: Final = "measured_in"
"""Names the run that measured the quality, in its description; null: the run itself."""
MEASURED: Final = "measured"
"""Of a run whose quality another one measured: that one's folder name, when it was made, and the share of
what people mind that it disclosed."""


def measured_by(run: Run) -> dict[str, Any]:
    """Return which run measured the quality that a run has, as a run that keeps it says it."""
    if run.quality[MEASURED_IN] is not None:
        return {name: run.quality[name] for name in (MEASURED_IN, MEASURED) if name in run.quality}
    minded = run.selection["unwillingness"]
    share = float(minded.filter(run.selection["disclosed"]).sum()) / (float(minded.sum()) or 1.0)
    when = run.manifest.finished
    about = {"run": run.folder.resolve().name, "when": when, "share": share}
    return {MEASURED_IN: run.manifest.mark, MEASURED: about}


@dataclass(frozen=True)
class Calibration:
    """What a live run decides by, and how good that was on the split."""

    settings: Settings
    method: Method
    budget: float | None
    tuning: Mapping[str, Any]
    """How the settings were found, as JSON."""
    records: Sequence[Mapping[str, Any]]
    """Of the split: the method, All (where it was asked for) and Nothing."""
    quality: Mapping[str, Any]
    """How good the recommendations are, with intervals, and the operating point."""
    certificate: Mapping[str, Any]
    """The figures `CHECKED`, as far as there are any."""
    asked: Mapping[str, Any] | None = None
    """What the run was asked for that found it; None: the run that decides by it."""

    @classmethod
    def of(cls, run: Run) -> "Calibration":
        """Return the calibration of a finished live run; an experiment has none."""
        if not run.is_live:
            raise AssentError(f"{run.folder}: an experiment; accepted: a live run, whose calibration to keep")
        found = run.tuning["all"]
        asked = settings_of(run)
        model = type(asked.model_settings).model_validate(found["found"])
        settings = asked.model_copy(update={"model_settings": model, "tune": Tune.NONE})
        decided = Choice(np.ones(0, np.bool_), None, run.certificate)
        quality = {name: run.quality[name] for name in _QUALITY}
        return cls(
            settings=settings,
            method=plan_of(run).method.as_found(decided),
            budget=quality["operating_point"]["budget"],
            tuning=found,
            records=run.records,
            quality=quality | measured_by(run),
            certificate={name: run.certificate[name] for name in CHECKED if name in run.certificate},
            asked={name: run.settings[name] for name in _ASKED},
        )

    def check(self, description: Mapping[str, Any]) -> None:
        """Refuse a run that is asked for something else than the run which found the calibration."""
        for name, found in (self.asked or {}).items():
            if description[name] != found:
                other = f"was found for {name} {found}, and {description[name]} is asked for"
                raise AssentError(f"calibration: {other}; accepted: the same, or a calibration of its own")

    @property
    def mark(self) -> str:
        """A short name for all that decisions and figures of a run depend on through it."""
        return hash_arrays(
            as_json(
                {
                    "settings": self.settings.model_dump(mode="json"),
                    "method": self.method.key,
                    "budget": self.budget,
                    "quality": self.quality,
                    "certificate": self.certificate,
                }
            )
        )

    @property
    def is_own(self) -> bool:
        """Whether the run that decides by it has measured the quality itself."""
        return self.quality[MEASURED_IN] is None

    def at(self, price: float | None) -> Mapping[str, Any]:
        """Return the quality with the price of the decision, for the record."""
        return {**self.quality, "operating_point": {**self.quality["operating_point"], "price": price}}
