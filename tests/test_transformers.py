"""Language models as `transformers` and `peft` have them, against plain backward passes over one text at a time."""

import copy
import warnings

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader

import rue
import texts
from rue.core import derivatives, products
from rue.core.errors import DataError, ModelError, RueWarning, ShapeError
from rue.data.opening import training_rows
from snapshot import changed, module_picture, world_picture
from texts import LABELS, NEW_TEXTS, TEXTS, padded

METHOD = rue.LinearRUE(damping=rue.solve.NoDamping())
NETS = {
    "BERT, eager": lambda: (texts.bert("eager"), ("classifier.weight", "1.attention.self.query.bias")),
    "BERT, sdpa": lambda: (texts.bert("sdpa"), ("classifier.weight", "1.attention.self.query.bias")),
    "GPT, eager": lambda: (texts.gpt("eager"), ("score.weight", "0.attn.c_attn.bias")),
    "GPT, sdpa": lambda: (texts.gpt("sdpa"), ("score.weight", "0.attn.c_attn.bias")),
}
every_net = pytest.mark.parametrize("name", NETS)


def wrapped(net, ends, **settings):
    return rue.wrap(net, loss="cross_entropy", l2=0.5, select=[f"*{end}" for end in ends], **settings)


@pytest.fixture(scope="module")
def small():
    return NETS["BERT, sdpa"]()


@every_net
def test_the_audit_of_a_text_classifier_is_the_dense_formula_over_texts_one_by_one(name):
    net, ends = NETS[name]()
    audit = METHOD.fit(wrapped(net, ends), (padded(TEXTS), LABELS)).audit(padded(NEW_TEXTS))
    expected = texts.covariance(net, texts.chosen(net, ends), l2=0.5)
    np.testing.assert_allclose(audit.covariance, expected, rtol=1e-6, atol=1e-12)
    with torch.no_grad():
        np.testing.assert_array_equal(audit.prediction, net(**padded(NEW_TEXTS)).logits.numpy())


@every_net
def test_rows_together_have_the_derivatives_of_rows_one_by_one(name, monkeypatch):
    """Where a mask is built in a way that cannot be vectorised, the loop takes over: slower, never other numbers."""
    net, ends = NETS[name]()
    rows, model = training_rows((padded(TEXTS), LABELS), wrapped(net, ends))
    inputs = model.read(padded(NEW_TEXTS))
    block = torch.stack([model.theta, 1.1 * model.theta])

    def found():
        return (
            derivatives.jacobian(model, inputs),
            derivatives.pulled_back(model, inputs, torch.ones(3, texts.CLASSES, dtype=torch.float64)),
            derivatives.member_outputs(model, block, inputs),
            products.hessian_product(model, rows, block),
            products.gauss_newton_product(model, rows, block),
        )

    together = found()
    monkeypatch.setattr(derivatives, "first_that_works", lambda _, alone, argument, *_rest, **_named: alone(argument))
    for fast, slow in zip(together, found(), strict=True):
        torch.testing.assert_close(fast, slow, rtol=1e-9, atol=1e-12)


@every_net
def test_the_hessian_is_that_of_plain_autograd(name):
    net, ends = NETS[name]()
    rows, model = training_rows((padded(TEXTS), LABELS), wrapped(net, ends))
    parameters = list(texts.chosen(net, ends).values())
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        loss = nn.functional.cross_entropy(net(**padded(TEXTS)).logits, LABELS, reduction="sum")
        slope = torch.cat([g.reshape(-1) for g in torch.autograd.grad(loss, parameters, create_graph=True)])
        picked = range(0, len(slope), 9)
        expected = [
            torch.cat([g.reshape(-1) for g in torch.autograd.grad(slope[i], parameters, retain_graph=True)])
            for i in picked
        ]
    directions = torch.eye(len(slope), dtype=torch.float64)[list(picked)]
    found = products.hessian_product(model, rows, directions)
    torch.testing.assert_close(found, torch.stack(expected), rtol=1e-7, atol=1e-10)


def test_single_precision_gives_nearly_the_same_audit(small):
    net, ends = small
    single = copy.deepcopy(net).float()
    found, expected = (
        METHOD.fit(wrapped(one, ends), (padded(TEXTS), LABELS)).audit(padded(NEW_TEXTS)) for one in (single, net)
    )
    np.testing.assert_allclose(found.std, expected.std, rtol=2e-3)


def rows_with_labels():
    return [{"ids": text, "label": label} for text, label in zip(TEXTS, LABELS.tolist(), strict=True)]


def collate(rows):
    """Dynamic padding: every batch as long as its longest text."""
    return padded([row["ids"] for row in rows]) | {"labels": torch.tensor([row["label"] for row in rows])}


LOADERS = {
    "one batch": lambda: DataLoader(rows_with_labels(), batch_size=12, collate_fn=collate),
    "batches of their own length": lambda: DataLoader(rows_with_labels(), batch_size=5, collate_fn=collate),
    "texts one by one, shuffled": lambda: DataLoader(
        rows_with_labels(), batch_size=1, shuffle=True, collate_fn=collate
    ),
    "a dict with labels": lambda: {**padded(TEXTS), "labels": LABELS},
    "a longer padding": lambda: (padded(TEXTS, 12), LABELS),
    "a tuple of tensors": lambda: (tuple(padded(TEXTS).values()), LABELS),
}


@pytest.mark.parametrize("loader", LOADERS)
def test_the_audit_does_not_depend_on_how_texts_are_padded_and_batched(loader, small):
    net, ends = small
    expected = METHOD.fit(wrapped(net, ends), (padded(TEXTS), LABELS)).audit(padded(NEW_TEXTS))
    found = METHOD.fit(wrapped(net, ends), LOADERS[loader]()).audit(padded(NEW_TEXTS))
    np.testing.assert_allclose(found.covariance, expected.covariance, rtol=1e-7)


def test_audited_texts_may_come_in_batches_of_their_own_length(small):
    net, ends = small
    auditor = METHOD.fit(wrapped(net, ends), LOADERS["one batch"]())
    found = auditor.audit(LOADERS["batches of their own length"]())
    expected = auditor.audit(padded(TEXTS))
    np.testing.assert_allclose(found.prediction, expected.prediction, rtol=1e-9)
    np.testing.assert_allclose(found.std, expected.std, rtol=1e-7)


@pytest.mark.parametrize("method", [rue.RUE(seed=0), rue.Laplace(), rue.BootstrapSGD()], ids=lambda m: type(m).__name__)
def test_every_method_of_the_models_own_takes_dynamic_padding(method, small):
    net, ends = small
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RueWarning)
        found, expected = (
            method.fit(wrapped(net, ends), LOADERS[loader]()).audit(padded(NEW_TEXTS))
            for loader in ("batches of their own length", "one batch")
        )
    np.testing.assert_allclose(found.std, expected.std, rtol=1e-6)


def test_distances_between_texts_of_different_lengths_are_refused(small):
    with pytest.raises(ShapeError, match=r"10 to 14 features per row.*pad all to the longest"):
        rue.NearestNeighbours(neighbours=2).fit(wrapped(*small), LOADERS["batches of their own length"]())


class Strict(nn.Module):
    """Takes ids and a mask, and nothing called labels."""

    def __init__(self, net):
        super().__init__()
        self.net = net

    def forward(self, input_ids, attention_mask):
        return {"logits": self.net(input_ids=input_ids, attention_mask=attention_mask).logits, "hidden": None}


def test_labels_never_reach_the_forward(small):
    net, ends = small
    expected = METHOD.fit(wrapped(net, ends), LOADERS["one batch"]()).audit(padded(TEXTS))
    auditor = METHOD.fit(wrapped(Strict(net), ends), LOADERS["one batch"]())
    found = auditor.audit({**padded(TEXTS), "labels": LABELS})
    np.testing.assert_allclose(found.std, expected.std, rtol=1e-9)


def test_labels_and_targets_together_are_refused(small):
    with pytest.raises(DataError, match="X has 'labels' and y is given too"):
        METHOD.fit(wrapped(*small), ({**padded(TEXTS), "labels": LABELS}, LABELS))


def test_an_output_without_logits_is_refused_with_a_way_to_pick(small):
    net = small[0].bert
    model = rue.wrap(net, loss="cross_entropy", l2=1.0)
    with pytest.raises(
        ModelError, match="with last_hidden_state, pooler_output, expected one tensor or an object with"
    ):
        METHOD.fit(model, (padded(TEXTS), LABELS))


def test_a_part_that_the_forward_does_not_take_is_named(small):
    inputs = {**padded(TEXTS), "token_type_ids": torch.zeros(12, 7, dtype=torch.long)}
    with pytest.raises(ModelError, match="have token_type_ids, which the module's forward does not take"):
        METHOD.fit(wrapped(Strict(small[0]), small[1]), (inputs, LABELS))


def test_positions_are_inputs_like_any_other(small):
    net, ends = small
    positions = torch.arange(7).repeat(12, 1)
    found = METHOD.fit(wrapped(net, ends), ({**padded(TEXTS), "position_ids": positions}, LABELS)).audit(padded(TEXTS))
    expected = METHOD.fit(wrapped(net, ends), (padded(TEXTS), LABELS)).audit(padded(TEXTS))
    np.testing.assert_array_equal(found.std, expected.std)


def test_frozen_embeddings_are_not_audited():
    net = texts.bert()
    net.bert.embeddings.requires_grad_(False)
    model = rue.wrap(net, loss="cross_entropy", l2=0.5)
    assert model.theta.numel() == sum(p.numel() for p in net.parameters() if p.requires_grad)
    assert not [name for name in model.describe()["parameters"] if "embeddings" in name]


def test_the_last_layer_alone_is_audited_as_a_linear_model_of_its_features(small):
    net, _ = small
    inner = {}
    handle = net.classifier.register_forward_hook(lambda _, inputs, __: inner.update(x=inputs[0].detach()))
    features = []
    for batch in (padded(TEXTS), padded(NEW_TEXTS)):
        net(**batch)
        features.append(inner["x"])
    handle.remove()
    head = nn.Linear(16, 3).double()
    head.load_state_dict(net.classifier.state_dict())
    expected = METHOD.fit(rue.wrap(head, loss="cross_entropy", l2=0.5), (features[0], LABELS)).audit(features[1])
    model = rue.wrap(net, loss="cross_entropy", l2=0.5, select="classifier.*")
    found = METHOD.fit(model, (padded(TEXTS), LABELS)).audit(padded(NEW_TEXTS))
    assert found.facts["d"] == 16 * 3 + 3
    np.testing.assert_allclose(found.std, expected.std, rtol=1e-6)


def test_the_network_and_the_world_are_bit_identical_after_an_audit(small):
    net, ends = small
    picture, world = module_picture(net), world_picture()
    METHOD.fit(wrapped(net, ends), LOADERS["texts one by one, shuffled"]()).audit(padded(NEW_TEXTS))
    assert changed(picture, module_picture(net)) == []
    assert changed(world, world_picture()) == []
