"""Linear layers with a smooth activation between them: the neural part of NeuMF and DIN."""

import math
from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class Perceptron(nn.Module):
    """x → W_n φ(… φ(W_1 x + b_1) …) + b_n with φ = SiLU.

    SiLU, x σ(x), stands where the papers have ReLU: it has the second derivatives that influence needs.

    The layers have a centre, around which they start and from which `drift` is measured: there they give
    `constant` plus, with `carried`, the sum of those inputs. φ(x) − φ(−x) = x for SiLU, so two units of
    opposite weights carry a number through a layer.
    """

    def __init__(self, widths: Sequence[int], *, constant: float = 0, carried: slice | None = None) -> None:
        super().__init__()
        weights = [torch.zeros(out, into) for into, out in pairwise(widths)]
        biases = [torch.zeros(out) for out in widths[1:]]
        biases[-1].fill_(constant)
        if carried is not None:
            pair = torch.tensor([[1.0, -1.0], [-1.0, 1.0]])
            weights[0][:2, carried] = pair[0].unsqueeze(1)
            for weight in weights[1:]:
                weight[:2, :2] = pair[: len(weight)]
        self.weights, self.biases = nn.ParameterList(weights), nn.ParameterList(biases)
        self.centre: Tensor
        self.register_buffer("centre", torch.cat([x.flatten() for x in weights + biases]), persistent=False)

    @torch.no_grad()
    def initialise(self, generator: torch.Generator, scale: float) -> None:
        """Weights normal around their centre with standard deviation `scale` / √inputs; biases at theirs."""
        sizes = [value.numel() for value in self.parameters()]
        for value, centre in zip(self.parameters(), torch.split(self.centre, sizes), strict=True):
            value.copy_(centre.view_as(value))
        for weight in self.weights:
            noise = torch.empty_like(weight).normal_(generator=generator)
            weight.add_(noise, alpha=scale / math.sqrt(weight.shape[1]))

    def forward(self, x: Tensor) -> Tensor:
        """The last layer's output for `x[..., inputs]`."""
        return self.after_first(F.linear(x, self.weights[0], self.biases[0]))

    def after_first(self, x: Tensor) -> Tensor:
        """The same from the first layer's output on, for callers that compute that piece by piece."""
        for weight, bias in zip(list(self.weights)[1:], list(self.biases)[1:], strict=True):
            x = F.linear(F.silu(x), weight, bias)
        return x

    def drift(self) -> Tensor:
        """The sum of the squared differences of weights and biases from their centre."""
        return (torch.cat([value.flatten() for value in self.parameters()]) - self.centre).square().sum()
