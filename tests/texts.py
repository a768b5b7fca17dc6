"""Small language models from configurations, texts of different lengths, and an oracle that sees one text at a time."""

import numpy as np
import torch
import transformers
from torch import nn
from transformers import BatchEncoding

PAD, CLASSES = 0, 3
SIZES = {"vocab_size": 50, "num_labels": CLASSES, "pad_token_id": PAD}


def bert(attention="sdpa", head=transformers.BertForSequenceClassification):
    config = transformers.BertConfig(
        **SIZES,
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=16,
        max_position_embeddings=16,
        attn_implementation=attention,
    )
    return made(head, config)


def gpt(attention="sdpa"):
    config = transformers.GPT2Config(
        **SIZES, n_embd=16, n_layer=2, n_head=2, n_positions=16, n_inner=16, attn_implementation=attention
    )
    return made(transformers.GPT2ForSequenceClassification, config)


def made(head, config):
    """In float64 with weights far enough from zero for attention to matter, a few steps into training."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        net = head(config).double()
        for parameter in net.parameters():
            if parameter.dim() == 2:
                nn.init.normal_(parameter, std=0.3)
        optimiser = torch.optim.SGD(net.parameters(), lr=0.02)
        for _ in range(3):
            optimiser.zero_grad()
            labels = TAGS if "Token" in head.__name__ else LABELS
            net(**padded(TEXTS), labels=labels).loss.backward()
            optimiser.step()
        optimiser.zero_grad(set_to_none=True)
    return net.eval()


def padded(texts, length=None):
    """As a tokenizer gives them: ids and mask, padded on the right to the longest."""
    length = length or max(map(len, texts))
    ids = torch.tensor([[*text, *[PAD] * (length - len(text))] for text in texts])
    return BatchEncoding({"input_ids": ids, "attention_mask": (ids != PAD).long()})


_rng = np.random.default_rng(0)
TEXTS = [_rng.integers(1, 50, size=size).tolist() for size in (5, 3, 7, 4, 6, 3, 5, 7, 4, 6, 5, 3)]
NEW_TEXTS = [_rng.integers(1, 50, size=size).tolist() for size in (4, 7, 2)]
LABELS = torch.tensor([sum(text) % CLASSES for text in TEXTS])
TAGS = torch.tensor(
    [[(token % CLASSES if i else -100) for i, token in enumerate(t)] + [-100] * (7 - len(t)) for t in TEXTS]
)


def chosen(net, ends):
    """The parameters whose names end so."""
    return {name: p for name, p in net.named_parameters() if name.endswith(ends)}


def jacobian(net, parameters, text):
    """∂logits/∂θ (k, d) of a text alone and unpadded, by plain backward passes."""
    rows = []
    for j in range(CLASSES):
        net.zero_grad(set_to_none=True)
        net(input_ids=torch.tensor([text])).logits[0, j].backward()
        rows.append(torch.cat([p.grad.reshape(-1) for p in parameters.values()]).numpy())
    net.zero_grad(set_to_none=True)
    return np.array(rows)


def logits(net, text):
    with torch.no_grad():
        return net(input_ids=torch.tensor([text])).logits[0].numpy()


def covariance(net, parameters, l2, texts=TEXTS, labels=LABELS, new=NEW_TEXTS):
    """The closed form of Claim 1 with the Gauss–Newton matrix of the cross-entropy, (m, k, k), in NumPy."""
    curvature, pulls = 0.0, []
    for text, label in zip(texts, labels.tolist(), strict=True):
        J, f = jacobian(net, parameters, text), logits(net, text)
        p = np.exp(f - f.max())
        p /= p.sum()
        curvature = curvature + J.T @ (np.diag(p) - np.outer(p, p)) @ J
        pulls.append(J.T @ (p - np.eye(CLASSES)[label]))
    inverse = np.linalg.inv(curvature + l2 * np.eye(len(curvature)))
    pulls = np.array(pulls) - np.mean(pulls, axis=0)
    found = []
    for text in new:
        moved = jacobian(net, parameters, text) @ inverse @ pulls.T
        found.append(moved @ moved.T)
    return np.array(found)
