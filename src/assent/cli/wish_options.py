"""The options for what people ask for beyond their unwillingness."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated

import typer

from assent.cli.console import notice
from assent.data.asked import read_wishes
from assent.data.interactions import Interactions
from assent.data.problem import Problem
from assent.data.wishes import USUAL_PRIOR
from assent.game.objective import Objective
from assent.game.strategy import Strategy
from assent.methods import Method
from assent.methods.ifrqe_pp import IFRQEpp
from assent.settings import Settings

_WISHES = "Wishes"

ByCategory = Annotated[
    bool,
    typer.Option(
        "--by-category",
        help="One decision for all of a person's interactions with a category.",
        rich_help_panel=_WISHES,
    ),
]
UserBudget = Annotated[
    str | None,
    typer.Option(
        metavar="NUMBER|RULES|FILE",
        help="The most unwillingness to disclose of a person: 3, or ann=2,\\*=5, or a file.",
        rich_help_panel=_WISHES,
        show_default=False,
    ),
]
UserFloor = Annotated[
    str | None,
    typer.Option(
        metavar="NUMBER|RULES|FILE",
        help="The least number of interactions to disclose of a person, given likewise.",
        rich_help_panel=_WISHES,
        show_default=False,
    ),
]
Prior = Annotated[
    str | None,
    typer.Option(
        metavar="NUMBER|RULES|FILE",
        help="Probability of disclosing that `nash`, or a table, starts from, given likewise, or by user and "
        f"item. Default: {USUAL_PRIOR:g}.",
        rich_help_panel=_WISHES,
        show_default=False,
    ),
]
Utility = Annotated[
    str,
    typer.Option(
        help="What disclosing costs a person: price times her violation (`linear`), its square "
        "(`quadratic`) or another power (`power:1.5`).",
        rich_help_panel=_WISHES,
    ),
]


@dataclass(frozen=True)
class WishOptions:
    """What people ask for beyond their unwillingness."""

    by_category: ByCategory = False
    user_budget: UserBudget = None
    user_floor: UserFloor = None
    prior: Prior = None
    utility: Utility = "linear"

    def warn_if_idle(self, methods: Sequence[Method], settings: Settings) -> None:
        """Say so where a prior is given and no method starts from it."""
        is_table = settings.strategy is Strategy.TABLE
        start = [
            each
            for each in methods
            if isinstance(each, IFRQEpp) and (is_table or each.objective is Objective.NASH)
        ]
        is_one_game = settings.anchors + settings.adaptive == 1 or settings.value.is_pooled
        if self.prior is not None and (not start or is_one_game):
            notice(
                "--prior changes nothing here: ifrqe++ alone starts from it, with nash or tables, several "
                "anchors and --value influence"
            )

    def added(self, log: Interactions, problem: Problem) -> Problem:
        """The problem with these wishes."""
        return replace(problem, wishes=read_wishes(log, problem, **vars(self)))
