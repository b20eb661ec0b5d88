"""The search for settings in the paper's ranges, by optuna."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from importlib.util import find_spec
from typing import Any, ClassVar, cast

from assent.game.paper import Strategy
from assent.influence.inverse import Estimator
from assent.lab.lab import Lab
from assent.lab.store import Found, Store, digest
from assent.methods import Method, merged
from assent.methods.ifrqe import IFRQEpp
from assent.reproduce import item as m
from assent.reproduce import paper
from assent.reproduce.beside import Beside
from assent.reproduce.item import Block, Item
from assent.reproduce.measurements import Measurement
from assent.reproduce.plan import DATASETS, OURS, RANGES, Plan
from assent.results.table import Column, Table
from assent.runs.measure import Cell as MethodCell
from assent.support.errors import AssentError
from assent.training import Settings

_UNREAD: Mapping[Strategy, Collection[str]] = {
    Strategy.FACTORED: ("rounds", "samples"),
    Strategy.TABLE: (),
    Strategy.PUBLISHED: ("rounds",),
}
"""Settings of the search that a strategy does not read."""


@dataclass(frozen=True)
class Searched(Measurement):
    """A task: the best settings that so many trials find, by the true validation reward at price 1."""

    kind: ClassVar[str] = "search"
    trials: int
    method: IFRQEpp
    ranges: Mapping[str, Sequence[float]]

    def searched(self, model: str) -> dict[str, Sequence[float]]:
        """Return the ranges of settings that the method reads: M and L are of tables, N_J is of LiSSA."""
        unread = set(_UNREAD[self.method.strategy])
        if self.method.influence_for(model).estimator is not Estimator.LISSA:
            unread.add("lissa_steps")
        return {setting: values for setting, values in self.ranges.items() if setting not in unread}

    def run(self, lab: Lab) -> Found:
        """Return the best trial, and the reward of assent's settings, which is none of the trials.

        Trials that are told to the storage are never repeated. Each is proposed by a sampler that depends on
        those before it alone (uniform at first), so that a killed search goes on as if it had not been.
        """
        optuna: Any = import_module("optuna")
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        name = f"search-{digest(self.key(lab))}"
        lab.store.folder.mkdir(parents=True, exist_ok=True)
        storage = f"sqlite:///{lab.store.folder / name}.sqlite"
        study = optuna.create_study(
            study_name=name, storage=storage, direction="maximize", load_if_exists=True
        )
        told = (optuna.trial.TrialState.COMPLETE,)
        first, ranges = _reward(lab, self.method), self.searched(lab.settings.model)
        with lab.progress.task("trials", self.trials) as advance:
            while (done := len(study.get_trials(deepcopy=False, states=told))) < self.trials:
                study.sampler = optuna.samplers.TPESampler(seed=done)
                trial = study.ask()
                for setting, values in ranges.items():
                    trial.suggest_categorical(setting, values)
                study.tell(trial, _reward(*_changed(lab, self.method, trial.params)))
                advance()
        best = study.best_trial
        found = {
            "model": lab.settings.model,
            "trials": self.trials,
            "reward_of_defaults": first,
            "reward_of_best": float(best.value or 0.0),
            **{f"best_{setting}": best.params.get(setting) for setting in self.ranges},
        }
        return Found(facts=found)


def _changed(lab: Lab, method: IFRQEpp, params: dict[str, Any]) -> tuple[Lab, Method, float]:
    """Return the lab, the method and the price of a trial."""
    changes = {
        "training": {name: params[name] for name in ("learning_rate", "batch_size", "epochs")},
        "model_settings": {"dimension": params["dimension"]},
    }
    settings = Settings.model_validate(merged(lab.settings.model_dump(mode="json"), changes))
    table: dict[str, Any] = {name: params[name] for name in ("rounds", "samples") if name in params}
    steps: dict[str, Any] = {name: params[name] for name in ("lissa_steps",) if name in params}
    update = {
        "anchor_rate": 1 - params["drop"],
        "anchors": params["anchors"],
        "table": method.table.model_copy(update=table),
        "influence": method.influence_for(settings.model).model_copy(update=steps),
    }
    return replace(lab, settings=settings), method.model_copy(update=update), float(params["price"])


def _reward(lab: Lab, method: Method, price: float = 1.0) -> float:
    """Return the mean validation reward at price 1 of what a method decides at a price.

    What is trained for it is not kept.
    """
    alone = replace(lab, store=Store.temporary())
    facts = MethodCell(method, price).run(alone).facts
    return float(facts["reward_mean"] + (price - 1) * facts["violation"])


def _searched(plan: Plan, model: str, dataset: str) -> list[Block]:
    if find_spec("optuna") is None:
        raise AssentError("search: needs optuna; install it with pip install 'assent[search]'")
    method = cast(IFRQEpp, plan.method(OURS, model, dataset))
    return [[(Searched(plan.trials, method, plan.ranges), {})]]


_THEIRS = {
    "dimension": "embedding_size",
    "drop": "drop_ratio",
    "anchors": "T",
    "price": "lambda",
    "rounds": "M",
    "samples": "L",
    "lissa_steps": "N_J",
}
"""What the paper's table of settings calls them, where it has another name."""
_WHY = "The paper does not say which model and figure it chose by: its choices are listed, not reproduced."


def _beside_choices(_: Plan, table: Table) -> Iterator[Beside]:
    """The paper's choices beside ours."""
    theirs = paper.numbers()["settings"]
    for row in table.rows:
        place = theirs["columns"].index(DATASETS[row.labels["dataset"]])
        labels = {heading: row.labels[key] for key, heading in table.labels.items()}
        for column in table.columns[2:]:
            name = column.key.removeprefix("best_")
            chosen = float(theirs[_THEIRS.get(name, name)][place])
            best = row.amounts[column.key].mean
            yield Beside(labels, column.heading, chosen, None, best, None, column.decimals or 0, why=(_WHY,))


SEARCH = Item(
    name="search",
    title="Search over the paper's ranges of settings",
    where="Appendix, parameter settings",
    about=(
        "optuna proposes settings from the paper's ranges; a trial is the true validation reward of IFRQE++ "
        "at price 1, for one seed. Every trial is kept in a storage file among the cells. λ is the price at "
        "which a trial decides; its reward counts price 1 all the same. M and L (rounds, samples) belong to "
        "strategies as tables and N_J to LiSSA: a dash where the profile has the exact game or another "
        "estimator."
    ),
    labels=m.PLACE,
    columns=[
        Column("reward_of_defaults", "reward, assent's settings", decimals=3),
        Column("reward_of_best", "reward, best trial", decimals=3),
        *(
            Column(f"best_{name}", name.replace("_", " "), decimals=3 if max(values) < 1 else 0)
            for name, values in RANGES.items()
        ),
    ],
    blocks=_searched,
    repeats=1,
    alone=True,
    subtitle=", {plan.trials} trials",
    beside=_beside_choices,
)
