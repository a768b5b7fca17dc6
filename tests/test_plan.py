"""The plan of a fit: what every way costs, which is chosen, and what is refused before it begins."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from rue.errors import ModelError, ResourceError, SettingError
from torch import nn

import rue
from rue.core import costs, memory
from rue.core.plan import AuditSize, Rates, planned
from rue.core.solve.choice import beyond
from rue.core.solve.dual import Dual
from rue.core.solve.projection import Projection
from rue.core.solve.sketch import Sketch, affordable_size
from rue.core.solve.streamed_dual import StreamedDual
from sketch_cases import Packed, made

SIZE = AuditSize(n=500, units=500, d=3_000, k=2, m=100, itemsize=4, largest=8_000)
RATES = Rates(
    bound=0.1, forward=1e-5, gradient=1e-4, looped=False, multiplication=1e-10, number=1e-9, passing=0, sketch=None
)


def problem(width, n, k=1, l2=0.1):
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh(), nn.Linear(width, k)).eval()
    X = torch.randn(n, 4)
    y = X[:, 0] if k == 1 else torch.randint(0, k, (n,))
    return rue.wrap(net, loss="squared_error" if k == 1 else nn.CrossEntropyLoss(), l2=l2), X, y


@pytest.mark.parametrize(
    ("width", "n", "k", "solver"),
    [(8, 40, 1, "Cholesky()"), (100, 60, 1, "Dual()"), (60, 60, 3, "Dual()"), (95, 2_800, 3, "Sketch(1024)")],
)
@pytest.mark.filterwarnings("ignore::rue.errors.RueWarning")
def test_a_fit_takes_the_way_that_is_planned(width, n, k, solver, monkeypatch):
    monkeypatch.setattr("rue.core.solve.sketch.WORK", {"cpu": 1e9})  # a small sketch, to be quick
    model, X, y = problem(width, n, k)
    plan = rue.plan(model, (X, y), inputs=X[:5])
    assert plan.chosen.name == solver
    facts = rue.LinearRUE().fit(model, (X, y)).facts
    sketched = facts.get("projected_to") is not None
    assert facts["solver"].startswith("Sketch(size=1024" if sketched else solver.removesuffix("()"))


@pytest.mark.filterwarnings("error:.*too many for an exact solve")
def test_few_rows_of_a_network_whose_gradients_are_too_many_are_solved_exactly(monkeypatch):
    monkeypatch.setattr("rue.core.solve.sketch.WORK", {"cpu": 1e9})  # a small sketch is probed, to be quick
    monkeypatch.setattr("rue.core.solve.choice.NUMBERS", 10**6)
    model, X, y = problem(100, 60, 3)
    plan = rue.plan(model, (X, y), inputs=X[:5])
    assert plan.chosen.name == "StreamedDual()"
    assert plan.chosen.answer == "exact"
    assert rue.LinearRUE().fit(model, (X, y)).facts["coordinates"] <= 60 * 3 + 1 + 3
    unstated = rue.plan(problem(100, 60, 3, l2=None)[0], (X, y))
    assert unstated.chosen.name.startswith("Sketch")
    assert "no l2 is stated" in next(way.refused for way in unstated.ways if way.name == "StreamedDual()")
    monkeypatch.setattr("rue.methods.planning.MULTIPLICATIONS", {"cpu": 1e6})
    slow = rue.plan(model, (X, y))
    assert slow.chosen.name.startswith("Sketch")
    assert "multiplications" in next(way.refused for way in slow.ways if way.name == "StreamedDual()")


@pytest.mark.parametrize("column", ["bytes", "passes", "seconds_fit", "seconds_audit"])
def test_no_cost_falls_as_rows_or_outputs_grow(column):
    for more in (SIZE._replace(n=700, units=700), SIZE._replace(k=5), SIZE._replace(m=300), SIZE._replace(d=4_000)):
        less, large = (
            {way.name: getattr(way, column) for way in costs.every(each, 2**40, _rates(each), None)}
            for each in (SIZE, more)
        )
        if column == "passes":  # of a product with the curvature, one serves all outputs
            less["ConjugateGradient()"] = 0
        assert all(large[name] >= 0.999 * less[name] for name in less), (less, large)


def _rates(size):
    return RATES._replace(gradient=RATES.gradient * size.k)


def test_the_first_way_that_fits_in_memory_is_chosen():
    model, X, y = problem(100, 60)
    everything = rue.plan(model, (X, y))
    needed = {way.name: way.bytes for way in everything.ways}
    assert everything.chosen.name == "Dual()"
    less = rue.plan(model, (X, y), memory=np.int64(0.8 * needed["Dual()"]))  # too little without kept derivatives too
    assert less.chosen.bytes < needed["Dual()"]
    assert "needs" in less.ways[0].refused
    nothing = rue.plan(model, (X, y), memory=1000)
    assert nothing.chosen is None
    assert "nothing is possible: the least memory is" in str(nothing)
    assert "before any row is counted" in str(nothing)


def test_a_limit_of_time_chooses_the_most_faithful_way_that_keeps_it():
    model, X, y = problem(95, 2_800, 3)
    assert rue.plan(model, (X, y), time=1e9).chosen.answer == "exact"  # though too slow to be chosen unasked
    hurried = rue.plan(model, (X, y), time=1e-6)
    assert hurried.chosen is None
    assert all("takes" in way.refused for way in hurried.ways)
    soonest = min(way.seconds for way in hurried.ways)
    assert f"the shortest of those that fit in memory takes {soonest:.2g} s" in hurried.why


def test_inputs_that_the_model_cannot_take_are_refused():
    model, X, y = problem(8, 40)
    with pytest.raises(ModelError, match=r"could not take inputs of \(40, 3\)"):
        rue.plan(model, (X, y), inputs=X[:, :3])


def test_rows_whose_gradients_are_taken_one_by_one_are_said_to_be_so():
    net, X = made(Packed, lambda: torch.randn(30, 5, 4))
    plan = rue.plan(rue.wrap(net, loss="squared_error", l2=1.0), (X, net(X)[:, 0].detach() + X[:, 0, 0]), inputs=X)
    assert all(way.row_by_row for way in plan.ways)
    assert "row by row" in str(plan)
    model, X, y = problem(8, 40)
    assert not any(way.row_by_row for way in rue.plan(model, (X, y)).ways)


@pytest.mark.filterwarnings("ignore::rue.errors.RueWarning")
def test_a_fit_without_enough_memory_is_refused_with_the_table(monkeypatch):
    model, X, y = problem(100, 200)
    monkeypatch.setattr("rue.methods.planning.free_bytes", lambda _: 2**20)
    with pytest.raises(ResourceError, match=r"(?s)does not fit in memory.*Dual\(\).*needs .* there are 1 MiB"):
        rue.LinearRUE().fit(model, (X, y))


def test_too_many_parameters_are_refused_before_they_are_copied(monkeypatch):
    net = nn.Linear(1000, 1000)
    monkeypatch.setattr("rue.models.torch.module.free_bytes", lambda _: 2**20)
    monkeypatch.setattr(torch, "cat", lambda *_: pytest.fail("parameters were copied"))
    with pytest.raises(ResourceError, match="1,001,000 parameters do not fit"):
        rue.wrap(net, loss="squared_error")


def test_a_container_has_its_own_limit(monkeypatch, tmp_path):
    monkeypatch.setattr(memory, "GROUPS", tmp_path)
    free = memory.free_bytes(torch.device("cpu"))
    for name, text in {
        "memory.max": "5000",
        "memory.current": "3000",
        "memory.stat": "anon 1\ninactive_file 700",
    }.items():
        (tmp_path / name).write_text(text)
    assert memory.free_bytes(torch.device("cpu")) == 2700
    (tmp_path / "memory.max").write_text("max")
    assert memory.free_bytes(torch.device("cpu")) == pytest.approx(free, rel=0.2)


def test_a_plan_is_a_table_for_people_and_numbers_for_programs():
    model, X, y = problem(8, 40)
    plan = rue.plan(model, (X, y), inputs=X)
    lines = str(plan).splitlines()
    assert lines[0].startswith("40 training rows, 121 parameters, 1 outputs, 40 rows to audit")
    assert next(line for line in lines if line.startswith("* ")).split()[1] == "Cholesky()"
    entries = plan.to_dict()
    assert [way["chosen"] for way in entries["ways"]].count(True) == 1
    assert all(isinstance(way["bytes"], int) for way in entries["ways"])


def test_nothing_of_the_model_and_the_random_state_changes():
    model, X, y = problem(8, 40)
    state, theta = torch.random.get_rng_state(), model.theta.clone()
    rue.plan(model, (X, y), inputs=X)
    assert torch.equal(torch.random.get_rng_state(), state)
    assert torch.equal(model.theta, theta)


@pytest.mark.parametrize(
    "limits", [{"memory": 0}, {"memory": "1 GB"}, {"time": -1}, {"time": True}, {"time": np.nan}, {"memory": np.inf}]
)
def test_limits_that_are_no_positive_numbers_are_refused(limits):
    model, X, y = problem(8, 40)
    with pytest.raises(SettingError, match=next(iter(limits))):
        rue.plan(model, (X, y), **limits)


def test_what_has_no_gradients_has_no_plan():
    class Box:
        def predict(self, X):
            return np.asarray(X)[:, 0]

    with pytest.raises(ModelError, match="gradients"):
        rue.plan(rue.wrap(Box()), (np.eye(4), np.arange(4.0)))
    with pytest.raises(ModelError, match="wrap"):
        rue.plan(nn.Linear(2, 1), (np.eye(2), np.arange(2.0)))


def test_an_exact_way_that_is_faster_is_shown_named_and_taken_where_the_other_is_too_slow():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(10, 4_000), nn.ReLU(), nn.Linear(4_000, 3)).eval()
    X, y = torch.randn(150, 10), torch.randint(0, 3, (150,))
    model = rue.wrap(net, loss=nn.CrossEntropyLoss(), l2=1.0)
    plan = rue.plan(model, (X, y), inputs=X[:5])
    assert plan.chosen.name == "Dual()"
    soonest = next(way for way in plan.ways if way.name == "StreamedDual()")
    assert soonest.answer == "exact"
    if 2 * soonest.seconds <= plan.chosen.seconds:
        assert "hand solver=StreamedDual() to the method" in plan.why
    dual = replace(plan.chosen, seconds_fit=60.0)
    ways = [costs.limited(way, plan.memory, 30.0) for way in (dual, replace(soonest, seconds_fit=2.0))]
    assert planned(plan.size, plan.memory, 30.0, ways).chosen.name == "StreamedDual()"
    assert "60 s" in planned(plan.size, plan.memory, None, [dual, replace(soonest, seconds_fit=2.0)]).why


def test_limits_are_printed_in_units_that_fit_them():
    model, X, y = problem(8, 40)
    assert ", 1e-06 s are given" in str(rue.plan(model, (X, y), time=1e-6))
    assert "there are 1,000 bytes" in str(rue.plan(model, (X, y), memory=1000))


def test_a_sketch_that_combines_nothing_is_called_exact():
    model, X, y = problem(8, 40)
    answers = {way.name: way.answer for way in rue.plan(model, (X, y)).ways}
    assert answers["Sketch(4096)"] == "exact: nothing is combined"


@pytest.mark.parametrize(
    ("device", "count", "d", "exact", "size"),
    [
        ("cpu", 7_000, 10**6, False, 4096),  # all gradients together are too many numbers
        ("cpu", 13_000, 17_000, False, 4096),
        ("cuda", 13_000, 17_000, True, 8192),
        ("cpu", 40_000, 17_000, False, 2048),
        ("cuda", 40_000, 17_000, True, 8192),
        ("cuda", 40_000, 25_000, False, 8192),
        ("cuda", 50_000, 34_000, False, 4096),
        ("cuda", 10**5, 10**7, False, 4096),
    ],
)
def test_what_is_too_large_depends_on_the_machine(device, count, d, exact, size):
    assert beyond(count, d, torch.device(device)) != exact
    assert affordable_size(count, d, torch.device(device)) == size


@pytest.mark.filterwarnings("ignore::rue.errors.RueWarning")
def test_a_penalty_that_couples_parameters_leaves_what_can_take_it(monkeypatch):
    monkeypatch.setattr("rue.core.solve.choice.LARGE", 300)
    net, X = nn.Sequential(nn.Linear(4, 40), nn.Tanh(), nn.Linear(40, 3)).eval(), torch.randn(120, 4)

    def coupling(parameters):
        return 0.1 * sum(v.sum() for v in parameters.values()) ** 2 + 0.1 * sum(
            v.square().sum() for v in parameters.values()
        )

    model, y = rue.wrap(net, loss="squared_error", penalty=coupling), torch.randn(120, 3)
    plan = rue.plan(model, (X, y))
    assert plan.chosen.solver == Projection()
    assert not any(isinstance(way.solver, Sketch | StreamedDual) for way in plan.ways)
    assert next(way for way in plan.ways if way.solver == Dual()).refused == "the penalty couples parameters"
    assert rue.LinearRUE().fit(model, (X, y)).audit(X[:3]).std.shape == (3, 3)
