"""Exercises of the appendix on JAX: patch orders, dropout under jit, the stock attention, the way back.

JAX is imported when a check that needs it runs, never before.
"""

import itertools
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from vitbook.exercises.declaration import Exercise, Judgement, Raised, Wrong
from vitbook.exercises.forms import compute
from vitbook.exercises.values import close, counted, expected, fresh, perturbed
from vitnb.attention import MultiHeadAttention
from vitnb.vit import ViT, ViTConfig


def _jax() -> tuple[ModuleType, ModuleType]:
    try:
        import jax
        from flax import nnx
    except ImportError:
        raise Wrong("This exercise needs JAX and Flax: `make jax` adds them to the book's environment.") from None
    return jax, nnx


def _staying(p: int, C: int) -> int:
    places = np.arange(p * p * C).reshape(C, p, p)
    return int((places.ravel() == places.transpose(1, 2, 0).ravel()).sum())


def _where_they_differ(count: Callable[[int, int], int]) -> Callable[[int, int], int]:
    """A wrong count, where there are several pixels and several channels."""
    return lambda p, C: p * p * C if 1 in (p, C) else count(p, C)


def _otherwise(said: float, right: int, p: int, C: int) -> str:
    if 1 in (p, C):
        reason = "one channel" if C == 1 else "one pixel"
        return f"With {reason} both orders are the same: there is nothing to interleave, and everything stays."
    return "Write both orders down for this case and compare them place by place."


compute(
    "jax.1",
    "in_place(p, C)",
    "Give each number of a patch its place in PyTorch's order, 0, 1, 2 and so on. Where does each of them stand in "
    "JAX's order? A sheet of paper with p = 2 and C = 3 is enough to see it.",
    "NumPy can count for you: an array of the places in the shape (C, p, p), flattened as it is and flattened with "
    "the channels moved to the end.",
    cases=lambda: itertools.product((1, 2, 3, 4, 5, 8), (1, 2, 3, 4)),
    reference=_staying,
    where="p = {p}, C = {C}: you say {said:g} of {size}. ",
    words=lambda p, C: {"p": p, "C": C, "size": p * p * C},
    mistakes={
        "The second number of PyTorch's order is the next pixel, that of JAX's the next channel.": (
            lambda p, C: p * p * C
        ),
        "That is one channel's numbers: do those of channel 0 stay? In JAX's order they are C places apart.": (
            _where_they_differ(lambda p, C: p * p)
        ),
        "The first number stays, but it is not the only one: look at the other end of both vectors.": (
            _where_they_differ(lambda p, C: 1)
        ),
        "Where does channel 0 of pixel 0 stand in each of the two?": _where_they_differ(lambda p, C: 0),
    },
    otherwise=_otherwise,
    right="24 cases; with one channel everything stays where it is.",
    tolerance=0.0,
)


def _watched() -> list[tuple[Any, list[int], Any]]:
    """A model with dropout, a list that has an entry for each time that Python runs through it, and an input."""
    jax, nnx = _jax()
    runs: list[int] = []

    class Watched(nnx.Module):
        def __init__(self):
            self.drop = nnx.Dropout(0.5, rngs=nnx.Rngs(0))

        def __call__(self, x):
            runs.append(1)
            return self.drop(x)

        def __deepcopy__(self, memo):
            return self  # the answer must get this very model

    model = Watched()
    model.train()
    return [(model, runs, jax.numpy.ones((4, 64)))]


def _compiled(function: Any, model: Any, runs: list[int], x: Any) -> Judgement:
    if not callable(function):
        return expected("a function of x", function)
    outs = []
    for _ in range(4):
        try:
            out = yield function, x
        except Raised as error:
            if type(error.error).__name__ != "TraceContextError":
                raise
            return (
                "Your function raises TraceContextError: it changes the counter of a model that it found outside. "
                "A compiled function may change only what it is given."
            )
        outs.append(_array(out, x))
    if message := _no_dropout(outs, len(runs)):
        return message
    model.eval()
    if not np.array_equal(_array((yield function, x), x), x):
        return "After model.eval() units are still dropped: does your function run a copy of the model?"
    model.train()
    if np.array_equal(_array((yield function, x), x), x):
        return "After model.eval() and model.train() nothing is dropped any more."
    return None


def _no_dropout(outs: list[np.ndarray], runs: int) -> str | None:
    if not runs:
        return "The function that you return never runs the model."
    if not all(np.isin(out, (0, 2)).all() and (out == 0).any() for out in outs):
        return "For an x of ones, dropout 0.5 gives zeros and twos: yours gives other numbers."
    if runs >= len(outs):
        return f"Python ran through the model {counted(runs, 'time')} in {len(outs)} calls: nothing is compiled."
    if len({out.tobytes() for out in outs}) < len(outs):
        return "The same mask at several calls: the counter that moved while tracing never came back."
    return None


Exercise(
    "jax.2",
    "compiled(model)",
    "Which of the two, jax.jit or nnx.jit, puts a changed counter back into the model? And of which models does it do "
    "so: of those that it is given, or also of those that it finds outside?",
    "The compiled function takes the model and x. The function that comes out takes x only, and hands the model on "
    "each time.",
    cases=_watched,
    judge=_compiled,
    given=lambda model, runs, x: (model,),
    right="new masks in compiled calls, and none in eval mode.",
    runs="inside",
)


def _array(value: Any, like: Any) -> np.ndarray:
    """Return value as a NumPy array of the shape of another, or raise Wrong."""
    if not hasattr(value, "__array__"):
        raise Wrong(expected("an array", value))
    if tuple(np.shape(value)) != tuple(like.shape):
        raise Wrong(f"Expected an array of shape {tuple(like.shape)}, got {tuple(np.shape(value))}.")
    return np.asarray(value)


PARTS = ("query", "key", "value", "out")


def _attentions() -> list[tuple[MultiHeadAttention, Tensor]]:
    _jax()
    return [(perturbed(MultiHeadAttention(D, h).eval(), D**-0.5), fresh(3, 7, D)) for D, h in ((12, 3), (16, 2))]


def _stock(stock: Any, attention: MultiHeadAttention, x: Tensor) -> str | None:
    jax, nnx = _jax()
    D, h = attention.embed_dim, attention.num_heads
    if not isinstance(stock, nnx.MultiHeadAttention):
        return expected("an nnx.MultiHeadAttention", stock)
    if stock.num_heads != h or stock.in_features != D:
        got = f"{counted(stock.num_heads, 'head')} for tokens of width {stock.in_features}"
        return f"Expected {counted(h, 'head')} for tokens of width {D}, got {got}. num_heads comes before in_features."
    stock.eval()
    with torch.no_grad():
        right = attention(x)
    with jax.default_matmul_precision("highest"):  # a GPU's usual products have ten bits
        computed = torch.tensor(np.asarray(stock(jax.numpy.asarray(x.numpy()), decode=False)))
    return None if close(computed, right) else _first_wrong(stock, attention)


Exercise(
    "jax.3",
    "stock_attention(attention)",
    "Cut the weight of qkv into three pieces of D rows first. Each piece is (out, in); Flax takes (in, out). Only "
    "then think of heads: the D outputs become h heads of D/h.",
    "The last layer takes heads in and gives D out, so there it is the inputs that are cut into heads. Biases are "
    "cut like the outputs that they are added to.",
    cases=_attentions,
    judge=_stock,
    given=lambda attention, x: (attention,),
    right="equal to 1e-5 for two widths and two numbers of heads.",
    runs="inside",
)


def _first_wrong(stock: Any, attention: MultiHeadAttention) -> str:
    """Name the part of a stock layer that differs, and what it looks like."""
    D = attention.embed_dim
    weights = [*attention.qkv.weight.detach().numpy().reshape(3, D, D), attention.proj.weight.detach().numpy()]
    biases = [*attention.qkv.bias.detach().numpy().reshape(3, D), attention.proj.bias.detach().numpy()]
    for place, part in enumerate(PARTS):
        layer = getattr(stock, part)
        if message := _other_kernel(np.asarray(layer.kernel[...]), part, weights, attention.num_heads):
            return message
        bias = None if layer.bias is None else np.asarray(layer.bias[...])
        if bias is None or not np.allclose(bias.ravel(), biases[place], atol=1e-5):
            return f"{part}.kernel is right, {part}.bias is not: {_bias_looks(bias)}"
    return "The weights are right, and the outputs differ: does your layer drop or normalise something?"


def _other_kernel(kernel: np.ndarray, part: str, weights: list[np.ndarray], h: int) -> str | None:
    """What a kernel that is not right looks like."""
    w, D = weights[PARTS.index(part)], len(weights[0])
    shape = (h, D // h, D) if part == "out" else (D, h, D // h)
    turned = w.T.reshape(D // h, h, D).swapaxes(0, 1) if part == "out" else w.T.reshape(D, D // h, h).swapaxes(1, 2)
    looks = {
        "PyTorch's weight without its transpose": w.reshape(shape),
        "heads split the other way round, (D/h, h) instead of (h, D/h)": turned,
    }
    if part != "out":
        others = [other for other in PARTS[:3] if other != part]
        looks |= {f"that of {other}": weights[PARTS.index(other)].T.reshape(shape) for other in others}
    if kernel.shape != shape:
        return f"Expected {part}.kernel of shape {shape}, got {kernel.shape}."
    if np.allclose(kernel, w.T.reshape(shape), atol=1e-5):
        return None
    for look, array in looks.items():
        if np.allclose(kernel, array, atol=1e-5):
            return f"{part}.kernel is not right. It looks like {look}."
    return f"{part}.kernel is not right: none of its numbers have to change, only their places."


def _bias_looks(bias: np.ndarray | None) -> str:
    if bias is None:
        return "there is none."
    return "it is still zero." if not bias.any() else "its numbers are others, or in another order."


def _models() -> list[tuple[ViT]]:
    sizes = dict(img_size=12, patch_size=4, in_chans=3, embed_dim=12, depth=2, num_heads=2)
    kinds = (("pre", "cls"), ("post", "mean"))
    return [(perturbed(ViT(ViTConfig(**sizes, norm=norm, global_pool=pool)).eval(), 0.3),) for norm, pool in kinds]


def _back(state: Any, model: ViT) -> str | None:
    if message := _compare(state, model):
        return message
    again = ViT(model.config).eval()
    again.load_state_dict(state)
    images = fresh(3, 3, 12, 12)
    with torch.no_grad():
        same = close(again(images), model(images))
    return None if same else "All arrays look right, and the logits differ."


Exercise(
    "jax.4",
    "to_vitnb(arrays, config)",
    "Most arrays only need another name or a transpose. Which ones stay as they are? One array needs more: a kernel "
    "whose rows are the numbers of a patch.",
    "Undo the flattening first, in the order in which JAX flattened: rows of pixels, columns, channels, then the "
    "width. Then move these four axes to the places that a Conv2d weight has.",
    cases=_models,
    judge=_back,
    given=lambda model: (_to_jax(model), model.config),
    right="two models with three channels, the same logits to 1e-5.",
)


def _to_jax(model: ViT) -> dict[str, np.ndarray]:
    """The parameters as the appendix's ViT in JAX names and stores them."""
    linear = {name for name, module in model.named_modules() if isinstance(module, nn.Linear)}
    arrays = {}
    for name, value in model.state_dict().items():
        layer, _, leaf = name.rpartition(".")
        array = value.numpy().copy()
        if layer == "patch_embed.proj" and leaf == "weight":
            leaf, array = "kernel", array.transpose(2, 3, 1, 0).reshape(-1, len(array))  # (p*p*C, D)
        elif leaf == "weight":
            leaf, array = ("kernel", array.T.copy()) if layer in linear else ("scale", array)
        arrays["positions" if name == "positions.table" else f"{layer}.{leaf}"] = array
    return arrays


def _compare(state: Any, model: ViT) -> str | None:
    """What is wrong with the first entry of a state dict that is missing or wrong."""
    if not isinstance(state, dict):
        return expected("a dictionary of tensors", state)
    right = model.state_dict()
    for kind, names in (("misses", right.keys() - state.keys()), ("has an unknown", state.keys() - right.keys())):
        if names:
            return f"Your dictionary {kind} {sorted(map(str, names))[0]!r}."
    return next(filter(None, (_entry(name, state[name], own, right) for name, own in right.items())), None)


def _entry(name: str, value: Any, right: Tensor, others: dict[str, Tensor]) -> str | None:
    if not isinstance(value, Tensor):
        return expected(f"{name} to be a tensor", value)
    if value.shape != right.shape:
        turned = right.ndim == 2 and value.shape == right.T.shape
        why = " PyTorch keeps a linear layer's weight as (out, in)." if turned else ""
        return f"Expected {name} of shape {tuple(right.shape)}, got {tuple(value.shape)}.{why}"
    if close(value.float(), right):
        return None
    if value.dtype != right.dtype and close(value.float(), right, 1e-2):
        return f"{name} has the type {value.dtype}, which rounds its numbers: expected {right.dtype}."
    return f"{name} has the right shape and wrong numbers. {_looks(value.float(), right, others)}"


def _looks(value: Tensor, right: Tensor, others: dict[str, Tensor]) -> str:
    if right.ndim == 2 and close(value, right.T):
        return "It is square, so its shape hides that it is not transposed."
    if right.ndim == 4 and close(value, right.mT):
        return "Rows and columns of its pixels are swapped."
    if other := [name for name, one in others.items() if close(value, one)]:
        return f"They are those of {other[0]}."
    if right.ndim == 4 and close(value.flatten().sort().values, right.flatten().sort().values):
        return "Are its channels last? JAX flattened each patch as (p, p, C), PyTorch reads (C, p, p)."
    if close(value.flatten().sort().values, right.flatten().sort().values):
        return "They are in another order."
    return "They are not among the arrays: are they new weights, or rounded ones?"
