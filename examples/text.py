"""Short reviews, good or bad: which verdicts would another set of reviews have turned around?

Batches are dicts with an attention mask and the labels inside, each padded to its own longest text.

Run: python examples/text.py
"""

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader

import rue

GOOD, BAD = ["lovely", "great", "warm", "clean", "friendly"], ["dull", "cold", "dirty", "rude", "broken"]
OTHER = ["the", "room", "staff", "food", "was", "and", "very", "we", "stayed", "nights", "breakfast", "bed", "view"]
WORDS = ["<pad>", *GOOD, *BAD, *OTHER]
rng = np.random.default_rng(0)


def review() -> tuple[str, int]:
    """Mostly words that say nothing, a few that do; one verdict in ten is odd."""
    good = rng.random() < 0.5
    said = rng.choice(GOOD if good else BAD, size=rng.integers(0, 3)).tolist()
    words = rng.permutation([*rng.choice(OTHER, size=rng.integers(3, 8)), *said])
    return " ".join(words), int(good if rng.random() < 0.9 else not good)


def collate(reviews: list[tuple[str, int]]) -> dict[str, torch.Tensor]:
    """As a tokenizer would: ids, mask and labels, as long as the longest text of the batch."""
    texts = [[WORDS.index(word) for word in text.split()] for text, _ in reviews]
    ids = torch.tensor([text + [0] * (max(map(len, texts)) - len(text)) for text in texts])
    return {"input_ids": ids, "attention_mask": (ids > 0).float(), "labels": torch.tensor([k for _, k in reviews])}


class Classifier(nn.Module):
    """The mean of the words' embeddings, and two layers."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(len(WORDS), 6, padding_idx=0)
        self.layers = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 2))

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        weight = attention_mask.unsqueeze(-1)
        return self.layers((weight * self.embedding(input_ids)).sum(1) / weight.sum(1))


reviews, new = [review() for _ in range(300)], [review() for _ in range(100)]
train = DataLoader(reviews, batch_size=32, shuffle=True, collate_fn=collate)

# The objective is the mean cross-entropy + ½·0.01·‖θ‖².
torch.manual_seed(0)
net = Classifier()
optimiser = torch.optim.Adam(net.parameters(), lr=0.01, weight_decay=0.01)
for _ in range(60):
    for batch in train:
        optimiser.zero_grad()
        labels = batch.pop("labels")
        nn.functional.cross_entropy(net(**batch), labels).backward()
        optimiser.step()

model = rue.wrap(net.eval(), loss="cross_entropy", l2=0.01, reduction="mean")
auditor = rue.LinearRUE().fit(model, train)
audit = auditor.audit(DataLoader(new, batch_size=32, collate_fn=collate))

print("the verdict and the chance that another set of reviews would have turned it around, the least certain first:")
for i in np.argsort(-audit.flip_probability)[:6]:
    verdict = ("bad", "good")[audit.label[i]]
    print(f"  {verdict:4} {audit.probability[i].max():4.0%}  turned {audit.flip_probability[i]:4.0%}  {new[i][0]}")

right = audit.label == [label for _, label in new]
sure = audit.flip_probability < np.median(audit.flip_probability)
print(f"right among the surer half: {right[sure].mean():.0%}, among the others: {right[~sure].mean():.0%}")

spread = np.sqrt(np.einsum("i,mij,j->m", [-1, 1], audit.covariance, [-1, 1]))
print(f"the log odds of a review would change by about {np.median(spread):.2f} (the median of n = {len(new)})")
