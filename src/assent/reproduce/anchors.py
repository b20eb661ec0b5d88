"""Two figures about anchors: how well they predict a retrained model's loss, and how many are worth it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from assent.evaluation.evaluate import validation_losses
from assent.influence.estimate import predicted_losses
from assent.lab.anchors import linearised, random_anchors
from assent.lab.lab import Lab, Training
from assent.lab.store import Found, Key
from assent.methods.ifrqe import IFRQE
from assent.reproduce import item as m
from assent.reproduce import paper
from assent.reproduce.cells import Cell
from assent.reproduce.item import Findings, Item
from assent.reproduce.paper import OWN_SETTINGS, Beside, beside, data_reasons, plan_reasons
from assent.reproduce.plan import OURS, PAPER_METHODS, SIMULATION, Plan
from assent.results.plot import charts
from assent.results.records import Flat
from assent.results.table import Column, Row, Table, rows_by, tabulate
from assent.results.words import MINUS, plural
from assent.support.arrays import Bools

ANCHORS = 2
"""Of IFRQE++ here, as in the paper."""
_DRAWS = 5
"""Tells these random selections from those of others with the same seed."""
COLUMNS = (
    Column("error_ifrqe", "IFRQE error %", 100, 2, -1),
    Column("error_ifrqe++", "IFRQE++ error %", 100, 2, -1),
    Column("error_unchanged", "no change, error %", 100, 2, -1),
)


@dataclass(frozen=True)
class Approximated:
    """A task: the validation loss after training on a random selection, and what anchors predict for it."""

    number: int
    """Of the selection."""
    method: IFRQE
    """Whose influence predicts."""

    @property
    def label(self) -> str:
        """What progress bars and errors call it."""
        return f"approximation of selection {self.number}"

    def key(self, lab: Lab) -> Key:
        """Return the method's key and the selection's number."""
        return lab.key | {"kind": "approximation", "method": self.method.key, "number": self.number}

    def run(self, lab: Lab) -> Found:
        """Return mean losses: real, by one anchor, by the nearest of two, and the first anchor's own."""
        problem, settings = lab.problem, self.method.influence_for(lab.settings.model)
        rng = np.random.default_rng((lab.seed, _DRAWS, self.number))
        drawn: Bools = rng.random(len(problem.train)) < self.method.anchor_rate
        anchors = random_anchors(lab, ANCHORS, rate=self.method.anchor_rate)
        trained, *models = lab.train([Training(drawn, label=self.label), *anchors])
        near = int(np.argmin([np.count_nonzero(drawn != anchor.selection) for anchor in anchors]))
        predicted = {
            t: predicted_losses(
                linearised(lab, anchors[t], models[t], settings), drawn[None], settings, lab.seed
            )
            for t in {0, near}
        }
        real, kept = (validation_losses(problem, each, settings.loss) for each in (trained, models[0]))
        samples = problem.valid_samples().sum()
        found = {
            "model": lab.settings.model,
            "real": float(real.sum() / samples),
            "ifrqe": float(predicted[0].sum() / samples),
            "ifrqe++": float(predicted[near].sum() / samples),
            "unchanged": float(kept.sum() / samples),
        }
        return Found(facts=found)


class Approximation(Item):
    """Errors of IFRQE, IFRQE++ and of predicting no change."""

    name: ClassVar[str] = "approximation"
    title: ClassVar[str] = "Approximation of the validation loss"
    where: ClassVar[str] = "Figure 2 (a), and the appendix"
    about: ClassVar[str] = (
        "Random selections are trained on. Real and predicted losses are averaged over them; the error is "
        "|real − predicted| / real. IFRQE predicts from one anchor, IFRQE++ from the nearer of two; “no "
        "change” takes the first anchor's loss for that of every selection. Where its error is as small, the "
        "selections hardly change the mean loss, and a small error does not show that changes are predicted."
    )
    labels: ClassVar[Mapping[str, str]] = m.PLACE
    columns: ClassVar[Sequence[Column]] = COLUMNS

    def cells(self, plan: Plan) -> list[Cell]:
        """Selections for every model, data set and repeat."""
        return [
            Cell(
                plan.source(dataset),
                plan.settings(model),
                seed,
                Approximated(number, _influence_of(plan, model, dataset)),
                {"dataset": dataset},
            )
            for dataset in plan.datasets
            for model in plan.of(plan.wide_models)
            for seed in plan.seeds
            for number in range(plan.selections)
        ]

    def findings(self, plan: Plan, records: Sequence[Flat]) -> Findings:
        """The table of errors, a chart per data set, the paper's four numbers."""
        table = self.table(list(_errors(records)), f", {plan.selections} selections")
        wins = sum(_at(row, "ifrqe++") <= _at(row, "ifrqe") for row in table.rows)
        idle = sum(_at(row, "unchanged") <= _at(row, "ifrqe++") for row in table.rows)
        said = [
            f"Over {plural(len(table.rows), 'combination')} of data set and model, two anchors are at least "
            f"as accurate as one in {wins}.",
            f"In {idle} of them predicting no change at all is at least as accurate as IFRQE++.",
            table.legend,
        ]
        names = {
            "error_ifrqe": "IFRQE",
            "error_ifrqe++": "IFRQE++, two anchors",
            "error_unchanged": "no change",
        }
        pictures = charts(
            table, "dataset", along="model", x="model", y="error of the loss, %", figures=names, factor=100
        )
        return Findings(table, pictures, [*_beside(plan, table)], said)


def _influence_of(plan: Plan, model: str, dataset: str) -> IFRQE:
    method = plan.method(PAPER_METHODS["IFRQE"], model, dataset)
    assert isinstance(method, IFRQE)
    return method


def _errors(records: Sequence[Flat]) -> Iterator[Flat]:
    """One record per data set, model and repeat: errors of losses that are averaged over selections."""
    groups: dict[tuple[str, str, int], list[Flat]] = {}
    for each in records:
        groups.setdefault((each["dataset"], each["model"], each["seed"]), []).append(each)
    for (dataset, model, seed), group in groups.items():
        mean = {
            name: np.mean([each[name] for each in group])
            for name in ("real", "ifrqe", "ifrqe++", "unchanged")
        }
        errors = {
            f"error_{name}": float(abs(mean["real"] - mean[name]) / mean["real"])
            for name in ("ifrqe", "ifrqe++", "unchanged")
        }
        yield {"dataset": dataset, "model": model, "seed": seed, **errors}


def _at(row: Row, name: str) -> float:
    return row.amounts[f"error_{name}"].mean or 0.0


def _beside(plan: Plan, table: Table) -> Iterator[Beside]:
    for dataset in plan.among(("diginetica", "amazon-video-games")):
        row = table.row(dataset=dataset, model="mf")
        for column, theirs in zip(COLUMNS, ("IFRQE", "IFRQE++"), strict=False):
            found = paper.look_up("approximation_error_mf", paper.DATASETS[dataset], theirs)
            yield from beside(
                {"data set": dataset, "model": "MF"},
                column,
                found and (100 * found[0], None),
                row.amounts[column.key] if row else None,
                [*plan_reasons(plan), *data_reasons(plan, dataset), OWN_SETTINGS],
            )


class Anchors(Item):
    """IFRQE++ with more and more anchors."""

    name: ClassVar[str] = "anchors"
    title: ClassVar[str] = "Number of anchors"
    where: ClassVar[str] = "Figure 2 (b), and the appendix"
    about: ClassVar[str] = (
        "IFRQE++ at price 1 with T anchors: reward, and seconds of anchors, game and final training."
    )
    labels: ClassVar[Mapping[str, str]] = {**m.PLACE, "anchors": "T"}
    columns: ClassVar[Sequence[Column]] = (m.REWARD, m.VIOLATION, m.NDCG, m.SECONDS)

    def cells(self, plan: Plan) -> list[Cell]:
        """IFRQE++ for every T."""
        return [
            cell
            for dataset in plan.among(("diginetica", "amazon-video-games", SIMULATION))
            for model in plan.of(plan.few_models)
            for number in plan.numbers_of_anchors
            for cell in m.price_cells(
                plan, plan.source(dataset), model, [OURS], labels={"anchors": number}, anchors=number
            )
        ]

    def findings(self, plan: Plan, records: Sequence[Flat]) -> Findings:
        """The table and two charts per model: reward and seconds."""
        fewest = min(plan.numbers_of_anchors)
        table = self.table(records, ", IFRQE++, price 1", {"anchors": fewest})
        pictures = [
            chart
            for key, y in (("reward_mean", "reward"), ("seconds", "seconds"))
            for chart in charts(
                table, "model", along="anchors", x="T, anchors", y=y, figures=key, by="dataset",
                prefix=f"{self.name}-{key}", title="IFRQE++, {}",
            )
        ]  # fmt: skip
        said = [*_gains(plan, records), table.legend]
        return Findings(table, pictures, said=said, not_comparable=m.PICTURE_ONLY)


def _gains(plan: Plan, records: Sequence[Flat]) -> Iterator[str]:
    """What the plan's T, or the largest, adds to the reward of the smallest, paired by repeat."""
    few = min(plan.numbers_of_anchors)
    table = tabulate(records, Anchors.labels, [m.REWARD], reference={"anchors": few}, corrected=False)
    for (dataset, model), rows in rows_by(table.rows, "dataset", "model").items():
        rewards = {row.labels["anchors"]: row.amounts["reward_mean"] for row in rows}
        usual = plan.anchors.get(dataset)
        many = usual if usual in rewards and usual != few else max(rewards)
        found = rewards[many]
        if found.difference is not None:
            sure = "no test" if found.p is None else f"p = {found.p:.2g}"
            gain = f"{found.difference:+.4f}".replace("-", MINUS)
            yield (
                f"{dataset}, {model}: the reward with T = {many} minus that with T = {few} is {gain} on "
                f"average ({plural(found.runs or 0, 'repeat')}, paired t-test: {sure})."
            )
