"""The paper's search for settings: its ranges, by optuna, with a storage file that outlives the process."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar

from assent.lab.lab import Lab
from assent.lab.store import Found, Key, Store, digest
from assent.methods import Method, merged
from assent.reproduce import paper
from assent.reproduce.cells import Cell
from assent.reproduce.item import PLACE, Findings, Item
from assent.reproduce.paper import Beside
from assent.reproduce.plan import OURS, Plan
from assent.results.records import Flat
from assent.results.table import Column, tabulate
from assent.runs.measure import Cell as MethodCell
from assent.support.errors import AssentError
from assent.training import Settings

RANGES = {
    "learning_rate": (0.001, 0.01, 0.05),
    "batch_size": (1024, 2048, 4096),
    "dimension": (64, 128, 256),
    "drop": (0.01, 0.1, 0.2),
    "epochs": (50, 100, 150),
    "anchors": tuple(range(1, 11)),
}
"""Of the paper's table of settings; `drop` is 1 − the rate of an anchor."""


@dataclass(frozen=True)
class Searched:
    """A task: the best settings that so many trials find, by the true validation reward at price 1."""

    trials: int
    method: Method

    @property
    def label(self) -> str:
        """What progress bars and errors call it."""
        return "search for settings"

    def key(self, lab: Lab) -> Key:
        """Return the method's key, the ranges and the number of trials."""
        about = {"method": self.method.key, "kind": "search", "trials": self.trials, "ranges": RANGES}
        return lab.key | about

    def run(self, lab: Lab) -> Found:
        """Return the best trial, and the reward of assent's settings, which is none of the trials.

        Trials that are told to the storage are never repeated. Each is proposed by a sampler that depends on
        those before it alone, so that a killed search goes on as if it had not been.
        """
        study = _study(lab.store.folder, self.key(lab))
        first = _reward(lab, self.method)
        with lab.progress.task("trials", self.trials) as advance:
            while (done := _finished(study)) < self.trials:
                trial = _ask(study, done)
                study.tell(trial, _reward(*_changed(lab, self.method, trial.params)))
                advance()
        best = study.best_trial
        found = {
            "model": lab.settings.model,
            "trials": self.trials,
            "reward_of_defaults": first,
            "reward_of_best": float(best.value or 0.0),
            **{f"best_{name}": best.params[name] for name in RANGES},
        }
        return Found(facts=found)


def _optuna() -> Any:
    """The library, loaded by those alone who search."""
    return import_module("optuna")


def _study(folder: Path, key: Key) -> Any:
    optuna = _optuna()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    name = f"search-{digest(key)}"
    folder.mkdir(parents=True, exist_ok=True)
    return optuna.create_study(
        study_name=name,
        storage=f"sqlite:///{folder / name}.sqlite",
        direction="maximize",
        load_if_exists=True,
    )


def _finished(study: Any) -> int:
    optuna = _optuna()
    return len(study.get_trials(deepcopy=False, states=(optuna.trial.TrialState.COMPLETE,)))


def _ask(study: Any, done: int) -> Any:
    """The next trial: uniform at first, then by what was found."""
    optuna = _optuna()
    study.sampler = optuna.samplers.TPESampler(seed=done)
    trial = study.ask()
    for name, values in RANGES.items():
        trial.suggest_categorical(name, values)
    return trial


def _changed(lab: Lab, method: Method, params: dict[str, Any]) -> tuple[Lab, Method]:
    """Return the lab and the method of a trial."""
    changes = {
        "training": {name: params[name] for name in ("learning_rate", "batch_size", "epochs")},
        "model_settings": {"dimension": params["dimension"]},
    }
    settings = Settings.model_validate(merged(lab.settings.model_dump(mode="json"), changes))
    update = {"anchor_rate": 1 - params["drop"], "anchors": params["anchors"]}
    return replace(lab, settings=settings), method.model_copy(update=update)


def _reward(lab: Lab, method: Method) -> float:
    """Return the mean validation reward of a method at price 1; what is trained for it is not kept."""
    alone = replace(lab, store=Store.temporary())
    return float(MethodCell(method, 1.0).run(alone).facts["reward_mean"])


class Search(Item):
    """The best settings of each data set."""

    name: ClassVar[str] = "search"
    title: ClassVar[str] = "Search over the paper's ranges of settings"
    where: ClassVar[str] = "Appendix, parameter settings"
    about: ClassVar[str] = (
        "optuna proposes settings from the paper's ranges; a trial is the true validation reward of IFRQE++ "
        "at price 1, for one seed. Every trial is kept in a storage file among the cells. Of the paper's ten "
        "ranges four are left out: λ is no setting to choose but part of the reward; M, L and N_J belong to "
        "strategies as tables and to LiSSA, which the exact game and the truncated inverse do without."
    )

    def cells(self, plan: Plan) -> list[Cell]:
        """One search per data set, for one seed."""
        if find_spec("optuna") is None:
            raise AssentError("search: needs optuna; install it with pip install 'assent[search]'")
        return [
            Cell(
                plan.source(dataset),
                plan.settings(model),
                0,
                Searched(plan.trials, plan.method(OURS, model, dataset)),
                {"dataset": dataset},
                alone=True,
            )
            for dataset in plan.datasets
            for model in plan.of(plan.one_model)
        ]

    def findings(self, plan: Plan, records: Sequence[Flat]) -> Findings:
        """The best settings, and the paper's beside them."""
        columns = [
            Column("reward_of_defaults", "reward, assent's settings", decimals=3),
            Column("reward_of_best", "reward, best trial", decimals=3),
            *(
                Column(f"best_{name}", name.replace("_", " "), decimals=3 if name in _SMALL else 0)
                for name in RANGES
            ),
        ]
        title = f"{self.title}, {plan.trials} trials"
        table = tabulate(records, PLACE, columns, name=self.name, title=title)
        return Findings(table, beside=_beside(records))


_SMALL = ("learning_rate", "drop")


def _beside(records: Sequence[Flat]) -> list[Beside]:
    """The paper's choices beside ours."""
    theirs = paper.numbers()["settings"]
    names = {"dimension": "embedding_size", "drop": "drop_ratio", "anchors": "T"}
    why = "The paper does not say which model and figure it chose by: its choices are listed, not reproduced."
    return [
        Beside(
            {"data set": record["dataset"], "model": record["model"]},
            name.replace("_", " "),
            float(theirs[names.get(name, name)][theirs["columns"].index(paper.DATASETS[record["dataset"]])]),
            None,
            float(record[f"best_{name}"]),
            None,
            3 if name in _SMALL else 0,
            why=(why,),
        )
        for record in records
        for name in RANGES
    ]
