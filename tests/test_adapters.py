"""LoRA adapters of `peft`, against a module with the same adapters written by hand."""

import copy

import numpy as np
import peft
import pytest
import torch
from torch import nn

import rue
import texts
from snapshot import changed, module_picture, world_picture
from texts import LABELS, NEW_TEXTS, TEXTS, padded

METHOD = rue.LinearRUE(damping=rue.solve.NoDamping())
RANK, ALPHA = 2, 4


class Adapted(nn.Module):
    """x W + b + (α/r) x A B, with W and b at rest."""

    def __init__(self, plain):
        super().__init__()
        self.plain = plain.requires_grad_(False)
        self.lora_A = nn.Parameter(torch.zeros(RANK, plain.in_features, dtype=torch.float64))
        self.lora_B = nn.Parameter(torch.zeros(plain.out_features, RANK, dtype=torch.float64))

    def forward(self, x):
        return self.plain(x) + ALPHA / RANK * (x @ self.lora_A.T @ self.lora_B.T)


@pytest.fixture(scope="module")
def pair():
    """The same adapted network, by peft and by hand, with the head trained beside the adapters."""
    base = texts.bert()
    by_hand = copy.deepcopy(base)
    config = peft.LoraConfig(task_type="SEQ_CLS", r=RANK, lora_alpha=ALPHA, target_modules=["query"])
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        by_peft = peft.get_peft_model(base, config).double().eval()
        by_hand.requires_grad_(False)
        by_hand.classifier.requires_grad_(True)
        for ours, theirs in zip(by_hand.bert.encoder.layer, by_peft.base_model.model.bert.encoder.layer, strict=True):
            adapter = theirs.attention.self.query
            nn.init.normal_(adapter.lora_B["default"].weight, std=0.3)  # as after training
            ours.attention.self.query = Adapted(ours.attention.self.query)
            ours.attention.self.query.lora_A.data.copy_(adapter.lora_A["default"].weight)
            ours.attention.self.query.lora_B.data.copy_(adapter.lora_B["default"].weight)
    return by_peft, by_hand


ADAPTERS = 2 * (RANK * 16 + 16 * RANK)
HEAD = 16 * 3 + 3


@pytest.mark.parametrize(
    ("select", "d"),
    [(None, ADAPTERS + HEAD), ("*lora_*", ADAPTERS), ("*classifier*default*", HEAD)],
    ids=["what was trained", "the adapters", "the head"],
)
def test_adapters_are_audited_as_those_written_by_hand(pair, select, d):
    by_peft, by_hand = pair
    ours = {None: None, "*lora_*": "*lora_*"}.get(select, "classifier.*")
    found, expected = (
        METHOD.fit(rue.wrap(net, loss="cross_entropy", l2=0.5, select=globs), (padded(TEXTS), LABELS)).audit(
            padded(NEW_TEXTS)
        )
        for net, globs in ((by_peft, select), (by_hand, ours))
    )
    assert found.facts["d"] == expected.facts["d"] == d
    np.testing.assert_allclose(found.covariance, expected.covariance, rtol=1e-6)
    with torch.no_grad():
        np.testing.assert_array_equal(found.prediction, by_peft(**padded(NEW_TEXTS)).logits)


def test_the_adapters_are_audited_as_plain_backward_passes_over_single_texts_say(pair):
    net = pair[0]
    audit = METHOD.fit(rue.wrap(net, loss="cross_entropy", l2=0.5, select="*lora_B*"), (padded(TEXTS), LABELS)).audit(
        padded(NEW_TEXTS)
    )
    parameters = {name: p for name, p in net.named_parameters() if "lora_B" in name}
    np.testing.assert_allclose(audit.covariance, texts.covariance(net, parameters, l2=0.5), rtol=1e-6)


def test_a_network_with_adapters_is_as_it_was(pair):
    net = pair[0]
    picture, world = module_picture(net), world_picture()
    METHOD.fit(rue.wrap(net, loss="cross_entropy", l2=0.5), (padded(TEXTS), LABELS)).audit(padded(NEW_TEXTS))
    assert changed(picture, module_picture(net)) == []
    assert changed(world, world_picture()) == []
