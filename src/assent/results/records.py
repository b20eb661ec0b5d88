"""The record of one trained model, and what methods and metrics are called.

Records are kept, printed and tabulated in their flat form (`Flat`), a mapping that JSON can hold. All metrics
and `violation_share` are fractions in [0, 1].
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from assent.support.errors import AssentError

Flat = Mapping[str, Any]
"""A record as JSON has it. Items of a reproduction add labels of their own."""
Way = tuple[str, str]
"""A method and its objective ("" for methods without one)."""
ALL: Way = ("all", "")
NOTHING: Way = ("nothing", "")
ENDS = (ALL, NOTHING)
REFERENCES = ("all", "nothing")
"""Methods without a budget: they are the ends of the frontier."""
DEFAULT_K = 5
METRICS: Mapping[str, str] = {
    "precision": "Precision", "recall": "Recall", "f1": "F1", "ndcg": "NDCG", "mrr": "MRR", "hit": "Hit",
}  # fmt: skip
"""Metrics by key, with their names."""
FIGURES = (
    "violation", "violation_share", "reward_sum", "reward_mean", *METRICS, "seconds", "trainings",
)  # fmt: skip
"""The keys of a record that are measured; the others say what was measured."""
DEAREST = 1e100
"""The largest price: rewards stay finite."""
METHOD = "method_name"
"""The label that holds `name(way)`, for tables and charts."""


@dataclass(frozen=True)
class Record:
    """One model: what it was trained for, what it discloses, how well it ranks, what it cost."""

    dataset: str
    model: str
    method: str
    objective: str
    """Empty for methods without one."""
    price: float
    """Of a unit of unwillingness, in the rewards."""
    seed: int
    violation: float
    violation_share: float
    """Of All's violation."""
    reward_sum: float
    reward_mean: float
    precision: float
    recall: float
    f1: float
    ndcg: float
    mrr: float
    hit: float
    seconds: float
    trainings: int
    """Models that the choice rests on, and the final one."""
    decision_price: float | None = None
    """Price at which the method decided; None where it knows none."""
    point: float | None = None
    """Budget as a share of All's violation; None without a budget."""
    k: int = DEFAULT_K
    """How many items the metrics look at."""
    settings: str = ""
    """Settings of the final model, as found: `dimension 64, strength 0.2`."""
    further: Mapping[str, float] = field(default_factory=dict)
    """Metrics at other k, by keys like `ndcg@10`."""

    def flat(self) -> dict[str, Any]:
        """The record as a flat mapping: the fields, then the metrics at other k."""
        own = {each.name: getattr(self, each.name) for each in fields(self) if each.name != "further"}
        return own | dict(self.further)

    @classmethod
    def from_flat(cls, flat: Flat) -> "Record":
        """The record of a flat mapping; one without `k` is at 5. Labels that are no field are left out."""
        known = {each.name for each in fields(cls)} - {"further"}
        if missing := sorted(known - {"decision_price", "point", "k", "settings"} - flat.keys()):
            raise AssentError(f"record: lacks {', '.join(missing)}")
        further = {key: flat[key] for key in flat if "@" in key and key.partition("@")[0] in METRICS}
        return cls(**{key: flat[key] for key in known & flat.keys()}, further=further)


def check_price(price: float) -> None:
    """Refuse a price at which nothing can be decided or written down."""
    if not 0 <= price <= DEAREST:
        raise AssentError(f"price {price:g}: accepted: a number from 0 to {DEAREST:g}")


def way_of(record: Flat) -> Way:
    """The method and objective of a record."""
    return record["method"], record.get("objective") or ""


def named(records: Iterable[Flat]) -> list[dict[str, Any]]:
    """The records with the label `METHOD`."""
    return [{**record, METHOD: name(way_of(record))} for record in records]


def k_of(records: Sequence[Flat]) -> int:
    """The k of the records' metrics, 5 where they do not say; records at different k are refused."""
    found = {record.get("k", DEFAULT_K) for record in records} or {DEFAULT_K}
    if len(found) > 1:
        raise AssentError(f"records: metrics at k of {', '.join(map(str, sorted(found)))}; accepted: one k")
    return int(found.pop())


def metric_name(key: str, records: Sequence[Flat]) -> str:
    """A metric with its k: NDCG@5 for `ndcg`, NDCG@10 for `ndcg@10`."""
    metric, _, k = key.partition("@")
    return f"{METRICS[metric]}@{k or k_of(records)}"


def figure_keys(records: Sequence[Flat]) -> list[str]:
    """The keys of all figures: those of every record, then metrics at further k."""
    return [*FIGURES, *(key for metric in METRICS for key in metric_keys(metric, records)[1:])]


def metric_keys(metric: str, records: Sequence[Flat]) -> list[str]:
    """The keys of a metric at every k that the records have, the main one first."""
    others = dict.fromkeys(key for record in records for key in record if key.startswith(f"{metric}@"))
    return [metric, *sorted(others, key=lambda key: int(key.partition("@")[2]))]


_METHODS: Mapping[str, tuple[str, str]] = {
    "all": ("All", "uses everything, as recommenders do today."),
    "nothing": ("Nothing", "uses no interaction at all."),
    "random": ("Random", "draws lots."),
    "threshold": ("Threshold", "uses what its owner minds least, whatever it is worth."),
    "occurrence": ("Occurrence", "uses what many others have too and its owner minds little."),
    "worth": (
        "Worth",
        "weighs worth against unwillingness; worth comes from paths between people and from cross-fitted "
        "influence, as far as trials on validation rows confirm each.",
    ),
    "ifrqe": ("IFRQE", "weighs what each interaction is estimated to be worth against what its owner minds."),
    "ifrqe++": ("IFRQE++", "weighs worth against unwillingness, with estimates from several trained models."),
    "proactive": ("Proactive", "learns by trial, a training each, what people would rather disclose."),
    "scratch": ("SCR", "tries selections out, a training each, to see what each interaction is worth."),
}
_OBJECTIVES: Mapping[str, str] = {
    "welfare": "counts what an interaction does for everybody.",
    "nash": "counts only what an interaction does for its owner.",
    "nash, zero": "plays as if no interaction did anything: a null, which shows what influence adds.",
    "nash, permuted": "plays with the influence of other interactions, drawn by lot: a null.",
    "nash, tables": "counts only what an interaction does for its owner, in the paper's tables.",
}


def name(way: Way) -> str:
    """A method as readers see it, with its objective: IFRQE++ (welfare)."""
    method, objective = way
    label = _METHODS[method][0] if method in _METHODS else method
    return f"{label} ({objective})" if objective else label


WAYS: Mapping[str, Way] = {
    name((method, objective)): (method, objective) for method in _METHODS for objective in ("", *_OBJECTIVES)
}
"""Every known method with each objective, by its name."""


def described(ways: Sequence[Way]) -> list[tuple[str, str]]:
    """Name and description of the known methods and objectives among `ways`, each once."""
    methods, objectives = {way[0] for way in ways}, {way[1] for way in ways}
    return [
        *(text for method, text in _METHODS.items() if method in methods),
        *((f"({objective})", text) for objective, text in _OBJECTIVES.items() if objective in objectives),
    ]
