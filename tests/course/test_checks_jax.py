"""The checks of the appendix on JAX: right answers however written, wrong ones named.

They join the tables of test_checks.py, which leaves out what needs JAX where it is missing.
"""

import math
import subprocess
import sys

import numpy as np
import torch

from tests.course.answers import right, verdict, wrong
from vitbook.exercises import values
from vitnb import ViT

# jax.1 ----------------------------------------------------------------------------------------------------


@right("jax.1")
def by_formula(p, C):
    return math.gcd(C - 1, p * p - 1) + 1 if C > 1 and p > 1 else p * p * C


@right("jax.1")
def by_counting(p, C):
    torch_order = [(c, s) for c in range(C) for s in range(p * p)]
    jax_order = [(c, s) for s in range(p * p) for c in range(C)]
    return sum(a == b for a, b in zip(torch_order, jax_order, strict=True))


wrong("jax.1", "With one channel both orders are the same")(lambda p, C: 2 if C == 1 else by_formula(p, C))
wrong("jax.1", "With one pixel both orders are the same")(lambda p, C: 1)
wrong("jax.1", "compare them place by place")(lambda p, C: p * p * C if 1 in (p, C) else 2.5)
wrong("jax.1", "Expected a number")(lambda p, C: [0])


# jax.2 ----------------------------------------------------------------------------------------------------


@right("jax.2")
def handed_on(model):
    from flax import nnx

    run = nnx.jit(lambda model, x: model(x))
    return lambda x: run(model, x)


@right("jax.2")
def by_partial(model):
    from functools import partial

    from flax import nnx

    @nnx.jit
    def run(network, x):
        return network(x)

    return partial(run, model)


@right("jax.2")
def by_state(model):
    """The translation by hand: split, a pure function, put back."""
    import jax
    from flax import nnx

    compiled = {}

    def run(x):
        graph, state = nnx.split(model)
        key = repr(model)

        def pure(state, x):
            network = nnx.merge(graph, state)
            return network(x), nnx.state(network)

        out, state = compiled.setdefault(key.split("count")[0], jax.jit(pure))(state, x)
        nnx.update(model, state)
        return out

    return run


@wrong("jax.2", "The same mask at several calls")
def the_colleagues(model):
    import jax

    run = jax.jit(lambda model, x: model(x))
    return lambda x: run(model, x)


@wrong("jax.2", "nothing is compiled")
def plain(model):
    return lambda x: model(x)


@wrong("jax.2", "raises TraceContextError")
def found_outside(model):
    from flax import nnx

    return nnx.jit(lambda x: model(x))


@wrong("jax.2", "does your function run a copy of the model?")
def of_a_copy(model):
    from flax import nnx

    copy, run = nnx.clone(model), nnx.jit(lambda model, x: model(x))
    return lambda x: run(copy, x)


@wrong("jax.2", "never runs the model")
def another_dropout(model):
    from flax import nnx

    drop, run = nnx.Dropout(0.5, rngs=nnx.Rngs(1)), nnx.jit(lambda drop, x: drop(x))
    return lambda x: run(drop, x)


wrong("jax.2", "nothing is compiled")(lambda model: model)
wrong("jax.2", "Expected a function of x, got 3")(lambda model: 3)
wrong("jax.2", "gives other numbers")(lambda model: lambda x: handed_on(model)(x) / 2)
wrong("jax.2", "Expected an array of shape (4, 64), got (64,)")(lambda model: lambda x: handed_on(model)(x)[0])


# jax.3 ----------------------------------------------------------------------------------------------------


def stock(attention, kernel=None, order=(0, 1, 2), out=None, bias=True, h=None):
    import jax.numpy as jnp
    from flax import nnx

    D, h = attention.embed_dim, h or attention.num_heads
    layer = nnx.MultiHeadAttention(h, D, decode=False, rngs=nnx.Rngs(0))
    weights = {name: p.detach().numpy() for name, p in attention.named_parameters()}
    kernel = kernel or (lambda w: w.T.reshape(D, h, D // h))
    out = out or (lambda w: w.T.reshape(h, D // h, D))
    for part, n in zip((layer.query, layer.key, layer.value), order, strict=True):
        part.kernel[...] = jnp.asarray(kernel(np.split(weights["qkv.weight"], 3)[n]))
        if bias:
            part.bias[...] = jnp.asarray(np.split(weights["qkv.bias"], 3)[n].reshape(h, D // h))
    layer.out.kernel[...] = jnp.asarray(out(weights["proj.weight"]))
    layer.out.bias[...] = jnp.asarray(weights["proj.bias"])
    return layer


right("jax.3")(stock)


@right("jax.3")
def heads_in_another_order(attention):
    """What head is called number 0 changes nothing."""
    layer = stock(attention)
    for part in (layer.query, layer.key, layer.value):
        part.kernel[...] = part.kernel[...][:, ::-1]
        part.bias[...] = part.bias[...][::-1]
    layer.out.kernel[...] = layer.out.kernel[...][::-1]
    return layer


wrong("jax.3", "query.kernel is not right. It looks like PyTorch's weight without its transpose")(
    lambda a: stock(a, lambda w: w.reshape(a.embed_dim, a.num_heads, -1))
)
wrong("jax.3", "query.kernel is not right. It looks like heads split the other way round")(
    lambda a: stock(a, lambda w: w.T.reshape(a.embed_dim, -1, a.num_heads).swapaxes(1, 2))
)
wrong("jax.3", "query.kernel is not right. It looks like that of key")(lambda a: stock(a, order=(1, 0, 2)))
wrong("jax.3", "key.kernel is not right. It looks like that of value")(lambda a: stock(a, order=(0, 2, 1)))
wrong("jax.3", "out.kernel is not right. It looks like PyTorch's weight without its transpose")(
    lambda a: stock(a, out=lambda w: w.reshape(a.num_heads, -1, a.embed_dim))
)
wrong("jax.3", "out.kernel is not right. It looks like heads split the other way round")(
    lambda a: stock(a, out=lambda w: w.T.reshape(-1, a.num_heads, a.embed_dim).swapaxes(0, 1))
)
wrong("jax.3", "only their places")(lambda a: stock(a, lambda w: 2 * w.T.reshape(a.embed_dim, a.num_heads, -1)))
wrong("jax.3", "query.bias is not: it is still zero")(lambda a: stock(a, bias=False))
wrong("jax.3", "Expected an nnx.MultiHeadAttention, got")(lambda a: a)
wrong("jax.3", "num_heads comes before in_features")(lambda a: stock(a, h=1))


# jax.4 ----------------------------------------------------------------------------------------------------


def named(name):
    name = "positions.table" if name == "positions" else name
    return name.replace("kernel", "weight").replace("scale", "weight")


def by_loop(arrays, config, patch=None, linear=np.transpose):
    p, C = config.patch_size, config.in_chans
    patch = patch or (lambda k: k.reshape(p, p, C, -1).transpose(3, 2, 0, 1))
    state = {}
    for name, array in arrays.items():
        if name == "patch_embed.proj.kernel":
            array = patch(array)
        elif name.endswith("kernel"):
            array = linear(array)
        state[named(name)] = torch.tensor(np.ascontiguousarray(array))
    return state


@right("jax.4")
def by_torch(arrays, config):
    state = {named(name): torch.from_numpy(a.copy()) for name, a in arrays.items()}
    for name, value in state.items():
        if value.ndim == 2:
            state[name] = value.T
    kernel = state["patch_embed.proj.weight"]  # (D, p*p*C)
    state["patch_embed.proj.weight"] = kernel.unflatten(1, (4, 4, 3)).permute(0, 3, 1, 2)
    return state


wrong("jax.4", "Are its channels last?")(lambda a, c: by_loop(a, c, lambda k: k.T.reshape(-1, 3, 4, 4)))
wrong("jax.4", "Rows and columns of its pixels are swapped")(
    lambda a, c: by_loop(a, c, lambda k: k.reshape(4, 4, 3, -1).transpose(3, 2, 1, 0))
)
wrong("jax.4", "Expected patch_embed.proj.weight of shape (12, 3, 4, 4), got")(lambda a, c: by_loop(a, c, np.transpose))
wrong("jax.4", "PyTorch keeps a linear layer's weight as (out, in)")(lambda a, c: by_loop(a, c, linear=np.asarray))
wrong("jax.4", "its shape hides that it is not transposed")(
    lambda a, c: by_loop(a, c, linear=lambda k: k if k.shape[0] == k.shape[1] else k.T)
)
wrong("jax.4", "to be a tensor, got a NumPy array of shape")(
    lambda a, c: {name: t.numpy() for name, t in by_loop(a, c).items()}
)
wrong("jax.4", "has an unknown 'patch_embed.proj.kernel'")(lambda a, c: by_loop(a, c) | {"patch_embed.proj.kernel": 0})
wrong("jax.4", "They are not among the arrays: are they new weights")(
    lambda a, c: {name: torch.rand(p.shape) for name, p in ViT(c).state_dict().items()}
)
wrong("jax.4", "has the type torch.float16, which rounds its numbers: expected torch.float32")(
    lambda a, c: {name: t.half() for name, t in by_loop(a, c).items()}
)
wrong("jax.4", "They are those of blocks.0.norm2.weight")(
    lambda a, c: (lambda t: t | {"blocks.0.norm1.weight": t["blocks.0.norm2.weight"]})(by_loop(a, c))
)
right("jax.4")(lambda a, c: {name: t.double() for name, t in by_loop(a, c).items()})
wrong("jax.4", "misses 'positions.table'")(
    lambda a, c: {name: t for name, t in by_loop(a, c).items() if name != "positions.table"}
)
wrong("jax.4", "Expected a dictionary of tensors, got a list")(lambda a, c: list(by_loop(a, c)))


@wrong("jax.4", "changes what it is given")
def in_place(arrays, config):
    arrays["positions"] *= 2
    return by_loop(arrays, config)


# ----------------------------------------------------------------------------------------------------------


def test_without_jax_a_check_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "jax", None)
    result, text = verdict("jax.3", lambda attention: attention)
    assert result is False and "`make jax` adds them" in text
    assert verdict("jax.4", by_loop)[0]  # this one needs none


def test_arrays_and_dictionaries_are_compared():
    a = {"x": np.arange(3)}
    assert values.unchanged(a, {"x": np.arange(3)})
    assert not values.unchanged(a, {"x": np.arange(3) + 1})
    assert not values.unchanged(a, {"y": np.arange(3)})


def test_jax_is_not_imported_with_vitnb():
    code = (
        "import vitnb, vitbook.exercises, experiments.jax_step, sys; print({'jax', 'flax', 'optax'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.strip() == "set()", done.stderr
