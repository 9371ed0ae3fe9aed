"""The checks of the appendix on JAX. Where JAX is missing, test_checks.py leaves out what needs it."""

import math
import sys

import numpy as np
import torch

from tests.course.answers import RIGHT, WRONG, right, verdict, wrong
from vitbook.exercises import values
from vitnb import ViT

# jax.1 ----------------------------------------------------------------------------------------------------


@right("jax.1")
def by_formula(p, C):
    return math.gcd(C - 1, p * p - 1) + 1 if C > 1 and p > 1 else p * p * C


WRONG["jax.1"] |= {
    "With one channel both orders are the same": lambda p, C: 2 if C == 1 else by_formula(p, C),
    "With one pixel both orders are the same": lambda p, C: 1 if p == 1 else by_formula(p, C),
    "compare them place by place": lambda p, C: p * p * C if 1 in (p, C) else 2.5,
}


# jax.2 ----------------------------------------------------------------------------------------------------


@right("jax.2")
def handed_on(model):
    from flax import nnx

    run = nnx.jit(lambda model, x: model(x))
    return lambda x: run(model, x)


@wrong("jax.2", "The same mask at several calls")
def the_colleagues(model):
    import jax

    run = jax.jit(lambda model, x: model(x))
    return lambda x: run(model, x)


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


WRONG["jax.2"] |= {
    "Python ran through the model 4 times in 4 calls: nothing is compiled": lambda model: model,
    "Expected a function of x, got 3": lambda model: 3,
    "gives other numbers": lambda model: lambda x: handed_on(model)(x) / 2,
    "Expected an array of shape (4, 64), got (64,)": lambda model: lambda x: handed_on(model)(x)[0],
    "Expected an array, got a list of 1": lambda model: lambda x: [handed_on(model)(x)],
}


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


WRONG["jax.3"] |= {
    "query.kernel is not right. It looks like PyTorch's weight without its transpose": (
        lambda a: stock(a, lambda w: w.reshape(a.embed_dim, a.num_heads, -1))
    ),
    "query.kernel is not right. It looks like heads split the other way round": (
        lambda a: stock(a, lambda w: w.T.reshape(a.embed_dim, -1, a.num_heads).swapaxes(1, 2))
    ),
    "query.kernel is not right. It looks like that of key": lambda a: stock(a, order=(1, 0, 2)),
    "key.kernel is not right. It looks like that of value": lambda a: stock(a, order=(0, 2, 1)),
    "out.kernel is not right. It looks like PyTorch's weight without its transpose": (
        lambda a: stock(a, out=lambda w: w.reshape(a.num_heads, -1, a.embed_dim))
    ),
    "out.kernel is not right. It looks like heads split the other way round": (
        lambda a: stock(a, out=lambda w: w.T.reshape(-1, a.num_heads, a.embed_dim).swapaxes(0, 1))
    ),
    "only their places": lambda a: stock(a, lambda w: 2 * w.T.reshape(a.embed_dim, a.num_heads, -1)),
    "query.bias is not: it is still zero": lambda a: stock(a, bias=False),
    "Expected an nnx.MultiHeadAttention, got": lambda a: a,
    "num_heads comes before in_features": lambda a: stock(a, h=1),
}


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


def without_the_table(a, c):
    return {name: t for name, t in by_loop(a, c).items() if name != "positions.table"}


def one_for_another(a, c):
    state = by_loop(a, c)
    return state | {"blocks.0.norm1.weight": state["blocks.0.norm2.weight"]}


RIGHT["jax.4"] += [lambda a, c: {name: t.double() for name, t in by_loop(a, c).items()}]
WRONG["jax.4"] |= {
    "Are its channels last?": lambda a, c: by_loop(a, c, lambda k: k.T.reshape(-1, 3, 4, 4)),
    "Rows and columns of its pixels": (
        lambda a, c: by_loop(a, c, lambda k: k.reshape(4, 4, 3, -1).transpose(3, 2, 1, 0))
    ),
    "Expected patch_embed.proj.weight of shape (12, 3, 4, 4), got": lambda a, c: by_loop(a, c, np.transpose),
    "PyTorch keeps a linear layer's weight as (out, in)": lambda a, c: by_loop(a, c, linear=np.asarray),
    "hides that it is not transposed": (
        lambda a, c: by_loop(a, c, linear=lambda k: k if k.shape[0] == k.shape[1] else k.T)
    ),
    "to be a tensor, got a NumPy array of shape": lambda a, c: {n: t.numpy() for n, t in by_loop(a, c).items()},
    "has an unknown 'patch_embed.proj.kernel'": lambda a, c: by_loop(a, c) | {"patch_embed.proj.kernel": 0},
    "misses 'positions.table'": without_the_table,
    "They are not among the arrays": (
        lambda a, c: {name: torch.rand(p.shape) for name, p in ViT(c).state_dict().items()}
    ),
    "They are in another order": lambda a, c: {n: t.flip(0) if t.ndim < 4 else t for n, t in by_loop(a, c).items()},
    "the type torch.float16, which rounds its numbers": (
        lambda a, c: {name: t.half() for name, t in by_loop(a, c).items()}
    ),
    "They are those of blocks.0.norm2.weight": one_for_another,
    "Expected a dictionary of tensors, got a list": lambda a, c: list(by_loop(a, c)),
}


# ----------------------------------------------------------------------------------------------------------


def test_without_jax_a_check_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "jax", None)
    result, text = verdict("jax.3", lambda attention: attention)
    assert result is False and "`make jax` adds them" in text
    assert verdict("jax.4", by_loop)[0]  # this one needs none


def test_arrays_dictionaries_and_lists_are_compared():
    a = {"x": np.arange(3), "y": [{1}, 2]}
    assert values.unchanged(a, {"x": np.arange(3), "y": [{1}, 2]})
    for other in ({"x": np.arange(3) + 1}, {"y": [{1, 2}, 2]}, {"z": 0}):
        assert not values.unchanged(a, a | other)
