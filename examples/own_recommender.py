"""An own recommender, and which interactions to ask for when it is used.

    python examples/own_recommender.py

`Mine` represents a user by the items that they disclosed:

    s(u, i) = h_u · b_i + c_i        h_u = Σ_k o_k a_{i_k} / (1 + Σ_k o_k)

where k runs over the user's interactions and o_k is 1 if interaction k is disclosed, 0 if it is withheld. In
this folder, the command line finds the model as `--model own_recommender:Mine`.
"""

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional as F

import assent
from assent.models import Draws, Evidence, ModelSettings, Recommender, Sizes


class MineSettings(ModelSettings):
    """Settings of the model; on the command line `--set model_settings.dimension=32` changes one."""

    dimension: int = Field(16, ge=1, description="length of the embeddings")
    decay: float = Field(0.02, ge=0, description="of the L2 penalty on each sample")


class Mine(Recommender):
    """Items have one embedding as input (a), one as output (b), and a bias (c)."""

    name = "mine"
    Settings = MineSettings

    def __init__(self, sizes: Sizes, settings: MineSettings) -> None:
        super().__init__(sizes, settings)
        self.read = nn.Parameter(torch.zeros(sizes.items + 1, settings.dimension))
        self.offered = nn.Parameter(torch.zeros(sizes.items + 1, settings.dimension))
        self.liked = nn.Parameter(torch.zeros(sizes.items + 1, 1))

    def initialise(self, draws: Draws) -> None:
        """Draw small random numbers."""
        for table in self.parameters():
            draws.items(table, std=0.1)

    def prepare(self, evidence: Evidence) -> Tensor:
        """Return h of all users, [n_users + 1, dimension]: the only place where interactions are read."""
        weights = evidence.weights.unsqueeze(1)
        read = weights * F.embedding(evidence.items, self.read)
        sums = read.new_zeros(self.n_users + 1, read.shape[1]).index_add(0, evidence.users, read)
        counts = weights.new_zeros(self.n_users + 1, 1).index_add(0, evidence.users, weights)
        return sums / (1 + counts)

    def forward(self, users: Tensor, items: Tensor, prepared: Tensor) -> tuple[Tensor, Tensor]:
        """Return logits and penalties of `users[n]` with `items[n, m]`: two tensors [n, m]."""
        h, b = F.embedding(users, prepared).unsqueeze(1), F.embedding(items, self.offered)
        logits = torch.linalg.vecdot(b, h) + F.embedding(items, self.liked).squeeze(-1)
        penalties = self.settings.decay / 2 * (torch.linalg.vecdot(b, b) + torch.linalg.vecdot(h, h))
        return logits, penalties

    def score_all(self, users: Tensor, prepared: Tensor) -> Tensor:
        """Return the logits of every item, the unknown one last: [n, n_items + 1]."""
        return F.embedding(users, prepared) @ self.offered.T + self.liked.T

    @torch.no_grad()
    def finish(self) -> None:
        """Set the unknown item to the mean of the known ones; an unknown user has h = 0."""
        for table in self.parameters():
            table[-1] = table[:-1].sum(0) / max(1, self.n_items)


def main(users: int = 600, items: int = 200, epochs: int = 80, budget: float = 0.5) -> None:
    """Compare disclosing everything with `worth` at half of the violation, for this recommender."""
    log = assent.simulate(preference="learnable", users=users, items=items, seed=0)
    problem = assent.make_problem(log, "full", seed=0, negatives=20)
    settings = assent.Settings.model_validate({"model": f"{__name__}:Mine", "training": {"epochs": epochs}})
    lab = assent.Lab(problem, settings)
    for method in ("all", "worth"):
        choice = assent.make_method(method, settings.model).within(lab, budget)
        [model] = lab.train([assent.Training(choice.selection)])
        figures = assent.evaluate(problem, model, choice.selection, price=0.1)
        print(
            f"{method:8} discloses {choice.selection.sum():,} of {len(choice.selection):,} interactions, "
            f"{figures['violation_share']:.0%} of the unwillingness: NDCG@5 {figures['ndcg']:.3f}"
        )


if __name__ == "__main__":
    main()
