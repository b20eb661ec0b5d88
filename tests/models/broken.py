"""Recommenders that break the contract, each in one way that the checks and the tests must find."""

from typing import Any, ClassVar

import torch
from torch import Tensor

from assent.models import MF, Evidence, MFSettings, Recommender, Sizes


class NoMatrix(MF):
    name = "no-matrix"

    def forward(self, users: Tensor, items: Tensor, prepared: None = None) -> tuple[Tensor, Tensor]:
        logits, penalties = super().forward(users, items)
        return logits[:, 0], penalties


class NoPair(MF):
    name = "no-pair"

    def forward(self, users: Tensor, items: Tensor, prepared: None = None) -> Any:
        return super().forward(users, items)[0]


class NumberedLogits(MF):
    name = "numbered-logits"

    def forward(self, users: Tensor, items: Tensor, prepared: None = None) -> tuple[Tensor, Tensor]:
        logits, penalties = super().forward(users, items)
        return logits.long(), penalties


class NoPenalties(MF):
    name = "no-penalties"

    def forward(self, users: Tensor, items: Tensor, prepared: None = None) -> Any:
        return super().forward(users, items)[0], None


class InfinitePenalties(MF):
    name = "infinite-penalties"

    def forward(self, users: Tensor, items: Tensor, prepared: None = None) -> tuple[Tensor, Tensor]:
        logits, penalties = super().forward(users, items)
        return logits, penalties / 0


class Detached(MF):
    name = "detached"

    @torch.no_grad()
    def forward(self, users: Tensor, items: Tensor, prepared: None = None) -> tuple[Tensor, Tensor]:
        return super().forward(users, items)


class NoUnknown(MF):
    """Has no place for users and items that it was not trained on."""

    name = "no-unknown"

    def forward(self, users: Tensor, items: Tensor, prepared: None = None) -> tuple[Tensor, Tensor]:
        return self.user_table[:-1][users] @ self.item_table[:-1][items], self.item_table


class TwoArguments(MF):
    name = "two-arguments"

    def forward(self, users: Tensor, items: Tensor) -> tuple[Tensor, Tensor]:  # type: ignore[override]
        return super().forward(users, items)


class OtherScores(MF):
    """Ranks by something else than what it was trained for."""

    name = "other-scores"

    def score_all(self, users: Tensor, prepared: None = None) -> Tensor:
        return super().score_all(users).roll(1, dims=1)


class FewScores(MF):
    name = "few-scores"

    def score_all(self, users: Tensor, prepared: None = None) -> Tensor:
        return super().score_all(users)[:, :-1]


class OneLoss(MF):
    name = "one-loss"

    def losses(self, users: Tensor, items: Tensor, prepared: Any) -> Tensor:
        return super().losses(users, items, prepared).mean()


class SteepLosses(MF):
    """The root of 0 has no finite gradient."""

    name = "steep-losses"

    def losses(self, users: Tensor, items: Tensor, prepared: Any) -> Tensor:
        losses = super().losses(users, items, prepared)
        return losses + (self.user_table[-1] * 0).square().sum().sqrt()


class Uninitialised(MF):
    name = "uninitialised"

    @torch.no_grad()
    def initialise(self, generator: torch.Generator) -> None:
        self.user_table.fill_(float("nan"))


class DividingFinish(MF):
    name = "dividing-finish"

    @torch.no_grad()
    def finish(self) -> None:
        self.item_table[-1] = self.item_table[:-1].sum(0) / 0


class FailingFinish(MF):
    name = "failing-finish"

    def finish(self) -> None:
        raise KeyError("mean")


class FailingPrepare(MF):
    name = "failing-prepare"

    def prepare(self, evidence: Evidence) -> None:
        raise RuntimeError("no graph\nof this size")


class FailingConstructor(MF):
    name = "failing-constructor"

    def __init__(self, sizes: Sizes, settings: MFSettings) -> None:
        super().__init__(sizes, settings)
        raise ValueError("dimension must be even")


class FailingInitialise(MF):
    name = "failing-initialise"

    def initialise(self, generator: torch.Generator) -> None:
        raise TypeError("no generator wanted")


class NoParameters(Recommender):
    name = "no-parameters"
    Settings = MFSettings

    def initialise(self, generator: torch.Generator) -> None:
        """There is nothing to draw."""

    def forward(self, users: Tensor, items: Tensor, prepared: Any) -> tuple[Tensor, Tensor]:
        return torch.zeros(items.shape), torch.zeros(items.shape)

    def score_all(self, users: Tensor, prepared: Any) -> Tensor:
        return torch.zeros(len(users), self.n_items + 1)

    def finish(self) -> None:
        """There is nothing to prepare."""


class Unfinished(Recommender):
    """Leaves out two of the methods that every recommender has."""

    name = "unfinished"
    Settings = MFSettings

    def initialise(self, generator: torch.Generator) -> None:
        """There is nothing to draw."""

    def forward(self, users: Tensor, items: Tensor, prepared: Any) -> tuple[Tensor, Tensor]:
        return torch.zeros(items.shape), torch.zeros(items.shape)


class Nameless(NoParameters):
    name: ClassVar[Any] = None


class WithoutSettings(NoParameters):
    Settings: ClassVar[Any] = dict
