"""Rows are rows, however they are handed in: everything here equals the audit of plain arrays."""

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    Dataset,
    IterableDataset,
    RandomSampler,
    SequentialSampler,
    Subset,
    SubsetRandomSampler,
    TensorDataset,
    WeightedRandomSampler,
    default_collate,
)

import cases
import oracles
import rue
from rue.core.curvature import GaussNewton
from rue.core.errors import DataError
from rue.core.solve import NoDamping
from rue.data.opening import training_rows

CASE = cases.softplus()
N = len(CASE.y)
ROWS = TensorDataset(CASE.X, CASE.y)
ORDER = [7, 3, 0, 12, 19, 1, 16, 4, 9, 10, 2, 5, 18, 6, 8, 11, 13, 17, 14, 15]
SOME = [5, 2, 11, 17, 0, 8, 14, 3]
WEIGHT = np.linspace(0.1, 2.0, N)


def audit_of(data, inputs=None, model=None):
    model = CASE.wrap() if model is None else model
    return rue.LinearRUE().fit(model, data).audit(CASE.X_new if inputs is None else inputs)


def plain(rows=slice(None), **settings):
    """The audit of plain arrays."""
    return audit_of(rue.Data(CASE.X[rows], CASE.y[rows], **settings))


def assert_same(audit, expected, rtol=1e-9):
    for name in ("prediction", "std", "noise_std", "score"):
        np.testing.assert_allclose(getattr(audit, name), getattr(expected, name), rtol=rtol, err_msg=name)
    assert [audit.facts[name] for name in ("n", "units", "d")] == [expected.facts[name] for name in ("n", "units", "d")]


# Arrays


def frame():
    return pd.DataFrame(CASE.X.numpy(), columns=["age", "dose"], index=np.arange(N)[::-1])


ARRAYS = {
    "tensors": lambda: (CASE.X, CASE.y),
    "arrays": lambda: (CASE.X.numpy(), CASE.y.numpy()),
    "a list of two": lambda: [CASE.X, CASE.y],
    "rue.Data": lambda: rue.Data(CASE.X, CASE.y),
    "a frame and a series": lambda: (frame(), pd.Series(CASE.y.numpy(), index=frame().index)),
    "a frame and a frame": lambda: (frame(), pd.DataFrame({"effect": CASE.y.numpy()})),
    "a frame that allows missing values": lambda: (
        frame().convert_dtypes(),
        pd.Series(CASE.y.numpy()).convert_dtypes(),
    ),
    "targets (n, 1) as a tensor": lambda: (CASE.X, CASE.y[:, None]),
    "targets (n, 1) as an array": lambda: (CASE.X.numpy(), CASE.y.numpy()[:, None]),
    "arrays that cannot be written": lambda: (np.broadcast_to(CASE.X.numpy(), CASE.X.shape), CASE.y),
    "arrays stored backwards": lambda: (CASE.X.numpy()[::-1].copy()[::-1], CASE.y.numpy()[::-1].copy()[::-1]),
    "arrays by columns": lambda: (np.asfortranarray(CASE.X.numpy()), CASE.y),
    "arrays in the other byte order": lambda: (CASE.X.numpy().astype(">f8"), CASE.y.numpy().astype(">f8")),
    "arrays in extended precision": lambda: (CASE.X.numpy().astype(np.longdouble), CASE.y),
    "tensors that carry a graph": lambda: (2 * (CASE.X / 2).requires_grad_(), CASE.y.clone().requires_grad_()),
}


@pytest.mark.parametrize("kind", ARRAYS)
def test_arrays_tensors_and_frames_are_the_same_rows(kind):
    assert_same(audit_of(ARRAYS[kind]()), plain())


@pytest.mark.parametrize("kind", ["tensors", "arrays", "a frame and a series"])
def test_inputs_to_audit_may_be_arrays_tensors_or_frames(kind):
    X_new = {
        "tensors": CASE.X_new,
        "arrays": CASE.X_new.numpy(),
        "a frame and a series": pd.DataFrame(CASE.X_new.numpy(), columns=["age", "dose"]),
    }
    assert_same(audit_of((CASE.X, CASE.y), X_new[kind]), plain())


def test_whole_numbers_in_a_frame_are_features():
    X = (10 * CASE.X).round()
    whole = pd.DataFrame(X.numpy().astype(int))
    assert_same(audit_of((whole, CASE.y), whole), audit_of((X, CASE.y), X))


def test_truth_values_beside_numbers_in_a_frame_are_features():
    X = torch.stack([CASE.X[:, 0], (CASE.X[:, 1] > 0).double()], dim=1)
    mixed = pd.DataFrame({"age": X[:, 0].numpy(), "treated": X[:, 1].numpy().astype(bool)})
    assert_same(audit_of((mixed, CASE.y), mixed), audit_of((X, CASE.y), X))


def test_labels_in_a_series_stay_whole_numbers():
    case = cases.softmax()
    audit = audit_of((case.X, pd.Series(case.y.numpy())), case.X_new, case.wrap())
    np.testing.assert_allclose(audit.score, audit_of((case.X, case.y), case.X_new, case.wrap()).score, rtol=1e-9)


@pytest.mark.parametrize("given", ["float32", "float64"])
@pytest.mark.parametrize("trained", ["float32", "float64"])
def test_data_is_read_in_the_dtype_of_the_model(trained, given):
    module = cases.softplus().module.to(getattr(torch, trained))
    model = rue.wrap(module, loss="squared_error", l2=0.3)
    X, y, X_new = (part.numpy().astype(given) for part in (CASE.X, CASE.y, CASE.X_new))
    expected = [torch.from_numpy(part).to(getattr(torch, trained)) for part in (X, y, X_new)]
    audit = audit_of((X, y), X_new, model)
    assert_same(audit, audit_of((expected[0], expected[1]), expected[2], model))
    assert audit.facts["dtype"] == trained
    np.testing.assert_allclose(audit.std, plain().std, rtol=1e-4)


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
@pytest.mark.parametrize("method", [rue.LinearRUE(), rue.RUE(members=20)], ids=["LinearRUE", "RUE"])
def test_an_audit_is_the_same_where_gradients_are_switched_off(method, mode):
    expected = method.fit(CASE.wrap(), (CASE.X, CASE.y)).audit(CASE.X_new)
    with mode():
        audit = method.fit(CASE.wrap(), (CASE.X, CASE.y)).audit(CASE.X_new)
    assert_same(audit, expected)


@pytest.mark.parametrize("method", [rue.LinearRUE(), rue.RUE(members=20)], ids=["LinearRUE", "RUE"])
def test_features_made_in_inference_mode_are_rows_like_any_other(method):
    with torch.inference_mode():
        X, X_new = CASE.X.clone(), CASE.X_new.clone()
    audit = method.fit(CASE.wrap(), (X, CASE.y)).audit(X_new)
    assert_same(audit, method.fit(CASE.wrap(), (CASE.X, CASE.y)).audit(CASE.X_new))


# Datasets and loaders


class Samples(Dataset):
    """Rows as people write them: an array and a number."""

    def __len__(self):
        return N

    def __getitem__(self, i):
        return CASE.X[i].numpy(), float(CASE.y[i])


class Batches(Dataset):
    """Yields four rows at a time."""

    def __len__(self):
        return N // 4

    def __getitem__(self, i):
        return CASE.X[4 * i : 4 * i + 4], CASE.y[4 * i : 4 * i + 4]


class Stream(IterableDataset):
    def __iter__(self):
        return zip(CASE.X, CASE.y, strict=True)


class Counted(Stream):
    def __len__(self):
        return len(CASE.y)


def test_a_long_stream_is_read_only_if_it_says_how_long_it_is(monkeypatch):
    monkeypatch.setattr("rue.data.loaders.UNCOUNTED", len(CASE.y) - 1)
    for stream in (Stream(), DataLoader(Stream(), batch_size=4)):
        with pytest.raises(DataError, match="__len__"):
            training_rows(stream, CASE.wrap())
    for stream in (Counted(), DataLoader(Counted(), batch_size=4)):
        assert training_rows(stream, CASE.wrap())[0].n == len(CASE.y)


def swapped(samples):
    """A collate_fn for samples that are stored targets first."""
    y, X = default_collate(samples)
    return X, y


def generator(seed=5):
    return torch.Generator().manual_seed(seed)


ALL_ROWS = {
    "a TensorDataset": lambda: ROWS,
    "a dataset of one's own": Samples,
    "a subset of all": lambda: Subset(ROWS, ORDER),
    "a stream": Stream,
    "a plain loader": lambda: DataLoader(ROWS, batch_size=6),
    "a loader of a dataset of one's own": lambda: DataLoader(Samples(), batch_size=6),
    "a loader of single rows": lambda: DataLoader(ROWS, batch_size=1),
    "a loader of one batch": lambda: DataLoader(ROWS, batch_size=100),
    "a loader that shuffles": lambda: DataLoader(ROWS, batch_size=6, shuffle=True),
    "a loader that shuffles by a generator": lambda: DataLoader(ROWS, 6, shuffle=True, generator=generator()),
    "a loader of a subset of all": lambda: DataLoader(ROWS, 6, sampler=SubsetRandomSampler(ORDER)),
    "a loader whose sampler yields tensors": lambda: DataLoader(ROWS, 6, sampler=torch.tensor(ORDER)),
    "a loader that drops nothing": lambda: DataLoader(ROWS, batch_size=5, shuffle=True, drop_last=True),
    "a loader by a batch sampler": lambda: DataLoader(ROWS, batch_sampler=BatchSampler(ORDER, 6, drop_last=False)),
    "a loader without batches of its own": lambda: DataLoader(Batches(), batch_size=None),
    "a loader whose sampler yields batches": lambda: DataLoader(
        ROWS, batch_size=None, sampler=BatchSampler(SequentialSampler(ROWS), 6, drop_last=False)
    ),
    "a loader with a collate_fn": lambda: DataLoader(TensorDataset(CASE.y, CASE.X), 6, collate_fn=swapped),
    "a loader of a stream": lambda: DataLoader(Stream(), batch_size=6),
    "a loader of a list": lambda: DataLoader(list(zip(CASE.X, CASE.y, strict=True)), batch_size=6),
}


@pytest.mark.parametrize("kind", ALL_ROWS)
def test_datasets_and_loaders_are_the_same_rows(kind):
    assert_same(audit_of(ALL_ROWS[kind]()), plain())


def test_a_loader_of_a_subset_audits_the_rows_really_read():
    audit = audit_of(DataLoader(ROWS, batch_size=3, sampler=SubsetRandomSampler(SOME)))
    assert audit.facts["n"] == len(SOME)
    assert_same(audit, plain(SOME))


def test_a_loader_that_drops_its_last_batch_audits_the_rows_really_read():
    audit = audit_of(DataLoader(ROWS, batch_size=6, drop_last=True))
    assert audit.facts["n"] == 18
    assert_same(audit, plain(slice(18)))


def test_rows_drawn_twice_count_twice_and_remain_one_unit():
    def sampler():
        return WeightedRandomSampler(torch.arange(1.0, N + 1), 30, replacement=True, generator=generator())

    drawn = list(sampler())
    assert len(set(drawn)) < 30
    audit = audit_of(DataLoader(ROWS, batch_size=7, sampler=sampler()))
    assert audit.facts["n"] == 30
    assert audit.facts["units"] == len(set(drawn))
    assert_same(audit, plain(drawn, group=drawn))


def test_groups_of_other_types_are_other_groups():
    labels = np.array([1, "1", 2, 2, 3, 3, *range(10, 10 + N - 6)], dtype=object)
    assert plain(group=labels).facts["units"] == N - 2


OWNERS = {
    "the loader": lambda own: DataLoader(ROWS, batch_size=6, shuffle=True, generator=own),
    "the sampler": lambda own: DataLoader(ROWS, batch_size=6, sampler=SubsetRandomSampler(SOME, generator=own)),
    "the sampler within the batch sampler": lambda own: DataLoader(
        ROWS, batch_sampler=BatchSampler(RandomSampler(ROWS, generator=own), 6, drop_last=False)
    ),
    "the loader of a stream": lambda own: DataLoader(Stream(), batch_size=6, generator=own),
}


@pytest.mark.parametrize("owner", OWNERS)
def test_the_generator_is_as_it_was_when_it_belongs_to(owner):
    own = generator()
    loader = OWNERS[owner](own)
    before = own.get_state()
    rue.LinearRUE().fit(CASE.wrap(), loader).audit(loader)
    assert torch.equal(own.get_state(), before)


def test_one_seed_gives_one_audit_of_a_subset_that_is_drawn():
    def loader():
        return DataLoader(ROWS, batch_size=6, sampler=RandomSampler(ROWS, num_samples=12, generator=generator()))

    assert_same(audit_of(loader()), audit_of(loader()), rtol=0)


INPUTS = {
    "a dataset with targets": lambda: TensorDataset(CASE.X_new, torch.zeros(len(CASE.X_new))),
    "a dataset without targets": lambda: TensorDataset(CASE.X_new),
    "a loader with targets": lambda: DataLoader(TensorDataset(CASE.X_new, torch.zeros(len(CASE.X_new))), batch_size=4),
    "a loader without targets": lambda: DataLoader(TensorDataset(CASE.X_new), batch_size=4),
    "a loader of rows": lambda: DataLoader(CASE.X_new, batch_size=4),
}


@pytest.mark.parametrize("kind", INPUTS)
def test_inputs_to_audit_and_to_predict_may_be(kind):
    auditor = rue.LinearRUE().fit(CASE.wrap(), (CASE.X, CASE.y))
    assert_same(auditor.audit(INPUTS[kind]()), plain())
    np.testing.assert_array_equal(auditor.predict(INPUTS[kind]()), auditor.predict(CASE.X_new))


# Inputs of several parts


class TwoArguments(nn.Module):
    """Both features, one by one."""

    def __init__(self):
        super().__init__()
        self.net = cases.softplus().module

    def forward(self, age, dose):
        return self.net(torch.cat([age, dose], dim=1))


class SecondArgumentOptional(TwoArguments):
    def forward(self, age, dose=None):
        return self.net(torch.cat([age, torch.zeros_like(age) if dose is None else dose], dim=1))


class NamedArguments(TwoArguments):
    def forward(self, *, age, dose):
        return self.net(torch.cat([age, dose], dim=1))


class OneDict(TwoArguments):
    def forward(self, features):
        return self.net(torch.cat([features["age"], features["dose"]], dim=1))


class OnePair(TwoArguments):
    def forward(self, features):
        return self.net(torch.cat(list(features), dim=1))


def as_dict(X):
    return {"age": X[:, :1], "dose": X[:, 1:]}


def as_tuple(X):
    return X[:, :1], X[:, 1:]


def as_frames(X):
    return {name: pd.DataFrame(part.numpy()) for name, part in as_dict(X).items()}


@pytest.mark.parametrize(
    ("module", "parts"),
    [
        (TwoArguments, as_tuple),
        (TwoArguments, as_dict),
        (TwoArguments, as_frames),
        (SecondArgumentOptional, as_tuple),
        (SecondArgumentOptional, as_dict),
        (NamedArguments, as_dict),
        (OneDict, as_dict),
        (OnePair, as_tuple),
    ],
)
def test_inputs_of_several_parts_reach_the_forward_that_wants_them(module, parts):
    model = rue.wrap(module(), loss="squared_error", l2=0.3)
    assert_same(audit_of((parts(CASE.X), CASE.y), parts(CASE.X_new), model), plain())


@pytest.mark.parametrize("parts", [as_tuple, as_dict])
@pytest.mark.parametrize("loaded", [False, True])
def test_a_dataset_of_several_parts_reaches_the_forward_that_wants_them(parts, loaded):
    rows = [parts(CASE.X[i : i + 1]) for i in range(N)]
    unbatched = [
        tuple(leaf[0] for leaf in row) if isinstance(row, tuple) else {name: leaf[0] for name, leaf in row.items()}
        for row in rows
    ]
    samples = list(zip(unbatched, CASE.y, strict=True))

    class Parts(Dataset):
        def __len__(self):
            return N

        def __getitem__(self, i):
            return samples[i]

    data = DataLoader(Parts(), batch_size=6) if loaded else Parts()
    model = rue.wrap(TwoArguments(), loss="squared_error", l2=0.3)
    assert_same(audit_of(data, parts(CASE.X_new), model), plain())


# Weights and groups


def laplace(data):
    method = rue.Laplace(linearised=True, curvature=GaussNewton(), damping=NoDamping())
    return method.fit(CASE.wrap(), data).audit(CASE.X_new)


@pytest.mark.filterwarnings("ignore:copies")
def test_whole_weights_are_repeated_rows_to_curvature_and_noise():
    counts = np.arange(N) % 3
    rows = np.repeat(np.arange(N), counts)
    weighted, repeated = laplace(rue.Data(CASE.X, CASE.y, weight=counts)), laplace((CASE.X[rows], CASE.y[rows]))
    np.testing.assert_allclose(weighted.std, repeated.std, rtol=1e-9)
    np.testing.assert_allclose(weighted.noise_std, repeated.noise_std, rtol=1e-9)
    assert (weighted.facts["n"], repeated.facts["n"]) == (N, len(rows))


def test_weights_of_one_are_no_weights():
    assert_same(plain(weight=np.ones(N)), plain())


def test_weights_stand_in_the_sandwich_as_in_the_objective():
    G = oracles.gauss_newton(CASE.module, CASE.row_loss, CASE.X, CASE.y, CASE.l2, WEIGHT)
    L = oracles.gradient_matrix(CASE.module, CASE.row_loss, CASE.X, CASE.y, WEIGHT)
    expected = oracles.closed_form(oracles.output_jacobian(CASE.module, CASE.X_new), G, L)
    np.testing.assert_allclose(plain(weight=WEIGHT).covariance, expected, rtol=1e-8, atol=1e-14)


@pytest.mark.parametrize("kind", ["list", "array", "tensor", "series"])
def test_weights_may_be_a(kind):
    weight = {"list": WEIGHT.tolist(), "array": WEIGHT, "tensor": torch.tensor(WEIGHT), "series": pd.Series(WEIGHT)}
    assert_same(plain(weight=weight[kind]), plain(weight=WEIGHT))


SHUFFLED = {
    "a list": lambda: DataLoader(ROWS, batch_size=6, sampler=ORDER),
    "a tensor": lambda: DataLoader(ROWS, batch_size=6, sampler=torch.tensor(ORDER)),
    "a subset drawn from a tensor": lambda: DataLoader(ROWS, 6, sampler=SubsetRandomSampler(torch.tensor(ORDER))),
    "an array": lambda: DataLoader(ROWS, batch_size=6, sampler=np.array(ORDER)),
    "shuffling": lambda: DataLoader(ROWS, batch_size=6, shuffle=True),
    "a batch sampler": lambda: DataLoader(ROWS, batch_sampler=BatchSampler(ORDER, 6, drop_last=False)),
    "a sampler of batches": lambda: DataLoader(ROWS, batch_size=None, sampler=BatchSampler(ORDER, 6, drop_last=False)),
}


@pytest.mark.parametrize("order", SHUFFLED)
def test_a_loaders_weights_and_groups_go_by_the_row_of_the_dataset_ordered_by(order):
    group = np.arange(N) // 3
    audit = audit_of(rue.Data(SHUFFLED[order](), weight=WEIGHT, group=group))
    assert_same(audit, plain(weight=WEIGHT, group=group))


@pytest.mark.parametrize("indices", [SOME, torch.tensor(SOME)], ids=["numbers", "tensors"])
def test_a_subset_keeps_the_weights_and_groups_of_its_rows(indices):
    group = np.arange(N) // 4
    loader = DataLoader(ROWS, batch_size=3, sampler=SubsetRandomSampler(indices))
    audit = audit_of(rue.Data(loader, weight=WEIGHT, group=group))
    assert_same(audit, plain(SOME, weight=WEIGHT[SOME], group=group[SOME]))
    assert audit.facts["units"] == len(set(group[SOME]))


def test_groups_of_one_row_each_are_no_groups():
    assert_same(plain(group=ORDER), plain())


def test_groups_are_summed_before_they_are_resampled():
    group = np.arange(N) % 6
    G = oracles.gauss_newton(CASE.module, CASE.row_loss, CASE.X, CASE.y, CASE.l2)
    L = oracles.grouped(oracles.gradient_matrix(CASE.module, CASE.row_loss, CASE.X, CASE.y), group)
    expected = oracles.closed_form(oracles.output_jacobian(CASE.module, CASE.X_new), G, L)
    audit = plain(group=group)
    np.testing.assert_allclose(audit.covariance, expected, rtol=1e-8, atol=1e-14)
    assert (audit.facts["n"], audit.facts["units"]) == (N, 6)


LABELS = {
    "words": lambda group: [f"patient {label}" for label in group],
    "a tensor": torch.tensor,
    "a series": pd.Series,
    "a category": lambda group: pd.Series(group).astype("category"),
    "fractions": lambda group: group / 7,
    "pairs of rows with words and numbers": lambda group: np.array([str(g) if g % 2 else g for g in group], object),
}


@pytest.mark.parametrize("kind", LABELS)
def test_group_labels_may_be(kind):
    group = np.arange(N) % 6
    assert_same(plain(group=LABELS[kind](group)), plain(group=group))


# What was trained


def test_selecting_the_last_layer_equals_the_oracle_restricted_to_its_block():
    block = slice(12, 17)  # after 4·2 weights and 4 biases
    G = oracles.gauss_newton(CASE.module, CASE.row_loss, CASE.X, CASE.y, CASE.l2)[block, block]
    L = oracles.gradient_matrix(CASE.module, CASE.row_loss, CASE.X, CASE.y)[block]
    expected = oracles.closed_form(oracles.output_jacobian(CASE.module, CASE.X_new)[..., block], G, L)
    for select in ("2.*", ["2.weight", "2.bias"], ["2.bias", "2.*"]):
        audit = audit_of((CASE.X, CASE.y), model=CASE.wrap(select=select))
        np.testing.assert_allclose(audit.covariance, expected, rtol=1e-8, atol=1e-14)
        np.testing.assert_array_equal(audit.prediction, plain().prediction)
        assert audit.facts["d"] == 5


def test_frozen_parameters_are_left_out():
    frozen = cases.softplus()
    frozen.module[0].requires_grad_(False)
    audit = audit_of((CASE.X, CASE.y), model=frozen.wrap())
    assert audit.facts["d"] == 5
    assert_same(audit, audit_of((CASE.X, CASE.y), model=CASE.wrap(select="2.*")))


def test_tied_weights_count_once():
    case = cases.tied()
    assert audit_of((case.X, case.y), case.X_new, case.wrap()).facts["d"] == 9 + 3 + 1
    by_either_name = [audit_of((case.X, case.y), case.X_new, case.wrap(select=f"{name}.*")) for name in TIED]
    assert_same(*by_either_name, rtol=0)
    assert by_either_name[0].facts["d"] == 9


TIED = ("first", "second")


@pytest.mark.parametrize("globs", [("*",), ("*weight", "*bias"), ("0.*", "2.*"), ("0.weight", "0.bias", "2.*")])
def test_l2_by_globs_equals_one_number_where_all_are_equal(globs):
    model = CASE.wrap(l2=dict.fromkeys(globs, CASE.l2))
    assert_same(audit_of((CASE.X, CASE.y), model=model), plain(), rtol=0)


def test_l2_by_globs_is_each_parameters_own():
    own = np.repeat([0.5, 0.0, 2.0, 0.0], [8, 4, 4, 1])
    G = oracles.gauss_newton(CASE.module, CASE.row_loss, CASE.X, CASE.y, 0.0) + np.diag(own)
    L = oracles.gradient_matrix(CASE.module, CASE.row_loss, CASE.X, CASE.y)
    expected = oracles.closed_form(oracles.output_jacobian(CASE.module, CASE.X_new), G, L)
    audit = audit_of((CASE.X, CASE.y), model=CASE.wrap(l2={"0.weight": 0.5, "2.weight": 2}))
    np.testing.assert_allclose(audit.covariance, expected, rtol=1e-6, atol=1e-14)
    assert audit.facts["damping"] == 0


@pytest.mark.parametrize("method", [rue.LinearRUE(), rue.RUE(members=20)], ids=["LinearRUE", "RUE"])
@pytest.mark.parametrize("weight", [None, WEIGHT], ids=["no weights", "weights"])
def test_the_penalty_of_a_mean_is_scaled_by_the_sum_of_the_weights(method, weight):
    data = rue.Data(CASE.X, CASE.y, weight=weight)
    total = N if weight is None else weight.sum()
    mean = method.fit(CASE.wrap(reduction="mean", l2=0.05), data).audit(CASE.X_new)
    assert_same(mean, method.fit(CASE.wrap(l2=0.05 * total), data).audit(CASE.X_new))


def test_the_penalty_of_a_mean_counts_the_rows_really_read():
    loader = DataLoader(ROWS, batch_size=3, sampler=SubsetRandomSampler(SOME))
    mean = audit_of(loader, model=CASE.wrap(reduction="mean", l2=0.05))
    assert_same(mean, audit_of((CASE.X[SOME], CASE.y[SOME]), model=CASE.wrap(l2=0.05 * len(SOME))))


@pytest.mark.parametrize("reduction", ["sum", "mean"])
@pytest.mark.parametrize("method", [rue.LinearRUE(), rue.RUE(members=20)], ids=["LinearRUE", "RUE"])
def test_a_penalty_of_half_the_squares_is_l2(method, reduction):
    def half_squares(parameters):
        return 0.5 * 0.3 * sum(part.square().sum() for part in parameters.values())

    by_hand = CASE.wrap(l2=None, penalty=half_squares, reduction=reduction)
    by_name = CASE.wrap(l2=0.3, reduction=reduction)
    audits = [method.fit(model, (CASE.X, CASE.y)).audit(CASE.X_new) for model in (by_hand, by_name)]
    assert_same(*audits)


def test_l2_and_a_penalty_add_up():
    def a_third(parameters):
        return 0.5 * 0.1 * sum(part.square().sum() for part in parameters.values())

    assert_same(audit_of((CASE.X, CASE.y), model=CASE.wrap(l2=0.2, penalty=a_third)), plain())
