"""Modules inside what tools put around them, and the kinds of networks people take from model collections."""

import copy
import logging
import warnings

import lightning
import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import cases
import rue
from rue.core.errors import ModelError
from snapshot import changed, module_picture, world_picture

METHOD = rue.LinearRUE(damping=rue.solve.Fixed(1e-2))


def audited(module, X, y, X_new, loss="squared_error", **settings):
    return METHOD.fit(rue.wrap(module, loss=loss, l2=0.3, **settings), (X, y)).audit(X_new)


def compiled(net):
    made = torch.compile(net, backend="eager")
    made(cases.softplus().X)
    return made


def compiled_in_place(net):
    net.compile(backend="eager")
    net(cases.softplus().X)
    return net


def compiled_within(net):
    net[0] = torch.compile(net[0], backend="eager")
    net(cases.softplus().X)
    return net


def compiled_forward(net):
    """As Hugging Face's pages advise."""
    net.forward = torch.compile(net.forward, backend="eager")
    net(cases.softplus().X)
    return net


class Outer(nn.Module):
    """A user's own module around another one."""

    def __init__(self, net, after=lambda outputs: outputs):
        super().__init__()
        self.net, self.after = net, after

    def forward(self, x):
        return self.after(self.net(x))


def calling_compiled(net):
    """A forward pass that calls a function which is compiled."""
    made = Outer(net, torch.compile(lambda outputs: 2 * outputs / 2, backend="eager"))
    with torch.no_grad():
        made(cases.softplus().X)
    return made


def distributed_within(net):
    """Copies for several processes inside a module, whose group of processes is gone."""
    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    try:
        return Outer(nn.parallel.DistributedDataParallel(net))
    finally:
        torch.distributed.destroy_process_group()


def exported(net):
    return torch.export.export(net, (cases.softplus().X,), dynamic_shapes=({0: torch.export.Dim("batch")},))


AROUND = {
    "torch.compile": compiled,
    "Module.compile": compiled_in_place,
    "torch.compile of a layer": compiled_within,
    "DataParallel": nn.DataParallel,
    "DataParallel of torch.compile": lambda net: nn.DataParallel(compiled(net)),
    "torch.compile of forward": compiled_forward,
    "a compiled function": calling_compiled,
    "DataParallel within": lambda net: Outer(nn.DataParallel(net)),
    "DistributedDataParallel within": distributed_within,
    "torch.export": exported,
    "torch.fx": torch.fx.symbolic_trace,
}


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")  # of torch's own compiler
@pytest.mark.parametrize("name", AROUND)
@pytest.mark.parametrize("method", [METHOD, rue.RUE(seed=0)], ids=lambda method: type(method).__name__)
def test_a_module_inside_a_tool_is_audited_as_the_module_itself(method, name):
    case = cases.softplus()
    expected = method.fit(case.wrap(), (case.X, case.y)).audit(case.X_new)
    wrapped = AROUND[name](copy.deepcopy(case.module))
    found = method.fit(rue.wrap(wrapped, loss=case.loss, l2=case.l2), (case.X, case.y)).audit(case.X_new)
    np.testing.assert_array_equal(found.prediction, case.module(case.X_new).detach().numpy()[:, 0])
    np.testing.assert_allclose(found.std, expected.std, rtol=1e-9)


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
@pytest.mark.parametrize("name", [name for name in AROUND if name != "torch.export"])  # calls operators, no functions
def test_gradients_are_read_off_the_layers_inside_a_tool(name):
    case = cases.softplus()
    core = rue.wrap(AROUND[name](copy.deepcopy(case.module)), loss=case.loss, l2=case.l2).core
    plain = rue.wrap(case.module, loss=case.loss, l2=case.l2).core
    sketch = core.sketched(case.X, 100, 0)
    assert sketch.describe()["whole_gradients"] == 0
    torch.testing.assert_close(sketch.jacobian(case.X), plain.sketched(case.X, 100, 0).jacobian(case.X))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("name", [name for name in AROUND if name != "torch.export"])
def test_what_a_tool_put_around_a_module_is_bit_identical_after_an_audit(name):
    case = cases.softplus()
    wrapped = AROUND[name](case.module)
    picture, world = module_picture(wrapped), world_picture()
    audited(wrapped, case.X, case.y, case.X_new)
    assert changed(picture, module_picture(wrapped)) == []
    assert changed(world, world_picture()) == []


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
def test_an_exported_program_is_bit_identical_after_an_audit():
    case = cases.softplus()
    program = exported(case.module)
    before = {name: (value, value.clone(), value._version) for name, value in program.state_dict.items()}
    audited(program, case.X, case.y, case.X_new)
    assert list(program.state_dict) == list(before)
    for name, value in program.state_dict.items():
        assert value is before[name][0]
        assert torch.equal(value, before[name][1])
        assert value._version == before[name][2]


@pytest.mark.parametrize("name", ["torch.compile", "DataParallel", "torch.export"])
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
def test_the_names_of_parameters_are_those_of_the_module_inside(name):
    case = cases.softplus()
    model = rue.wrap(AROUND[name](case.module), loss=case.loss, l2={"*weight": 1.0}, select="2.*")
    assert model.describe()["parameters"] == ("2.weight", "2.bias")


def test_a_distributed_module_is_audited_as_the_module_itself():
    case = cases.softplus()
    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    try:
        wrapped = nn.parallel.DistributedDataParallel(copy.deepcopy(case.module))
        found = audited(wrapped, case.X, case.y, case.X_new)
    finally:
        torch.distributed.destroy_process_group()
    np.testing.assert_array_equal(found.std, audited(case.module, case.X, case.y, case.X_new).std)


def sharded(net):
    return torch.distributed.fsdp.fully_shard(net, mesh=torch.distributed.init_device_mesh("cpu", (1,)))


def sharded_first(net):
    return torch.distributed.fsdp.FullyShardedDataParallel(net, device_id=torch.device("cpu"))


@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::UserWarning")  # torch's own, of a group of one process
@pytest.mark.parametrize("shard", [sharded, sharded_first])
def test_a_module_in_shards_is_refused_and_audited_after_the_advice_was_taken(shard):
    from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict

    case = cases.softplus()
    plain = copy.deepcopy(case.module)
    for parameter in plain.parameters():
        nn.init.zeros_(parameter)
    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    try:
        net = shard(copy.deepcopy(case.module))
        with pytest.raises(ModelError, match=r"divided among processes.*get_model_state_dict\(net"):
            rue.wrap(Outer(net), loss=case.loss)
        plain.load_state_dict(get_model_state_dict(net, options=StateDictOptions(full_state_dict=True)))
    finally:
        torch.distributed.destroy_process_group()
    wanted = audited(case.module, case.X, case.y, case.X_new).std
    np.testing.assert_array_equal(audited(plain, case.X, case.y, case.X_new).std, wanted)


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
def test_what_cannot_be_unwrapped_is_refused_with_advice():
    case = cases.softplus()
    with pytest.raises(ModelError, match=r"exported for batches of one size only.*dynamic_shapes"):
        rue.wrap(torch.export.export(case.module, (case.X,)), loss=case.loss)
    with pytest.raises(ModelError, match=r"TorchScript.*give the module it was made from"):
        rue.wrap(torch.jit.script(case.module), loss=case.loss)


class Lightning(lightning.LightningModule):
    """As in the tutorials: hyper-parameters, a metric that is logged, an optimiser of its own."""

    def __init__(self, width=4):
        super().__init__()
        self.save_hyperparameters()
        self.net = nn.Sequential(nn.Linear(2, width), nn.Softplus(), nn.Linear(width, 1)).double()

    def forward(self, x):
        return self.net(x)

    def training_step(self, batch, _):
        x, y = batch
        loss = 0.5 * (self(x)[:, 0] - y).square().mean()
        self.log("loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=0.01)


def test_a_lightning_module_is_audited_after_its_trainer_fitted_it(tmp_path):
    case = cases.softplus()
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what lightning says of loaders and devices
        module = Lightning()
        trainer = lightning.Trainer(
            max_epochs=2,
            accelerator="cpu",
            logger=False,
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
            default_root_dir=tmp_path,
        )
        trainer.fit(module, DataLoader(TensorDataset(case.X, case.y), batch_size=5))
    assert module.trainer is trainer
    picture, world = module_picture(module), world_picture()
    found = audited(module, case.X, case.y, case.X_new)
    expected = audited(module.net, case.X, case.y, case.X_new)
    np.testing.assert_array_equal(found.prediction, module(case.X_new).detach().numpy()[:, 0])
    np.testing.assert_array_equal(found.std, expected.std)
    assert changed(picture, module_picture(module)) == []
    assert changed(world, world_picture()) == []


class BasicBlock(nn.Module):
    """torchvision's: two convolutions, batch normalisation, a shortcut, ReLU in place."""

    def __init__(self, channels, out, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(channels, out, 3, stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(out)
        self.relu = nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(out, out, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(out)
        self.downsample = nn.Sequential(nn.Conv2d(channels, out, 1, stride, bias=False), nn.BatchNorm2d(out))

    def forward(self, x):
        inner = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
        inner += self.downsample(x)
        return self.relu(inner)


class ResNet(nn.Module):
    """torchvision's, in small; in training it also returns what an auxiliary head says, as Inception does."""

    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 2, 3, padding=1, bias=False)
        self.layer1, self.layer2 = BasicBlock(2, 2, 1), BasicBlock(2, 3, 2)
        self.avgpool, self.fc, self.aux = nn.AdaptiveAvgPool2d((1, 1)), nn.Linear(3, 3), nn.Linear(2, 3)

    def forward(self, x):
        early = self.layer1(self.conv1(x))
        outputs = self.fc(torch.flatten(self.avgpool(self.layer2(early)), 1))
        return (outputs, self.aux(early.mean((2, 3)))) if self.training else outputs


class DropPath(nn.Module):
    """timm's: drops a whole branch at random while training."""

    def __init__(self, drop_prob):
        super().__init__()
        self.drop_prob = drop_prob

    def forward(self, x):
        if not self.training:
            return x
        keep = x.new_empty((len(x), *[1] * (x.dim() - 1))).bernoulli_(1 - self.drop_prob)
        return x * keep / (1 - self.drop_prob)


class SqueezeExcite(nn.Module):
    """timm's: channels weighed by their means."""

    def __init__(self, channels):
        super().__init__()
        self.conv_reduce, self.conv_expand = nn.Conv2d(channels, 1, 1), nn.Conv2d(1, channels, 1)
        self.act1, self.gate = nn.SiLU(inplace=True), nn.Sigmoid()

    def forward(self, x):
        return x * self.gate(self.conv_expand(self.act1(self.conv_reduce(x.mean((2, 3), keepdim=True)))))


class Block(nn.Module):
    """timm's ConvNeXt: depthwise convolution, LayerNorm over channels, LayerScale, DropPath."""

    def __init__(self, channels):
        super().__init__()
        self.conv_dw = nn.Conv2d(channels, channels, 3, padding=1, groups=channels)
        self.norm, self.mlp = nn.LayerNorm(channels), nn.Sequential(nn.Linear(channels, 4), nn.GELU(), nn.Linear(4, 3))
        self.se, self.gamma, self.drop_path = SqueezeExcite(3), nn.Parameter(torch.full((3,), 0.5)), DropPath(0.2)

    def forward(self, x):
        inner = self.mlp(self.norm(self.conv_dw(x).permute(0, 2, 3, 1))) * self.gamma
        return x + self.drop_path(self.se(inner.permute(0, 3, 1, 2)))


class Timm(nn.Module):
    """timm's way of writing networks: stem, blocks, head; features apart from the head."""

    def __init__(self):
        super().__init__()
        self.stem, self.blocks = nn.Conv2d(1, 3, 2, stride=2), nn.Sequential(Block(3), Block(3))
        self.head_drop, self.head = nn.Dropout(0.1), nn.Linear(3, 3)
        self.default_cfg = {"input_size": (1, 6, 6)}

    def forward_features(self, x):
        return self.blocks(self.stem(x))

    def forward_head(self, x, pre_logits=False):
        pooled = self.head_drop(x.mean((2, 3)))
        return pooled if pre_logits else self.head(pooled)

    def forward(self, x):
        return self.forward_head(self.forward_features(x))


def images():
    generator = torch.Generator().manual_seed(0)
    X = torch.randn(14, 1, 6, 6, generator=generator, dtype=torch.float64)
    return X[:10], torch.randint(3, (10,), generator=generator), X[10:]


def trained(build):
    """A few steps in training mode, so that running statistics are those of data."""
    X, labels, _ = images()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        net = build().double().train()
        optimiser = torch.optim.SGD(net.parameters(), lr=0.1)
        for _ in range(3):
            optimiser.zero_grad()
            outputs = net(X)
            outputs = outputs[0] + 0.3 * outputs[1] if isinstance(outputs, tuple) else outputs
            nn.functional.cross_entropy(outputs, labels).backward()
            optimiser.step()
    return net.eval()


def by_hand(net, names, X, labels, X_new, l2=0.3, damping=1e-2):
    """The closed form from plain backward passes, in NumPy: std (m, k)."""
    parameters = [p for name, p in net.named_parameters() if name in names]

    def jacobian(x):
        outputs = net(x[None])[0]
        rows = [torch.autograd.grad(output, parameters, retain_graph=True) for output in outputs]
        return np.array([torch.cat([part.reshape(-1) for part in row]).numpy() for row in rows]), outputs.detach()

    curvature, pulls = 0.0, []
    for x, label in zip(X, labels.tolist(), strict=True):
        J, outputs = jacobian(x)
        p = outputs.softmax(-1).numpy()
        curvature = curvature + J.T @ (np.diag(p) - np.outer(p, p)) @ J
        pulls.append(J.T @ (p - np.eye(3)[label]))
    inverse = np.linalg.inv(curvature + (l2 + damping) * np.eye(len(curvature)))
    centred = np.array(pulls) - np.mean(pulls, axis=0)
    return np.array([np.linalg.norm(jacobian(x)[0] @ inverse @ centred.T, axis=1) for x in X_new])


@pytest.mark.parametrize("build", [ResNet, Timm])
def test_networks_of_model_collections_are_audited_as_plain_backward_passes_say(build):
    net, (X, labels, X_new) = trained(build), images()
    picture = module_picture(net)
    for select in (None, "fc.*" if build is ResNet else "head.*"):
        model = rue.wrap(net, loss="cross_entropy", l2=0.3, select=select)
        names = [name for name in model.describe()["parameters"] if not name.startswith("aux")]
        found = METHOD.fit(model, (X, labels)).audit(X_new)
        np.testing.assert_array_equal(found.prediction, net(X_new).detach().numpy())
        np.testing.assert_allclose(found.std, by_hand(net, names, X, labels, X_new), rtol=1e-6)
    assert changed(picture, module_picture(net)) == []


@pytest.mark.parametrize("build", [ResNet, Timm])
def test_a_network_left_in_training_mode_is_refused(build):
    X, labels, X_new = images()
    with pytest.raises(ModelError, match=r"net\.eval"):
        audited(trained(build).train(), X, labels, X_new, "cross_entropy")
