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

from vitbook.exercises.engine import Raised, Wrong, call, close, described, exercise, fresh
from vitbook.exercises.forms import compute
from vitnb.attention import MultiHeadAttention
from vitnb.vit import ViT, ViTConfig


def _jax() -> tuple[ModuleType, ModuleType]:
    try:
        import jax
        from flax import nnx
    except ImportError:
        raise Wrong("This exercise needs JAX and Flax: `make jax` adds them to the book's environment.") from None
    return jax, nnx


# jax.1 ----------------------------------------------------------------------------------------------------


def _staying(p: int, C: int) -> int:
    places = np.arange(p * p * C).reshape(C, p, p)
    return int((places.ravel() == places.transpose(1, 2, 0).ravel()).sum())


def _where_they_differ(count: Callable[[int, int], int]) -> Callable[[int, int], int]:
    """A wrong count, where there are several pixels and several channels."""
    return lambda p, C: p * p * C if 1 in (p, C) else count(p, C)


def _otherwise(said: float, wanted: int, p: int, C: int) -> str:
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


# jax.2 ----------------------------------------------------------------------------------------------------


@exercise(
    "jax.2",
    "compiled(model)",
    "Which of the two, jax.jit or nnx.jit, puts a changed counter back into the model? And of which models does it do "
    "so: of those that it is given, or also of those that it finds outside?",
    "The compiled function takes the model and x. The function that comes out takes x only, and hands the model on "
    "each time.",
)
def _compiled(answer: Callable) -> str:
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

    model, x = Watched(), jax.numpy.ones((4, 64))
    model.train()
    function = call(answer, model)
    if not callable(function):
        raise Wrong(f"Your function returns {described(function)}: a function of x is wanted.")
    try:
        outs = [_array(call(function, x), x) for _ in range(4)]
    except Raised as error:
        if type(error.error).__name__ != "TraceContextError":
            raise
        raise Wrong(
            "Your function raises TraceContextError: it changes the counter of a model that it found outside. "
            "A compiled function may change only what it is given."
        ) from None
    if not runs:
        raise Wrong("The function that you return never runs the model.")
    if not all(np.isin(out, (0, 2)).all() and (out == 0).any() for out in outs):
        raise Wrong("For an x of ones, dropout 0.5 gives zeros and twos: yours gives other numbers.")
    if len(runs) >= len(outs):
        raise Wrong(f"Python ran through the model {len(runs)} times in {len(outs)} calls: nothing is compiled.")
    if any(np.array_equal(outs[0], out) for out in outs[1:]):
        raise Wrong("The same mask at several calls: the counter that moved while tracing never came back.")
    model.eval()
    if not np.array_equal(_array(call(function, x), x), x):
        raise Wrong("After model.eval() units are still dropped: does your function run a copy of the model?")
    model.train()
    if np.array_equal(_array(call(function, x), x), x):
        raise Wrong("After model.eval() and model.train() nothing is dropped any more.")
    return "new masks in compiled calls, and none in eval mode."


def _array(value: Any, wanted: Any) -> np.ndarray:
    """Return value as a NumPy array of the shape of wanted, or raise Wrong."""
    if not hasattr(value, "__array__"):
        raise Wrong(f"Your function returns {described(value)}: an array is wanted.")
    if tuple(np.shape(value)) != tuple(wanted.shape):
        raise Wrong(f"Your result has shape {tuple(np.shape(value))}: {tuple(wanted.shape)} is wanted.")
    return np.asarray(value)


# jax.3 ----------------------------------------------------------------------------------------------------

PARTS = ("query", "key", "value", "out")


@exercise(
    "jax.3",
    "stock_attention(attention)",
    "Cut the weight of qkv into three pieces of D rows first. Each piece is (out, in); Flax wants (in, out). Only "
    "then think of heads: the D outputs become h heads of D/h.",
    "The last layer takes heads in and gives D out, so there it is the inputs that are cut into heads. Biases are "
    "cut like the outputs that they are added to.",
)
def _stock(answer: Callable) -> str:
    jax, nnx = _jax()
    for D, h in ((12, 3), (16, 2)):
        attention = MultiHeadAttention(D, h).eval()
        for parameter in attention.parameters():
            parameter.data = D**-0.5 * fresh(*parameter.shape)
        stock = call(answer, attention)
        if not isinstance(stock, nnx.MultiHeadAttention):
            raise Wrong(f"Your function returns {described(stock)}: an nnx.MultiHeadAttention is wanted.")
        if stock.num_heads != h or stock.in_features != D:
            raise Wrong(
                f"Your layer has {stock.num_heads} heads for tokens of width {stock.in_features}: "
                f"{h} and {D} are wanted. num_heads comes before in_features."
            )
        x = fresh(3, 7, D)
        stock.eval()
        with torch.no_grad():
            wanted = attention(x)
        if not close(torch.tensor(np.asarray(stock(jax.numpy.asarray(x.numpy()), decode=False))), wanted):
            raise Wrong(_first_wrong(stock, attention))
    return "equal to 1e-5 for two widths and two numbers of heads."


def _first_wrong(stock: Any, attention: MultiHeadAttention) -> str:
    """Name the part of a stock layer that differs, and what it looks like."""
    D, h = attention.embed_dim, attention.num_heads
    d = D // h
    weights = [*attention.qkv.weight.detach().numpy().reshape(3, D, D), attention.proj.weight.detach().numpy()]
    biases = [*attention.qkv.bias.detach().numpy().reshape(3, D), attention.proj.bias.detach().numpy()]
    for place, part in enumerate(PARTS):
        layer, w = getattr(stock, part), weights[place]
        kernel = np.asarray(layer.kernel[...])
        if part == "out":
            looks = {
                "right": w.T.reshape(h, d, D),
                "PyTorch's weight without its transpose": w.reshape(h, d, D),
                "heads split the other way round, (D/h, h) instead of (h, D/h)": w.T.reshape(d, h, D).swapaxes(0, 1),
            }
        else:
            looks = {
                "right": w.T.reshape(D, h, d),
                "PyTorch's weight without its transpose": w.reshape(D, h, d),
                "heads split the other way round, (D/h, h) instead of (h, D/h)": w.T.reshape(D, d, h).swapaxes(1, 2),
                **{f"that of {PARTS[i]}": weights[i].T.reshape(D, h, d) for i in range(3) if i != place},
            }
        if kernel.shape != looks["right"].shape:
            raise Wrong(f"{part}.kernel has shape {kernel.shape}: {looks['right'].shape} is wanted.")
        for look, array in looks.items():
            if np.allclose(kernel, array, atol=1e-5):
                if look != "right":
                    return f"{part}.kernel is not right. It looks like {look}."
                break
        else:
            return f"{part}.kernel is not right: none of its numbers have to change, only their places."
        bias = None if layer.bias is None else np.asarray(layer.bias[...])
        if bias is None or not np.allclose(bias.ravel(), biases[place], atol=1e-5):
            return f"{part}.kernel is right, {part}.bias is not: {_bias_looks(bias)}"
    return "The weights are right, and the outputs differ: does your layer drop or normalise something?"


def _bias_looks(bias: np.ndarray | None) -> str:
    if bias is None:
        return "there is none."
    return "it is still zero." if not bias.any() else "its numbers are others, or in another order."


# jax.4 ----------------------------------------------------------------------------------------------------


@exercise(
    "jax.4",
    "to_vitnb(arrays, config)",
    "Most arrays only need another name or a transpose. Which ones stay as they are? One array needs more: a kernel "
    "whose rows are the numbers of a patch.",
    "Undo the flattening first, in the order in which JAX flattened: rows of pixels, columns, channels, then the "
    "width. Then move these four axes to the places that a Conv2d weight has.",
)
def _back(answer: Callable) -> str:
    sizes = dict(img_size=12, patch_size=4, in_chans=3, embed_dim=12, depth=2, num_heads=2)
    for norm, pool in (("pre", "cls"), ("post", "mean")):
        model = ViT(ViTConfig(**sizes, norm=norm, global_pool=pool)).eval()
        for parameter in model.parameters():
            parameter.data = 0.3 * fresh(*parameter.shape)
        state = call(answer, _to_jax(model), model.config)
        _compare(state, model)
        again = ViT(model.config).eval()
        again.load_state_dict(state)
        images = fresh(3, 3, 12, 12)
        with torch.no_grad():
            if not close(again(images), model(images)):
                raise Wrong("All arrays look right, and the logits differ.")
    return "two models with three channels, the same logits to 1e-5."


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


def _compare(state: Any, model: ViT) -> None:
    """Raise Wrong for the first entry of a state dict that is missing or wrong."""
    if not isinstance(state, dict):
        raise Wrong(f"Your function returns {described(state)}: a dictionary of tensors is wanted.")
    wanted = model.state_dict()
    for kind, names in (("misses", wanted.keys() - state.keys()), ("has an unknown", state.keys() - wanted.keys())):
        if names:
            raise Wrong(f"Your dictionary {kind} {sorted(map(str, names))[0]!r}.")
    for name, right in wanted.items():
        value = state[name]
        if not isinstance(value, Tensor):
            raise Wrong(f"{name} is {described(value)}: a torch tensor is wanted.")
        if value.shape != right.shape:
            turned = right.ndim == 2 and value.shape == right.T.shape
            why = " PyTorch keeps a linear layer's weight as (out, in)." if turned else ""
            raise Wrong(f"{name} has shape {tuple(value.shape)}: {tuple(right.shape)} is wanted.{why}")
        if not close(value.float(), right):
            raise Wrong(f"{name} has the right shape and wrong numbers. {_looks(name, value, right)}")


def _looks(name: str, value: Tensor, right: Tensor) -> str:
    if right.ndim == 2 and close(value, right.T):
        return "It is square, so its shape hides that it is not transposed."
    if right.ndim == 4 and close(value, right.mT):
        return "Rows and columns of its pixels are swapped."
    if right.ndim == 4:
        return "Are its channels last? JAX flattened each patch as (p, p, C), PyTorch reads (C, p, p)."
    return "Is it another array's?"
