"""A user presses Ctrl-C: the process is as it was, and the next call gives the bits of an undisturbed one."""

import signal
import time
import warnings

import numpy as np
import pytest
import torch
from sklearn.ensemble import RandomForestRegressor
from torch import nn

import rue
from rue.core.process import filters_kept, surely
from snapshot import changed, module_picture, world_picture

MOMENTS = 25
draw = np.random.default_rng(0)
X = draw.normal(size=(60, 6)).astype(np.float32)
y = (X[:, 0] - X[:, 1] ** 2 + 0.2 * draw.normal(size=60)).astype(np.float32)
X_new, y_new = draw.normal(size=(30, 6)).astype(np.float32), draw.normal(size=30).astype(np.float32)


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(1, 4), nn.Linear(4, 1)
        self.encoder = nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0, batch_first=True)

    def forward(self, x):
        return self.last(self.encoder(self.first(x[:, :, None])).mean(1))[:, 0]


def network(make):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return make().eval()


plain = network(lambda: nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 1), nn.Flatten(0)))
attention = network(Attention)
forest = RandomForestRegressor(20, random_state=0).fit(X, y)


def wrapped(module):
    return rue.wrap(module, loss="squared_error", l2=1.0)


def bits(audit):
    lower, upper, _ = audit.interval()
    return [part.tobytes() for part in (audit.prediction, audit.score, audit.std, lower, upper)]


def fit(method, model):
    return lambda: bits(method.fit(model(), (X, y)).audit(X_new))


def audit(method, model):
    auditor = method.fit(model(), (X, y))
    return lambda: bits(auditor.audit(X_new))


def report():
    auditor = rue.CalibratedRUE().fit(wrapped(plain), (X, y))
    return lambda: {**rue.report(auditor, X_new, y_new).document, "created": None}


CALLS = {
    "fit, default": lambda: fit(rue.CalibratedRUE(), lambda: wrapped(plain)),
    "fit, attention": lambda: fit(rue.LinearRUE(), lambda: wrapped(attention)),
    "fit, projection": lambda: fit(rue.LinearRUE(solver=rue.solve.Projection(size=8)), lambda: wrapped(plain)),
    "fit, members": lambda: fit(rue.RUE(members=10), lambda: wrapped(plain)),
    "fit, forest": lambda: fit(rue.ForestRUE(), lambda: rue.wrap(forest)),
    "audit, default": lambda: audit(rue.CalibratedRUE(), lambda: wrapped(plain)),
    "audit, attention": lambda: audit(rue.LinearRUE(), lambda: wrapped(attention)),
    "report": report,
}


def interrupted(call, after):
    """Whether an interruption after so many seconds ended the call."""
    try:
        signal.setitimer(signal.ITIMER_REAL, after)
        call()
        signal.setitimer(signal.ITIMER_REAL, 0)
    except KeyboardInterrupt:
        return True
    return False


@pytest.fixture
def alarm():
    """A timer that presses Ctrl-C."""
    before = signal.signal(signal.SIGALRM, lambda *_: signal.raise_signal(signal.SIGINT))
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


@pytest.fixture(autouse=True)
def usual_handler():
    """Ctrl-C raises KeyboardInterrupt, also where the tests run in the background of a shell, which ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


class Pressed(nn.Linear):
    """Ctrl-C is pressed in the middle of its forward pass, which counts how often it came to its end."""

    pressed, ended = False, 0

    def forward(self, x):
        if Pressed.pressed:
            signal.raise_signal(signal.SIGINT)
        Pressed.ended += 1
        return super().forward(x)


def test_an_interruption_waits_for_the_end_of_a_derivative_and_breaks_no_later_one(monkeypatch):
    auditor = rue.LinearRUE().fit(wrapped(network(lambda: Pressed(6, 1))), (X, y))
    wanted, before, handler = bits(auditor.audit(X_new)), world_picture(), signal.getsignal(signal.SIGINT)
    monkeypatch.setattr(Pressed, "pressed", True)
    ended = Pressed.ended
    with pytest.raises(KeyboardInterrupt):
        auditor.audit(X_new)
    assert Pressed.ended > ended
    assert signal.getsignal(signal.SIGINT) is handler
    assert changed(before, world_picture()) == []
    monkeypatch.setattr(Pressed, "pressed", False)
    assert bits(auditor.audit(X_new)) == wanted


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_filters_of_warnings_are_put_back_after_an_interruption(error):
    def cut_short():
        with filters_kept():
            warnings.simplefilter("error", BytesWarning)  # as if a block that has set this had no time to take it back
            raise error

    with warnings.catch_warnings():
        before = list(warnings.filters)
        with pytest.raises(error):
            cut_short()
        assert (warnings.filters == before) == (error is KeyboardInterrupt)


def test_a_step_that_puts_something_back_is_done_again_if_it_is_interrupted():
    done = []

    def step():
        done.append(1)
        if len(done) == 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        surely(step)
    assert len(done) == 2


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timers")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # a file is open as Ctrl-C comes
@pytest.mark.filterwarnings("ignore::rue.errors.RueWarning")
@pytest.mark.parametrize("name", CALLS)
def test_after_interruptions_the_process_is_as_before_and_the_next_call_too(name, alarm, few_trees):
    call = CALLS[name]()
    wanted, start = call(), time.perf_counter()
    assert call() == wanted
    seconds = time.perf_counter() - start
    moments = np.random.default_rng(1).uniform(0, seconds, 4 * MOMENTS)  # some come too late
    before, modules = world_picture(), [module_picture(module) for module in (plain, attention)]
    hits = 0
    for moment in moments:
        hits += interrupted(call, moment)
        assert changed(before, world_picture()) == []
        for module, picture in zip((plain, attention), modules, strict=True):
            assert changed(picture, module_picture(module)) == []
        assert call() == wanted
        if hits == MOMENTS:
            break
    assert hits == MOMENTS
