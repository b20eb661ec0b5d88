"""Profiles: whose experiment is run. Frozen tables of settings by data set and model, with the reasons.

`paper` is what the paper's text and appendix say. `authors` is, in addition, what the code that the authors
published does, as far as settings can express it. `assent` is assent's own training, influence and game.
"""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Any

from assent.evaluation.evaluate import HeldOut


class Profile(StrEnum):
    """Whose experiment is run."""

    PAPER = "paper"
    """As the paper's text and appendix say."""
    AUTHORS = "authors"
    """As the authors' published code does, where it departs from the paper."""
    ASSENT = "assent"
    """With assent's own training, influence and game."""

    def base(self, model: str, dataset: str) -> dict[str, Any]:
        """Return the settings of a model and its training: `model_settings` and `training`."""
        if self is Profile.ASSENT:
            return {}
        training = {**TRAINING, "epochs": EPOCHS[dataset]}
        if self is Profile.AUTHORS:
            training |= {**AUTHORS_TRAINING, **AUTHORS_TRAINED.get(model, {})}
        of_model = AUTHORS_MODELS[model] if self is Profile.AUTHORS else MODELS[model]
        return {"model_settings": dict(of_model), "training": training}

    def methods(self, dataset: str) -> dict[str, Any]:
        """Return the settings of methods."""
        if self is Profile.ASSENT:
            return {"influence": {"loss": "bce"}}
        table: dict[str, Any] = {**TABLE, "samples": SAMPLES[dataset]}
        influence: dict[str, Any] = {**INFLUENCE, "lissa_steps": RECURSIONS[dataset]}
        found: dict[str, Any] = {"strategy": "table", "threshold": {"limit": 0.5}}
        if self is Profile.AUTHORS:
            anchors, step = AUTHORS_GAME[dataset]
            table |= {"step": step}
            found |= {"strategy": "published", "anchors": anchors, "anchor_rate": 0.85}
            found |= {"random": {"rate": 0.98}}
            influence |= {**AUTHORS_LISSA, "lissa_scale": AUTHORS_SCALES[dataset]}
        return found | {"table": table, "influence": influence}

    @property
    def rewards_on(self) -> HeldOut:
        """The rows whose losses the rewards of tables count."""
        return HeldOut.TEST if self is Profile.AUTHORS else HeldOut.VALIDATION

    @property
    def steps(self) -> tuple[float, ...]:
        """Values of γ that are swept; the paper states none."""
        return {Profile.ASSENT: (), Profile.PAPER: STEPS, Profile.AUTHORS: AUTHORS_STEPS}[self]

    @property
    def about(self) -> tuple[str, ...]:
        """What the profile is, in sentences for the page."""
        return _ABOUT[self]


_SIMULATION, _DIGINETICA, _STEAM, _AMAZON = "simulation", "diginetica", "steam", "amazon-video-games"


def _by_dataset(*values: Any) -> Mapping[str, Any]:
    return MappingProxyType(dict(zip((_SIMULATION, _DIGINETICA, _STEAM, _AMAZON), values, strict=True)))


EPOCHS = _by_dataset(50, 50, 150, 100)
SAMPLES = _by_dataset(1000, 1000, 500, 1000)
"""L."""
RECURSIONS = _by_dataset(30, 10, 20, 20)
"""N_J."""
TRAINING: Mapping[str, Any] = MappingProxyType(
    {
        "learning_rate": 0.01,
        "schedule": "constant",
        "batch_size": 2048,
        "batch_unit": "samples",
        "negatives": 1,
        "initialisation": "xavier",
        "keep": "last",
    }
)
"""The appendix' table; the paper names no schedule, no initialisation and no rule for the epoch."""
_NEUMF = {
    "dimension": 64, "perceptron_dimension": 64, "hidden": (128, 64), "form": "plain",
    "strength": 0.0, "perceptron_prior": 0.0, "decay": 0.0,
}  # fmt: skip
_DIN = {
    "dimension": 64, "attention": 64, "hidden": (256, 256), "form": "plain",
    "strength": 0.0, "decay": 0.0, "attention_decay": 0.0, "bias_prior": 0.0,
}  # fmt: skip
_CDAE = {
    "dimension": 64, "activation": "sigmoid", "corruption": 0.5, "form": "plain", "strength": 0.0,
    "input_strength": 0.0, "tie": 0.0, "bias_prior": 0.0, "hidden_bias_decay": 0.0,
}  # fmt: skip
MODELS: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "mf": {"dimension": 64, "strength": 0.0},
        "neumf": _NEUMF,
        "lightgcn": {"dimension": 64, "layers": 2, "strength": 0.0},
        "din": _DIN,
        "cdae": _CDAE,
    }
)
"""Without L2. Beyond the embedding size the paper says nothing: layers are those of the authors' files."""
TABLE: Mapping[str, Any] = MappingProxyType({"rounds": 10, "gradient": "written", "one_anchor": "learnt"})
INFLUENCE: Mapping[str, Any] = MappingProxyType(
    {"estimator": "lissa", "loss": "bce", "divisor": "all", "centred": False, "draws": 1}
)
STEPS = (0.001, 0.01, 0.1)
"""Values of γ, which the paper does not state: swept and shown. Tables take the default of assent, 0.01."""
AUTHORS_TRAINING: Mapping[str, Any] = MappingProxyType(
    {"epochs": 50, "keep": "reward", "evaluate_every": 1, "patience": 50}
)
AUTHORS_TRAINED: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {"neumf": {"initialisation": "own"}, "cdae": {"batch_unit": "people", "patience": 10}}
)
"""How models are trained otherwise: RecBole starts NeuMF's layers uniformly, and batches people for CDAE."""
AUTHORS_MODELS: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {**MODELS,
     "neumf": {**_NEUMF, "dropout": 0.1, "initial_scale": 0.01, "layer_scale": 3**-0.5},
     "cdae": {**_CDAE, "activation": "relu"}}
)  # fmt: skip
AUTHORS_GAME = _by_dataset((3, 0.08), (3, 0.08), (1, 0.1), (1, 0.1))
"""T, and γ, the rate of mirror steps."""
AUTHORS_STEPS = (0.01, 0.08, 0.1)
"""Values of γ in the published settings files, and one at which nothing moves."""
AUTHORS_LISSA: Mapping[str, Any] = MappingProxyType({"lissa_steps": 5, "lissa_damping": 0.1})
AUTHORS_SCALES = _by_dataset(25.0, 25.0, 25.0, 200.0)
"""What LiSSA is scaled by."""

_TRAINED = (
    "Models are trained as the appendix says: Adam with a constant rate of 0.01, batches of 2048 samples "
    "(positives and their negatives), embeddings of 64, epochs by data set, no L2 (`model_settings.strength` "
    "and the like are 0), NeuMF, DIN and CDAE in their plain forms (`model_settings.form=plain`). The paper "
    "states no initialisation: Xavier's (`training.initialisation`)."
)
_PLAYED = (
    "IFRQE and IFRQE++ play tables with the printed gradient (`table.gradient=written`), M, L, N_J and T of "
    "the appendix; one anchor is solved like several (`table.one_anchor=learnt`). Influence is LiSSA in "
    "every term, divided by Z (`influence.divisor=all`) and uncentred (`influence.centred=false`), as "
    "printed. "
)
_GAMMA = (
    "The step size γ is not stated: the tables have assent's default of 0.01, and the item “gamma” shows "
    "what other values give. Nothing is chosen by its result."
)
_ABOUT: Mapping[Profile, tuple[str, ...]] = {
    Profile.ASSENT: (
        "Profile assent: base models are trained with assent's own settings, chosen on validation rows. At "
        "the full scale, the number of anchors, the prices and the embedding size are the paper's.",
    ),
    Profile.PAPER: (
        f"Profile paper. {_TRAINED} The last epoch is kept (`training.keep=last`).",
        _PLAYED + _GAMMA,
    ),
    Profile.AUTHORS: (
        f"Profile authors. {_TRAINED} 50 epochs everywhere; the epoch of the best reward is kept "
        "(`training.keep=reward`). The published code takes the reward of test rows there too; here "
        "validation rows choose the epoch, because no training may look at test rows. NeuMF has a "
        "dropout of 0.1 and starts as RecBole's. A batch of CDAE is of 2048 people, each with all items "
        "(`training.batch_unit=people`), and its hidden units are ReLU, as RecBole's are.",
        "Random discloses with 0.98 (`random.rate`). Rewards in tables are those of test rows.",
        "IFRQE and IFRQE++ play as the published code does (`strategy=published`): in each of L steps "
        "everybody plays their likeliest selection; every reward has the same loss and the same influence, "
        "summed over all people, and only the price paid is one's own; a mirror step follows. T and γ are "
        "those of the published settings, anchors disclose 0.85 (`anchor_rate`). LiSSA has five steps, a "
        "damping of 0.1 and a scale of 25, on Amazon 200 (`influence.lissa_steps`, `lissa_damping`, "
        "`lissa_scale`).",
        "Not imitated: withheld positives as negatives of training (no training here is given what is "
        "withheld, so that no setting can undo it), LightGCN's penalty of 1e-5, one optimiser for all "
        "anchors, misaligned unwillingness, and, on Steam and Amazon, the mean over ten starts, of which "
        "each has an anchor more.",
    ),
}
