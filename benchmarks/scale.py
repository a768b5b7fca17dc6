"""Large networks: what a fit and an audit cost, as shares of one epoch of training on the same machine.

`python benchmarks/scale.py NAME ... [--rows N] [--size R] [--out FILE]`, on a GPU where there is one. Weights are
random but for a few steps of training, and data are simulated: only cost is measured here.
"""

import argparse
import json
import platform
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

import rue

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


class Case(NamedTuple):
    """A network, its rows, the size of a training batch, and how it is wrapped."""

    network: Callable[[], nn.Module]
    rows: Callable[[int], tuple[Tensor, Tensor]]
    count: int
    batch: int
    select: str | None = None


class Residual(nn.Module):
    """Two convolutions beside a shortcut."""

    def __init__(self, entering: int, leaving: int, stride: int):
        super().__init__()
        self.first = nn.Conv2d(entering, leaving, 3, stride, 1, bias=False)
        self.second = nn.Conv2d(leaving, leaving, 3, 1, 1, bias=False)
        self.norms = nn.ModuleList([nn.BatchNorm2d(leaving), nn.BatchNorm2d(leaving)])
        short = [nn.Conv2d(entering, leaving, 1, stride, bias=False), nn.BatchNorm2d(leaving)]
        self.short = nn.Sequential(*short) if stride > 1 or entering != leaving else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.norms[0](self.first(x)).relu()
        return (self.norms[1](self.second(hidden)) + self.short(x)).relu()


def resnet(classes: int) -> nn.Module:
    """ResNet-18 for pictures of 32×32."""
    parts: list[nn.Module] = [nn.Conv2d(3, 64, 3, 1, 1, bias=False), nn.BatchNorm2d(64), nn.ReLU()]
    width = 64
    for leaving, stride in ((64, 1), (128, 2), (256, 2), (512, 2)):
        parts += [Residual(width, leaving, stride), Residual(leaving, leaving, 1)]
        width = leaving
    return nn.Sequential(*parts, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, classes))


class Layer(nn.Module):
    """A layer of a decoder, as GPT-2 has it."""

    def __init__(self, width: int, heads: int):
        super().__init__()
        self.heads = heads
        self.norms = nn.ModuleList([nn.LayerNorm(width), nn.LayerNorm(width)])
        self.attend, self.join = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        rows, steps, width = x.shape
        parts = self.attend(self.norms[0](x)).view(rows, steps, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(*parts, is_causal=True)
        x = x + self.join(mixed.transpose(1, 2).reshape(rows, steps, width))
        return x + self.down(functional.gelu(self.up(self.norms[1](x))))


class Decoder(nn.Module):
    """GPT-2 small with a head of two classes on the last token."""

    def __init__(self, words: int = 50_257, steps: int = 256, width: int = 768, layers: int = 12, heads: int = 12):
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(steps, width)
        self.layers = nn.ModuleList([Layer(width, heads) for _ in range(layers)])
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 2)

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.words(x) + self.places(torch.arange(x.shape[1], device=x.device))
        for layer in self.layers:
            hidden = layer(hidden)
        return self.head(self.norm(hidden[:, -1]))


class LowRank(nn.Module):
    """A frozen linear layer with a trained one of rank 8 beside it (LoRA)."""

    def __init__(self, base: nn.Linear, rank: int = 8):
        super().__init__()
        self.base = base.requires_grad_(False)
        self.lora_down = nn.Linear(base.in_features, rank, bias=False)
        self.lora_up = nn.Linear(rank, base.out_features, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.base(x) + 2 * self.lora_up(self.lora_down(x))


def adapted() -> nn.Module:
    """The decoder, frozen, with adapters of its attention."""
    network = Decoder().requires_grad_(False)
    for layer in network.layers:
        layer.attend = LowRank(layer.attend)
    network.head.requires_grad_(True)
    return network


def small_convolutions() -> nn.Module:
    """A network of 34,058 parameters with group norms, ten classes."""
    parts: list[nn.Module] = []
    width = 3
    for leaving in (16, 32, 64):
        parts += [nn.Conv2d(width, leaving, 3, padding=1), nn.GroupNorm(8, leaving), nn.ReLU(), nn.MaxPool2d(2)]
        width = leaving
    return nn.Sequential(*parts, nn.Flatten(), nn.Linear(width * 16, 10))


def pictures(classes: int) -> Callable[[int], tuple[Tensor, Tensor]]:
    """Noisy pictures of 32×32 of so many patterns."""

    def drawn(count: int) -> tuple[Tensor, Tensor]:
        source = torch.Generator().manual_seed(0)
        patterns = functional.interpolate(torch.randn(classes, 3, 8, 8, generator=source), scale_factor=4)
        y = torch.randint(0, classes, (count,), generator=source)
        noise = torch.randn(count, 3, 32, 32, generator=source)
        return (patterns[y] + 1.5 * noise).to(DEVICE), y.to(DEVICE)

    return drawn


def sentences(count: int) -> tuple[Tensor, Tensor]:
    """Random tokens, whose class is whether the last is an even one."""
    source = torch.Generator().manual_seed(0)
    X = torch.randint(0, 50_257, (count, 256), generator=source)
    return X.to(DEVICE), (X[:, -1] % 2).to(DEVICE)


CASES = {
    "small": Case(small_convolutions, pictures(10), 5_000, 128),
    "resnet10": Case(lambda: resnet(10), pictures(10), 50_000, 256),
    "resnet100": Case(lambda: resnet(100), pictures(100), 50_000, 256),
    "gpt2": Case(Decoder, sentences, 10_000, 32),
    "lora": Case(adapted, sentences, 10_000, 32),
}


def measured(name: str, count: int | None, method: str, size: int | None) -> dict[str, Any]:
    """Seconds of an epoch, a fit and an audit, and the memory of the last two."""
    case = CASES[name]
    count = count or case.count
    loaded_once()
    torch.manual_seed(0)
    network = case.network().to(DEVICE)
    X, y = case.rows(count)
    epoch = epoch_seconds(network, X, y, case.batch)
    network.eval()
    model = rue.wrap(network, loss=nn.CrossEntropyLoss(), **({} if method != "linear" else {"l2": 1e-4}))
    audited = min(count, 5_000)
    planned = _planned(model, X, y, audited) if method == "linear" and size is None else {}
    before = 0
    if DEVICE == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
    solver = {} if size is None else {"solver": rue.solve.Sketch(size)}
    chosen = rue.LinearRUE(**solver) if method == "linear" else rue.ClassifierRUE(**solver)
    fit, auditor = timed(lambda: chosen.fit(model, (X, y)))
    audit, result = timed(lambda: auditor.audit(X[:audited]))
    return {
        "case": name,
        "method": method,
        "rows": count,
        "parameters": sum(p.numel() for p in network.parameters() if p.requires_grad),
        "epoch_s": epoch,
        "fit_s": fit,
        "fit_epochs": fit / epoch,
        "audit_epochs": audit / epoch * count / audited,
        "audit_rows_per_s": audited / audit,
        "memory_gib": torch.cuda.max_memory_allocated() / 2**30 if DEVICE == "cuda" else None,
        "more_gib": (torch.cuda.max_memory_allocated() - before) / 2**30 if DEVICE == "cuda" else None,
        "audit_s": audit,
        **planned,
        "coordinates": result.facts.get("projected_to"),
        "read_off_layers": result.facts.get("read_off_layers"),
        "whole_gradients": result.facts.get("whole_gradients"),
        "device": torch.cuda.get_device_name() if DEVICE == "cuda" else platform.machine(),
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
    }


def _planned(model: rue.Model, X: Tensor, y: Tensor, audited: int) -> dict[str, Any]:
    """What a plan says of this case, and how long it takes to say so."""
    planning, plan = timed(lambda: rue.plan(model, (X, y), inputs=X[:audited]))
    assert plan.chosen is not None, plan
    return {
        "planned": plan.chosen.name,
        "planning_s": planning,
        "planned_fit_s": plan.chosen.seconds_fit,
        "planned_audit_s": plan.chosen.seconds_audit,
        "planned_gib": plan.chosen.bytes / 2**30,
    }


def loaded_once() -> None:
    """Fit and audit something small, so that libraries and kernels are loaded before anything is timed."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(1, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(288, 3)).to(DEVICE)
    X, y = torch.randn(300, 1, 8, 8, device=DEVICE), torch.arange(300, device=DEVICE) % 3
    for method in (rue.LinearRUE(solver=rue.solve.Sketch(500)), rue.ClassifierRUE()):
        method.fit(rue.wrap(net.eval(), loss=nn.CrossEntropyLoss(), l2=1.0), (X, y)).audit(X[:9])


def epoch_seconds(network: nn.Module, X: Tensor, y: Tensor, batch: int, steps: int = 30) -> float:
    """Seconds of one epoch by AdamW, from some of its steps."""
    optimizer = torch.optim.AdamW([p for p in network.parameters() if p.requires_grad], lr=1e-3)
    parts = list(torch.randperm(len(X)).split(batch))

    def some(rows: list[Tensor]) -> None:
        for part in rows:
            optimizer.zero_grad()
            functional.cross_entropy(network(X[part]), y[part]).backward()
            optimizer.step()

    few = [part for part in parts if len(part) == batch][: steps + 5]
    some(few[:5])
    seconds, _ = timed(lambda: some(few[5:]))
    return seconds * len(X) / sum(map(len, few[5:]))


def timed(do: Callable[[], Any]) -> tuple[float, Any]:
    if DEVICE == "cuda":
        torch.cuda.synchronize()
    start = time.perf_counter()
    result = do()
    if DEVICE == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter() - start, result


def main() -> None:
    """Measure the cases that are named, and write one line of JSON for each."""
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="+", choices=CASES)
    parser.add_argument("--rows", type=int)
    parser.add_argument("--size", type=int)
    parser.add_argument("--method", choices=("linear", "default"), default="default")
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    for name in asked.names:
        line = json.dumps(measured(name, asked.rows, asked.method, asked.size))
        print(line, flush=True)
        if asked.out is not None:
            with asked.out.open("a") as file:
                file.write(line + "\n")


if __name__ == "__main__":
    main()
