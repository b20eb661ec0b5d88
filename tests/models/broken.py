"""Recommenders that break the contract, each in one way that the checks and the tests must find."""

from typing import Any, ClassVar

import torch
from torch import Tensor

from assent.models import MF, Draws, Evidence, MFSettings, Recommender, Sizes


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


class OtherVectors(MF):
    """Would be served by others with other scores than its own."""

    name = "other-vectors"

    def vectors(self, prepared: None = None) -> tuple[Tensor, Tensor]:
        return self.user_table, -self.item_table


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
    def initialise(self, draws: Draws) -> None:
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

    def initialise(self, draws: Draws) -> None:
        raise TypeError("no draws wanted")


class NoParameters(Recommender):
    name = "no-parameters"
    Settings = MFSettings

    def initialise(self, draws: Draws) -> None:
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

    def initialise(self, draws: Draws) -> None:
        """There is nothing to draw."""

    def forward(self, users: Tensor, items: Tensor, prepared: Any) -> tuple[Tensor, Tensor]:
        return torch.zeros(items.shape), torch.zeros(items.shape)


class Nameless(NoParameters):
    name: ClassVar[Any] = None


class WithoutSettings(NoParameters):
    Settings: ClassVar[Any] = dict


class GlobalDice(MF):
    """Draws its initial parameters from torch's own generator."""

    name = "global-dice"

    @torch.no_grad()
    def initialise(self, draws: Draws) -> None:
        self.user_table[:-1].normal_(std=0.1)
        self.item_table[:-1].normal_(std=0.1)


class PositionalDice(MF):
    """Draws the items after the users, so that everybody's start depends on how many there are."""

    name = "positional-dice"

    @torch.no_grad()
    def initialise(self, draws: Draws) -> None:
        self.user_table[:-1].normal_(std=0.1, generator=draws.generator)
        self.item_table[:-1].normal_(std=0.1, generator=draws.generator)


class LoadedDice(MF):
    """Starts the same whatever the seed."""

    name = "loaded-dice"

    def initialise(self, draws: Draws) -> None:
        super().initialise(Draws.numbered(self.sizes))


class Constant(MF):
    """Scores everything alike."""

    name = "constant"

    def forward(self, users: Tensor, items: Tensor, prepared: None = None) -> tuple[Tensor, Tensor]:
        same = self.item_table.mean()
        return same.expand(items.shape), same.square().expand(items.shape)

    def score_all(self, users: Tensor, prepared: None = None) -> Tensor:
        return self.item_table.mean().expand(len(users), self.n_items + 1)


class Gossip(MF):
    """Remembers, for the whole class, every interaction that it has ever been shown."""

    name = "gossip"
    heard: ClassVar[Tensor] = torch.zeros(200, 1000)

    def prepare(self, evidence: Evidence) -> None:
        self.heard[evidence.users, evidence.items] = 1

    def _rumour(self, users: Tensor) -> Tensor:
        return 0.01 * self.heard.sum(1)[users].unsqueeze(1)

    def forward(self, users: Tensor, items: Tensor, prepared: None = None) -> tuple[Tensor, Tensor]:
        logits, penalties = super().forward(users, items)
        return logits + self._rumour(users), penalties

    def score_all(self, users: Tensor, prepared: None = None) -> Tensor:
        return super().score_all(users) + self._rumour(users)


class Forgetful(MF):
    """Keeps something that its scores depend on where it is not saved."""

    name = "forgetful"
    calls = 0

    def losses(self, users: Tensor, items: Tensor, prepared: Any) -> Tensor:
        self.calls += 1
        return super().losses(users, items, prepared)

    def forward(self, users: Tensor, items: Tensor, prepared: None = None) -> tuple[Tensor, Tensor]:
        logits, penalties = super().forward(users, items)
        return logits * (1 + self.calls / 100), penalties

    def score_all(self, users: Tensor, prepared: None = None) -> Tensor:
        return super().score_all(users) * (1 + self.calls / 100)


class Drifting(MF):
    """Changes with every `finish`."""

    name = "drifting"

    @torch.no_grad()
    def finish(self) -> None:
        self.item_table[-1] += self.item_table[:-1].mean(0)


class AlwaysDropping(MF):
    """Dropout that does not ask whether this is training."""

    name = "always-dropping"

    def prepare(self, evidence: Evidence) -> Tensor:
        return torch.rand(self.settings.dimension)

    def forward(self, users: Tensor, items: Tensor, prepared: Any = None) -> tuple[Tensor, Tensor]:
        p, q = self.user_table[users], self.item_table[items]
        return torch.linalg.vecdot(q, (p * prepared).unsqueeze(1)), torch.zeros(items.shape)

    def score_all(self, users: Tensor, prepared: Any = None) -> Tensor:
        mine: Tensor = self.user_table[users] * prepared
        return mine @ self.item_table.T


class Histories(MF):
    """A user is the mean of their items, if there are any."""

    name = "histories"

    def _weights(self, evidence: Evidence) -> Tensor:
        return evidence.weights

    def _means(self, sums: Tensor, counts: Tensor) -> Tensor:
        return sums / counts.clamp(min=1)

    def prepare(self, evidence: Evidence) -> Tensor:
        weights = self._weights(evidence).unsqueeze(1)
        shape = (self.n_users + 1, self.settings.dimension)
        sums = weights.new_zeros(shape).index_add(
            0, evidence.users, self.item_table[evidence.items] * weights
        )
        counts = weights.new_zeros(shape[0], 1).index_add(0, evidence.users, weights)
        return self._means(sums, counts)

    def forward(self, users: Tensor, items: Tensor, prepared: Any = None) -> tuple[Tensor, Tensor]:
        logits = torch.linalg.vecdot(self.item_table[items], prepared[users].unsqueeze(1))
        return logits, torch.zeros_like(logits)

    def score_all(self, users: Tensor, prepared: Any = None) -> Tensor:
        mine: Tensor = prepared[users]
        return mine @ self.item_table.T


class EveryRowCounts(Histories):
    """Reads rows of weight 0 as if they were there."""

    name = "every-row-counts"

    def _weights(self, evidence: Evidence) -> Tensor:
        return torch.ones_like(evidence.weights)


class CutWeights(Histories):
    """Reads the weights, but is not differentiable by them."""

    name = "cut-weights"

    def _weights(self, evidence: Evidence) -> Tensor:
        return evidence.weights.detach()


class EmptyMean(Histories):
    """Divides by zero for a user without a history."""

    name = "empty-mean"

    def _means(self, sums: Tensor, counts: Tensor) -> Tensor:
        return torch.where(torch.arange(len(counts)).unsqueeze(1) < self.n_users, sums / counts, 0)
