"""First derivatives by all parameters of a model at once, as flat vectors [P]."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Parameters:
    """The parameters of a model, one after another; derivatives are 0 where there is no dependence."""

    tensors: tuple[Tensor, ...]

    def zeros(self) -> Tensor:
        """A vector of zeros: [P]."""
        return self.flat([None] * len(self.tensors))

    def flat(self, parts: Sequence[Tensor | None]) -> Tensor:
        """A tensor for each parameter, None being 0, as one vector: [P]."""
        filled = zip(parts, self.tensors, strict=True)
        return torch.cat(
            [(torch.zeros_like(like) if part is None else part).flatten() for part, like in filled]
        )

    def slopes(
        self, output: Tensor, along: Tensor | None = None, *, create: bool = False, retain: bool = False
    ) -> Tensor:
        """∇_θ of a number, or of outputs weighted with `along`: [P].

        With `create` it can be differentiated again, with `retain` the output can.
        """
        if not output.requires_grad:
            return self.zeros()
        parts = torch.autograd.grad(
            output, self.tensors, along, create_graph=create, retain_graph=create or retain, allow_unused=True
        )
        return self.flat(parts)

    def constants(self, output: Tensor) -> Tensor:
        """∇_θ of a number whose graph is kept, itself not to be differentiated again: [P]."""
        return self.slopes(output, retain=True).detach()
