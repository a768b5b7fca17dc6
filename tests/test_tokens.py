"""Audits of tokens with the sequence as the unit: two forms that agree, and an explicit formula."""

import numpy as np
import pytest
import torch
import transformers
from torch import nn

import rue
import texts
from rue.core.errors import DataError, ShapeError
from texts import NEW_TEXTS, TAGS, TEXTS, padded

METHOD = rue.LinearRUE(damping=rue.solve.NoDamping())
HESSIAN = rue.LinearRUE(damping=rue.solve.Fixed(50.0), curvature=rue.curvature.Hessian())
ENDS = ("classifier.weight", "1.attention.self.value.bias")
SELECT = [f"*{end}" for end in ENDS]


@pytest.fixture(scope="module")
def tagger():
    return texts.bert(head=transformers.BertForTokenClassification)


def by_token(net, method=METHOD):
    model = rue.wrap(rue.tokens.AtPosition(net), loss="cross_entropy", l2=0.5, select=SELECT)
    return method.fit(model, rue.tokens.rows(padded(TEXTS), TAGS))


def by_sequence(net, method=METHOD, loss=None):
    loss = loss or rue.tokens.summed("cross_entropy")
    model = rue.wrap(rue.tokens.Flattened(net), loss=loss, l2=0.5, select=SELECT)
    return method.fit(model, (padded(TEXTS), TAGS))


@pytest.mark.parametrize("method", [METHOD, HESSIAN], ids=["Gauss-Newton", "Hessian"])
def test_a_token_varies_the_same_as_a_row_in_the_group_of_its_sequence_and_as_a_part_of_it(tagger, method):
    new = padded(NEW_TEXTS, 7)
    tokens = by_token(tagger, method).audit(rue.tokens.places(new))
    sequences = by_sequence(tagger, method).audit(new)
    assert tokens.facts["units"] == sequences.facts["n"] == len(TEXTS)
    where = new["attention_mask"].bool().numpy()
    np.testing.assert_allclose(tokens.prediction, sequences.prediction.reshape(3, 7, 3)[where], rtol=1e-9)
    joint = sequences.covariance.reshape(3, 7, 3, 7, 3)
    own = np.moveaxis(np.diagonal(joint, axis1=1, axis2=3), -1, 1)  # (m, length, k, k)
    np.testing.assert_allclose(tokens.covariance, own[where], rtol=1e-6, atol=1e-12)


def test_a_token_varies_as_the_formula_over_sequences_says(tagger):
    """From plain backward passes over each text alone: the gradients of a sequence are summed, then centred."""
    parameters = list(texts.chosen(tagger, ENDS).values())

    def jacobians(text):
        outputs = tagger(input_ids=torch.tensor([text])).logits[0]
        rows = [torch.autograd.grad(value, parameters, retain_graph=True) for value in outputs.reshape(-1)]
        flat = np.array([torch.cat([part.reshape(-1) for part in row]).numpy() for row in rows])
        return flat.reshape(*outputs.shape, -1), outputs.detach().softmax(-1).numpy()

    curvature, pulls = 0.5 * np.eye(sum(p.numel() for p in parameters)), []
    for text, tags in zip(TEXTS, TAGS.tolist(), strict=True):
        pull = 0.0
        for J, p, tag in zip(*jacobians(text), tags, strict=False):
            if tag != -100:
                curvature += J.T @ (np.diag(p) - np.outer(p, p)) @ J
                pull = pull + J.T @ (p - np.eye(3)[tag])
        pulls.append(pull)
    centred = np.array(pulls) - np.mean(pulls, axis=0)
    moved = jacobians(NEW_TEXTS[0])[0] @ np.linalg.solve(curvature, centred.T)
    audit = by_token(tagger).audit(rue.tokens.places(padded(NEW_TEXTS[:1])))
    np.testing.assert_allclose(audit.std, np.linalg.norm(moved, axis=2), rtol=1e-6)


def test_the_hessian_of_the_summed_loss_is_that_of_autodiff(tagger):
    known = rue.tokens.summed("cross_entropy")
    audit = by_sequence(tagger).audit(padded(NEW_TEXTS, 7))
    plain = by_sequence(tagger, loss=known.value).audit(padded(NEW_TEXTS, 7))  # a mere callable
    np.testing.assert_allclose(audit.std, plain.std, rtol=1e-7)


def test_what_is_labelled_to_be_ignored_counts_nothing(tagger):
    other = padded(TEXTS, 9)
    longer = nn.functional.pad(TAGS, (0, 2), value=-100)
    model = rue.wrap(rue.tokens.AtPosition(tagger), loss="cross_entropy", l2=0.5, select=SELECT)
    data = rue.tokens.rows(other, longer)
    assert len(data.y) == int((TAGS != -100).sum())
    found = METHOD.fit(model, data).audit(rue.tokens.places(padded(NEW_TEXTS)))
    np.testing.assert_allclose(found.std, by_token(tagger).audit(rue.tokens.places(padded(NEW_TEXTS))).std, rtol=1e-7)


def test_a_language_model_is_audited_token_by_token_with_shifted_labels():
    """A tiny GPT with its input and output embeddings tied; the bias of a layer is varied."""
    config = transformers.GPT2Config(vocab_size=50, n_embd=16, n_layer=1, n_head=2, n_positions=16, pad_token_id=0)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        net = transformers.GPT2LMHeadModel(config).double().eval()
    inputs = padded(TEXTS)
    following = nn.functional.pad(inputs["input_ids"][:, 1:], (0, 1))
    labels = following.masked_fill(following == texts.PAD, -100)
    model = rue.wrap(rue.tokens.AtPosition(net), loss="cross_entropy", l2=0.5, select="*ln_f.bias")
    whole = rue.wrap(rue.tokens.Flattened(net), loss=rue.tokens.summed("cross_entropy"), l2=0.5, select="*ln_f.bias")
    tokens = METHOD.fit(model, rue.tokens.rows(inputs, labels)).audit(rue.tokens.places(padded(TEXTS[2:3])))
    sequences = METHOD.fit(whole, (inputs, labels)).audit(padded(TEXTS[2:3]))
    assert tokens.facts["n"] == sum(len(text) - 1 for text in TEXTS)
    np.testing.assert_allclose(tokens.std, sequences.std.reshape(7, 50), rtol=1e-6)


def test_a_sequence_model_of_numbers_has_one_output_for_each_token():
    generator = torch.Generator().manual_seed(0)
    X = torch.randn(8, 5, 2, generator=generator, dtype=torch.float64)
    y = X.sum(-1).cumsum(1)

    class Recurrent(nn.Module):
        def __init__(self):
            super().__init__()
            self.recurrent, self.head = nn.GRU(2, 3, batch_first=True), nn.Linear(3, 1)

        def forward(self, x):
            return self.head(self.recurrent(x)[0]).squeeze(-1)

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        net = Recurrent().double()
    one = rue.wrap(rue.tokens.AtPosition(net), loss="squared_error", l2=1.0)
    all_at_once = rue.wrap(rue.tokens.Flattened(net), loss="squared_error", l2=1.0)
    tokens = METHOD.fit(one, rue.tokens.rows(X, y)).audit(rue.tokens.places(X[:2]))
    sequences = METHOD.fit(all_at_once, (X, y)).audit(X[:2])
    np.testing.assert_allclose(tokens.std, sequences.std.reshape(-1), rtol=1e-7)


def test_mistakes_get_their_errors(tagger):
    with pytest.raises(ShapeError, match=r"labels have shape \(12,\), expected one for each token"):
        rue.tokens.rows(padded(TEXTS), texts.LABELS)
    with pytest.raises(DataError, match="no token is left"):
        rue.tokens.rows(padded(TEXTS), torch.full((12, 7), -100))
    with pytest.raises(ShapeError, match=r"mask has shape \(3, 7\), expected one value for each token of 12 sequences"):
        rue.tokens.places(padded(TEXTS), torch.ones(3, 7))
    with pytest.raises(ShapeError, match=r"for a row, and \(21,\) for the first rows; pad every batch to one length"):
        by_sequence(tagger).audit(padded(NEW_TEXTS, 6 + 2))
    with pytest.raises(ShapeError, match=r"returned \(12, 3\) for 12 rows|expected one label for each token"):
        METHOD.fit(
            rue.wrap(rue.tokens.Flattened(tagger), loss=rue.tokens.summed("cross_entropy"), l2=1.0),
            (padded(TEXTS), texts.LABELS),
        )
