# %% [markdown]
# # The block, and where its norms stand
#
# A Vision Transformer is one block, repeated. The block has four parts, and there are only a few ways to wire them. All of them have the same shapes and the same number of parameters, and all of them train when there are few. Why do some of them stop to train when there are many?
#
# | | |
# | --- | --- |
# | **You will be able to** | compute LayerNorm by hand; write the pre-norm and the post-norm block in two lines each and prove them right; read a diagram; find three wiring bugs that train; predict which deep stack learns |
# | **Time** | 60 minutes, 30 of them for the exercises |
# | **Compute** | about one minute on two CPU cores |
# | **You need** | [attention](03-attention.ipynb), as a layer from tokens to tokens of the same shape |
# | **What people get wrong** | "LayerNorm normalises over all tokens"; "`x = norm(x)`, then add: that is pre-norm"; "pre- or post-norm is a matter of taste"; "a test on a tensor of ones is a test" |

# %%
import math

import torch
from matplotlib import pyplot as plt
from torch import nn
from torch.nn import functional as F

import vitnb
from vitnb import MultiHeadAttention, ViT, ViTConfig, data, plots
from vitnb.training import Recipe, budget, fit

plots.use_style()
_ = torch.manual_seed(0)

# %% [markdown]
# <!-- (sec-block-three)= -->
# ## Three wirings
#
# A **block** holds attention, where tokens look at each other; an **MLP**, a small network in which each token thinks for itself; and two **norms**, which keep numbers at a steady size. We build the last two below. First look at the wires alone.

# %% {"tags": ["hide-input"], "mystnb": {"figure": {"name": "fig-block-wires", "caption": "Three blocks of the same parts; tokens come in below and go out above. The thick line is the residual stream. Follow it: which boxes does it meet?"}, "image": {"alt": "Three diagrams. Left, pre-norm: the stream meets only two plus signs; both norms stand on the side branches, before attention and before the MLP. Middle, post-norm: the branches hold attention and MLP alone, and a norm stands on the stream after each plus sign. Right, normalise then add: a norm stands on the stream before each branch leaves it."}}}
WIRES = {  # from below: a branch is a list, a norm on the stream a word
    "pre-norm": [["norm", "attention"], ["norm", "MLP"]],
    "post-norm": [["attention"], "norm", ["MLP"], "norm"],
    "normalise, then add": ["norm", ["attention"], "norm", ["MLP"]],
}
SHADES = {"norm": "#f6c9a5", "attention": "#b5d7ee", "MLP": "#b4e0d2"}


def box(axis, x, y, text):
    axis.text(x, y, text, ha="center", va="center", fontsize=10,
              bbox=dict(boxstyle="round,pad=0.35", lw=1,
                        facecolor=SHADES[text], edgecolor="black"))


def draw(axis, title, parts):
    y = 0.6
    for part in parts:
        if isinstance(part, str):
            box(axis, 0, y + 0.3, part)
            y += 1.1
            continue
        top = y + len(part) + 0.5
        axis.plot([0, 1.1, 1.1, 0], [y, y, top, top], "k", lw=1.2,
                  zorder=0)
        for step, name in enumerate(part):
            box(axis, 1.1, y + 0.75 + step, name)
        axis.plot(0, top, "o", ms=15, mfc="white", mec="black")
        axis.text(0, top, "+", ha="center", va="center", fontsize=13)
        y = top + 0.7
    axis.annotate("", (0, 6.9), (0, -0.2), zorder=-1, arrowprops=dict(
        arrowstyle="-|>", lw=4, color=plots.COLORS[0], shrinkA=0))
    axis.set(xlim=(-0.7, 2), ylim=(-0.3, 7), title=title)
    axis.set_axis_off()


figure, axes = plt.subplots(1, 3, figsize=(7.8, 4.6))
for axis, (title, parts) in zip(axes, WIRES.items()):
    draw(axis, title, parts)

# %% [markdown]
# The first is the block of the Vision Transformer [(Dosovitskiy et al., 2021)](#dosovitskiy2021image). The second is that of the first Transformer [(Vaswani et al., 2017)](#vaswani2017attention). The third is in two of the notebooks that we learned from, and was meant to be the first.
#
# **Guess now:** stack 36 of each and train. Which of the three learn?

# %% [markdown]
# <!-- (sec-block-stream)= -->
# ## The residual stream
#
# Start with the plus signs. A **branch** $f$, say attention, does not replace its tokens. It computes something that is added to them [(He et al., 2016)](#he2016deep):
#
# $$
# x \leftarrow x + f(x)
# $$ <!-- (eq-block-residual) -->
#
# What runs from the first block to the last is called the **residual stream**: every branch reads from it and adds to it. A branch that is silent leaves it as it was.

# %% {"tags": ["nbval-check-output"]}
x = torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])  # (T, D)
f = nn.Linear(3, 3)
nn.init.zeros_(f.weight)
nn.init.zeros_(f.bias)
print("f(x):", f(x).tolist())
assert torch.equal(x + f(x), x)
print("A silent branch: x + f(x) is x. The layer is the identity.")

# %% [markdown]
# What is it good for? Here are thirty layers, once in a row and once along a stream. We ask how much of the gradient at the end comes back to the input.

# %%
layers = [nn.Sequential(nn.Linear(64, 64), nn.Tanh())
          for _ in range(30)]
x = torch.randn(8, 64, requires_grad=True)  # (B, D)
row = stream = x
for f in layers:
    row = f(row)
    stream = stream + f(stream)

share = {}
for name, end in (("in a row", row), ("along a stream", stream)):
    (grad,) = torch.autograd.grad(end.sum(), x)  # all ones at the end
    share[name] = (grad.norm() / x.numel() ** 0.5).item()
    print(f"{name:<15} gradient that comes back: {share[name]:.1e}")
assert share["in a row"] < 1e-4 < 0.1 < share["along a stream"]

# %% [markdown]
# In a row, each layer passes on a part of what it gets, and thirty parts of parts are nothing. Along the stream the derivative of $x + f(x)$ is $1 + f'(x)$: the $1$ is a free way through. That way is the thick line of the figure. Keep an eye on what stands on it.

# %% [markdown]
# <!-- (sec-block-norm)= -->
# ## LayerNorm, on one token
#
# Branches want inputs of a steady size. **LayerNorm** [(Ba et al., 2016)](#ba2016layer) takes the $D$ numbers of *one token*, subtracts their mean $\mu$, divides by their spread, and then gives each channel a learned gain $\gamma$ and bias $\beta$:
#
# $$
# y_d = \gamma_d \, \frac{x_d - \mu}{\sqrt{\sigma^2 + \varepsilon}} + \beta_d, \qquad \mu = \frac{1}{D} \sum_d x_d, \qquad \sigma^2 = \frac{1}{D} \sum_d (x_d - \mu)^2
# $$ <!-- (eq-block-norm) -->

# %% {"tags": ["nbval-check-output"]}
token = torch.tensor([1.0, 2.0, 3.0, 6.0])         # (D,)
mean = token.mean()                                # 12 / 4
variance = ((token - mean) ** 2).mean()            # (4+1+0+9) / 4
y = (token - mean) / (variance + 1e-6).sqrt()      # (D,)
print(f"mean {mean:.1f}, variance {variance:.1f}")
print("y   ", [round(v, 3) for v in y.tolist()])
assert torch.allclose(y, nn.LayerNorm(4, eps=1e-6)(token))
print("nn.LayerNorm gives the same.")

# %% [markdown]
# Two details. The variance divides by $D$. `torch.var` divides by $D - 1$ unless told otherwise, and nothing complains:

# %% {"tags": ["nbval-check-output"]}
print(f"divided by D:    {token.var(correction=0):.3f}")
print(f"divided by D-1:  {token.var():.3f}  (torch.var's default)")

# %% [markdown]
# And gain and bias are $D$ learned numbers each. They begin as ones and zeros, so a fresh LayerNorm hides mistakes in them; our tests below give them random values.
#
# What does a token lose? Its offset and its size:

# %% {"tags": ["nbval-check-output"]}
norm = nn.LayerNorm(4, eps=1e-6)
assert torch.allclose(norm(10 * token + 5), norm(token), atol=1e-5)
print("LN(10x + 5) = LN(x)")

# %% [markdown]
# **Why $\varepsilon$?** A token whose numbers are all equal has variance 0. Without $\varepsilon$ that is 0/0. With it, the output is zero, exactly, whatever the number was:

# %% {"tags": ["nbval-check-output"]}
ones = torch.ones(1, 5, 4)               # (B, T, D)
print("largest |LN(ones)|:", norm(ones).abs().max().item())

# %% [markdown]
# One of the notebooks that we learned from tests its block on a tensor of ones. So what its layers get to see is zeros. How much does such a test see? Let us break a layer on purpose:

# %% {"tags": ["nbval-check-output"]}
layer, broken = nn.Linear(4, 4), nn.Linear(4, 4)
broken.weight.data = -7 * layer.weight.data
broken.bias.data = layer.bias.data
assert torch.equal(layer(norm(ones)), broken(norm(ones)))
print("On ones, the broken layer gives exactly the same.")
x = torch.randn(1, 5, 4)
assert not torch.allclose(layer(norm(x)), broken(norm(x)), atol=0.1)
print("On random tokens it does not.")

# %% [markdown]
# ## Per token, never over tokens
#
# "Layer" norm sounds as if it took the whole layer, all tokens at once. It does not. Each token is normalised alone, so a change of token 1 cannot touch token 0:

# %% {"tags": ["nbval-check-output"]}
T, D = 5, 8
x = torch.randn(2, T, D)                 # (B, T, D)
other = x.clone()
other[:, 1] = torch.randn(D)             # a new token 1
norm = nn.LayerNorm(D)
assert torch.equal(norm(x)[:, 0], norm(other)[:, 0])
print("LayerNorm(D): token 0 does not notice token 1.")

# %% [markdown]
# `nn.LayerNorm` normalises over the axes that you name. A notebook that we learned from names two of them, tokens and channels. The shape of the output is right, and a model trains with it. Three small tests say no:

# %% {"tags": ["nbval-check-output"]}
wrong = nn.LayerNorm([T, D])
assert not torch.allclose(wrong(x)[:, 0], wrong(other)[:, 0])
print("1. LayerNorm([T, D]): token 0 moves when token 1 does.")

count = sum(p.numel() for p in norm.parameters())
too_many = sum(p.numel() for p in wrong.parameters())
print(f"2. {too_many} parameters instead of {count}: T times as many.")

try:
    wrong(torch.randn(2, T + 1, D))
except RuntimeError:
    print("3. With one token more it does not run at all.")

# %% [markdown]
# The third is why the size of the pictures could never change in such a model. The first is worse: it is a second, unasked way for tokens to talk.

# %% [markdown]
# <!-- (sec-block-mlp)= -->
# ## The MLP
#
# Attention moves things between tokens. The MLP works on each token alone: one linear layer to a wider vector, a bend, one linear layer back. The bend is GELU [(Hendrycks and Gimpel, 2016)](#hendrycks2016gelu),
#
# $$
# \mathrm{GELU}(x) = x \, \Phi(x)
# $$ <!-- (eq-block-gelu) -->
#
# where $\Phi(x)$ is the share of a standard normal distribution that lies below $x$. ReLU multiplies $x$ by 0 or 1; GELU by something in between.

# %% {"tags": ["nbval-check-output"]}
z = torch.tensor([-3.0, -2, -1, -0.5, 0, 0.5, 1, 2, 3],
                 requires_grad=True)
phi = 0.5 * (1 + torch.erf(z / math.sqrt(2)))
assert torch.allclose(z * phi, F.gelu(z), atol=1e-6)
(slope,) = torch.autograd.grad(F.gelu(z).sum(), z)
print("    x    ReLU    GELU   slope of GELU")
for row in torch.stack([z, F.relu(z), F.gelu(z), slope], 1).tolist():
    print("{:5.1f} {:7.3f} {:7.3f} {:8.3f}".format(*row))

# %% [markdown]
# Far from zero they agree. Near zero GELU has no corner, it dips a little below zero, and to the left of zero it still has a slope, so a unit that is off can learn to be on. How far apart are they at most?

# %% {"tags": ["nbval-check-output"]}
z = torch.linspace(-5, 5, 10001)
print(f"largest difference to ReLU {(F.gelu(z) - F.relu(z)).abs().max():.2f}")
print(f"lowest value {F.gelu(z).min():.2f} at x = {z[F.gelu(z).argmin()]:.2f}")

# %% [markdown]
# That is little, and a model with ReLU trains too. Only a comparison of numbers shows that somebody took the other one.

# %%
class MLP(nn.Module):
    def __init__(self, embed_dim, hidden_dim, dropout=0.0):
        super().__init__()
        self.fc1 = nn.Linear(embed_dim, hidden_dim)
        self.act = nn.GELU()
        self.fc2 = nn.Linear(hidden_dim, embed_dim)
        self.drop = nn.Dropout(dropout)

    def forward(self, x):
        x = self.drop(self.act(self.fc1(x)))  # (B, T, hidden)
        return self.drop(self.fc2(x))         # (B, T, D)

# %% {"tags": ["nbval-check-output"]}
mlp, x = MLP(8, 32), torch.randn(2, 5, 8)
assert torch.allclose(mlp(x)[:, 3], mlp(x[:, 3:4])[:, 0], atol=1e-6)
print("Token 3 alone gets what it gets among five.")

# %% [markdown]
# **How wide?** The paper takes four times $D$, the **MLP ratio**. Then the MLP is where most of the weights are:

# %% {"tags": ["nbval-check-output"]}
def count(module):
    return sum(p.numel() for p in module.parameters())


attention, mlp = MultiHeadAttention(768, 12), MLP(768, 4 * 768)
print(f"attention {count(attention):>9,}   about 4 D² = {4 * 768**2:,}")
print(f"MLP       {count(mlp):>9,}   about 8 D² = {8 * 768**2:,}")

# %% [markdown]
# **Dropout** sets a random part of the numbers to zero while the model trains, and scales up the rest. In the paper it stands after every linear layer except the one that makes queries, keys and values, and once more after the positions are added (appendix B.1). In evaluation it does nothing, if you remember `eval()`:

# %% {"tags": ["nbval-check-output"]}
mlp, x = MLP(8, 32, dropout=0.5), torch.randn(2, 5, 8)
assert not torch.equal(mlp(x), mlp(x))
mlp.eval()
assert torch.equal(mlp(x), mlp(x))
print("Training: two calls differ. After eval(): they are equal.")

# %% [markdown]
# <!-- (sec-block-two)= -->
# ## Two blocks, two lines each
#
# All parts are there. Both blocks share them:

# %%
class Parts(nn.Module):
    def __init__(self, D, heads, mlp_ratio=4, dropout=0.0):
        super().__init__()
        self.norm1 = nn.LayerNorm(D, eps=1e-6)
        self.attention = MultiHeadAttention(D, heads, dropout=dropout)
        self.norm2 = nn.LayerNorm(D, eps=1e-6)
        self.mlp = MLP(D, mlp_ratio * D, dropout)

# %% [markdown]
# **Pre-norm.** The norm stands on the branch, before attention, before the MLP. Nothing but plus signs touches the stream. These are equations 2 and 3 of the paper, with MSA for attention and LN for LayerNorm:
#
# $$
# x' = x + \mathrm{MSA}(\mathrm{LN}(x)), \qquad x'' = x' + \mathrm{MLP}(\mathrm{LN}(x'))
# $$ <!-- (eq-block-pre) -->

# %%
class PreNormBlock(Parts):
    def forward(self, x):
        x = x + self.attention(self.norm1(x))  # (B, T, D)
        return x + self.mlp(self.norm2(x))     # (B, T, D)

# %% [markdown]
# **Post-norm.** Add first, then normalise the sum. The norm stands on the stream:
#
# $$
# x' = \mathrm{LN}(x + \mathrm{MSA}(x)), \qquad x'' = \mathrm{LN}(x' + \mathrm{MLP}(x'))
# $$ <!-- (eq-block-post) -->

# %%
class PostNormBlock(Parts):
    def forward(self, x):
        x = self.norm1(x + self.attention(x))  # (B, T, D)
        return self.norm2(x + self.mlp(x))     # (B, T, D)

# %% [markdown]
# Are they right? PyTorch has a layer for either. We copy our weights into it, with random gains and biases, and compare:

# %% {"tags": ["hide-input"]}
def torchs(block, norm_first):
    """torch's own layer, with the weights of our block."""
    D, heads = block.attention.embed_dim, block.attention.num_heads
    layer = nn.TransformerEncoderLayer(
        D, heads, block.mlp.fc1.out_features, dropout=0.0,
        activation="gelu", layer_norm_eps=1e-6, batch_first=True,
        norm_first=norm_first)
    for theirs, ours in (
        (layer.self_attn.out_proj, block.attention.proj),
        (layer.linear1, block.mlp.fc1), (layer.linear2, block.mlp.fc2),
        (layer.norm1, block.norm1), (layer.norm2, block.norm2),
    ):
        theirs.load_state_dict(ours.state_dict())
    layer.self_attn.in_proj_weight.data = block.attention.qkv.weight.data
    layer.self_attn.in_proj_bias.data = block.attention.qkv.bias.data
    return layer


def shaken(block, size=0.3):
    """No parameter at a special value: 0 and 1 hide mistakes."""
    for p in block.parameters():
        nn.init.normal_(p, std=size)
    return block

# %% {"tags": ["nbval-check-output"]}
x = torch.randn(3, 17, 48)                     # (B, T, D)
pre, post = shaken(PreNormBlock(48, 6)), shaken(PostNormBlock(48, 6))
assert torch.allclose(pre(x), torchs(pre, True)(x), atol=1e-4)
print("PreNormBlock  = TransformerEncoderLayer(norm_first=True)")
assert torch.allclose(post(x), torchs(post, False)(x), atol=1e-4)
print("PostNormBlock = TransformerEncoderLayer(norm_first=False)")
assert not torch.allclose(pre(x), torchs(pre, False)(x), atol=0.1)
print("Swapped, they differ: the comparison can fail.")

# %% {"tags": ["nbval-check-output"]}
for ours, Theirs in ((pre, vitnb.PreNormBlock),
                     (post, vitnb.PostNormBlock)):
    theirs = Theirs(48, 6)
    theirs.load_state_dict(ours.state_dict())
    assert torch.equal(ours(x), theirs(x))
print("The chapter's blocks are vitnb's.")

# %% [markdown]
# PyTorch's own default is `norm_first=False`, by the way, with ReLU: without arguments you get the block of 2017.
#
# The smallest test needs no reference. Silence both branches; what is left is the wiring:

# %% {"tags": ["nbval-check-output"]}
def silence(*layers):
    for layer in layers:
        nn.init.zeros_(layer.weight)
        nn.init.zeros_(layer.bias)


for block in (pre, post):
    silence(block.attention.proj, block.mlp.fc2)
assert torch.equal(pre(x), x)
print("Pre-norm, both branches silent: the identity.")
assert torch.equal(post(x), post.norm2(post.norm1(x)))
print("Post-norm, both branches silent: two norms remain.")

# %% [markdown]
# <!-- (sec-block-bugs)= -->
# ## Bugs that train
#
# You have met the first: LayerNorm over all tokens. The notebooks that we learned from have two more, and both look almost right.
#
# **Normalise, then add.** Somebody wants pre-norm and writes it step by step:

# %%
class NormaliseThenAdd(Parts):
    def forward(self, x):
        x = self.norm1(x)           # the stream itself is replaced
        x = x + self.attention(x)   # (B, T, D)
        x = self.norm2(x)           # and again
        return x + self.mlp(x)      # (B, T, D)

# %% [markdown]
# The norm comes before attention, as in the diagram. But what is added to is the *normalised* token: the name `x` has changed its meaning. The right diagram at the top shows it: both norms stand on the stream. Two tests see it:

# %% {"tags": ["nbval-check-output"]}
bug = NormaliseThenAdd(48, 6)
assert torch.allclose(bug(10 * x), bug(x), atol=1e-4)
print("block(10 x) = block(x): the size of the stream is erased.")
silence(bug.attention.proj, bug.mlp.fc2)
assert not torch.allclose(bug(x), x, atol=0.1)
print("Both branches silent, and it is not the identity.")

# %% [markdown]
# If it is no pre-norm, what is it? Write down two of these blocks, one below the other, and draw the borders elsewhere:
#
# | as written | the same steps, grouped anew |
# | --- | --- |
# | block 1: `x = norm1(x)` | a norm at the entrance |
# | `x = x + attention(x)`, `x = norm2(x)` | add, then normalise |
# | `x = x + mlp(x)`, and block 2: `x = norm1(x)` | add, then normalise |
# | `x = x + attention(x)`, `x = norm2(x)` | add, then normalise |
# | `x = x + mlp(x)`, and the final norm | add, then normalise |
#
# It is post-norm. Every norm belongs to the sum before it, and one is left over at the entrance. The proof moves each norm to its neighbour:

# %% {"tags": ["nbval-check-output"]}
L, D = 6, 48
chain = [shaken(NormaliseThenAdd(D, 6), 0.2) for _ in range(L)]
final = shaken(nn.LayerNorm(D), 0.2)

stack = [PostNormBlock(D, 6) for _ in range(L)]
after = [b.norm1 for b in chain[1:]] + [final]   # shifted by one
for b, c, norm in zip(stack, chain, after):
    b.attention, b.norm1, b.mlp, b.norm2 = (
        c.attention, c.norm2, c.mlp, norm)

y, z = x, chain[0].norm1(x)                      # (B, T, D)
for b, c in zip(stack, chain):
    y, z = c(y), b(z)
error = (final(y) - z).abs().max().item()
assert error < 1e-6
print(f"{L} blocks 'normalise, then add' = {L} post-norm blocks.")

# %% [markdown]
# Not similar: the same function. So whatever you learn below about deep post-norm stacks holds for this bug.
#
# **The forgotten plus.** Another notebook keeps one residual and loses the other:

# %%
class ForgottenPlus(Parts):
    def forward(self, x):
        x = self.norm1(x)
        return x + self.mlp(self.norm2(x + self.attention(x)))

# %% [markdown]
# There are two plus signs, as there should be. But the inner sum goes only into the MLP: attention never writes to the stream. The test: silence the MLP *alone* and make attention's output a hundred times larger. The stream must notice.

# %% {"tags": ["nbval-check-output"]}
def attention_reaches_the_stream(block):
    x = torch.randn(2, 5, 48)
    silence(block.mlp.fc2)
    before = block(x)
    block.attention.proj.weight.data *= 100
    return (block(x) - before).abs().max().item()


change = attention_reaches_the_stream(ForgottenPlus(48, 6))
assert change == 0
print("Forgotten plus: 100 times the attention changes", change)
assert attention_reaches_the_stream(PreNormBlock(48, 6)) > 1
print("Pre-norm: it changes a lot.")

# %% [markdown]
# Each bug needs its own test. Exercise 4.5 asks for one that none of them passes.

# %% [markdown]
# <!-- (sec-block-rms)= -->
# ## The stream grows, so it ends in a norm
#
# In a pre-norm stack every branch adds and nothing divides. What happens to the size of the tokens? We measure the root of their mean square (rms) after every block of an untrained model. (`ViT` is the whole model, put together in [chapter 6](06-vit.ipynb); here it is a box with blocks inside.)

# %% {"tags": ["hide-input"], "mystnb": {"figure": {"name": "fig-block-rms", "caption": "Size of the residual stream after each of 32 blocks, before any training: mean of 3 seeds, band from the lowest to the highest."}, "image": {"alt": "The curve of pre-norm rises steadily with the number of the block. The curve of post-norm is flat at 1."}}}
clothes = data.load("fashion_mnist")
images = clothes.normalize(clothes.train_images[:32])  # (B, C, H, W)


def fresh(norm, depth, seed, D=64, p=7, heads=4, pool="cls"):
    torch.manual_seed(seed)
    return ViT(ViTConfig(norm=norm, depth=depth, embed_dim=D, pos_std=1.0,
                         patch_size=p, num_heads=heads, global_pool=pool))


@torch.no_grad()
def sizes(model):
    steps = model.forward_intermediates(images)  # name -> (B, T, D)
    return [steps[f"block_{n}"].square().mean().sqrt().item()
            for n in range(1, len(model.blocks) + 1)]


figure, axis = plt.subplots(figsize=(6, 3.2))
rms = {}
for norm, color in zip(("pre", "post"), plots.COLORS):
    runs = rms[norm] = [sizes(fresh(norm, 32, seed)) for seed in range(3)]
    plots.spread(axis, range(1, 33), runs, f"{norm}-norm", color)
axis.set(xlabel="block", ylabel="rms of the stream", ylim=(0, None))
axis.legend();

# %%
for norm, runs in rms.items():
    first, *_, last = torch.tensor(runs).mean(0).tolist()
    print(f"{norm}-norm: rms {first:.2f} after block 1,"
          f" {last:.2f} after block 32")
assert min(r[-1] for r in rms["pre"]) > 2 * max(r[0] for r in rms["pre"])
assert all(abs(size - 1) < 0.01 for r in rms["post"] for size in r)

# %% [markdown]
# Post-norm has size 1 by force. The pre-norm stream grows, and how far depends on the depth. The head that reads it at the end should not have to care, so a pre-norm stack needs **one final norm**. It is easy to forget, since it belongs to no block, and again nothing complains. In `vitnb`:

# %% {"tags": ["nbval-check-output"]}
for norm in ("pre", "post"):
    print(norm, "->", type(fresh(norm, 2, 0).norm).__name__)

# %% [markdown]
# The growth has a second effect. A branch of block 30 adds about as much as one of block 1, but to a stream that is larger by then. Its share is small: late blocks change the tokens little. Remember it for what comes now.

# %% [markdown]
# <!-- (sec-block-gradient)= -->
# ## Before the first step: gradients
#
# Xiong et al. asked what a norm on the stream does to gradients *before* training [(Xiong et al., 2020)](#xiong2020layer). Their answer: the gradient of the **last** block does not depend on the depth in post-norm, and falls like $1/\sqrt{L}$ for $L$ blocks in pre-norm. We look at the second matrix of the last MLP. The weights begin as `vitnb` begins: random, with the spread $\sqrt{2 / (\text{inputs} + \text{outputs})}$, which keeps signals at their size from layer to layer and is called Xavier initialisation [(Glorot and Bengio, 2010)](#glorot2010understanding).

# %% {"tags": ["hide-input"]}
DEPTHS = budget((2, 4, 8, 16, 32), (2, 8, 32))
SEEDS = budget(5, 2)


def last_gradient(norm, depth, seed, std=None):
    model = fresh(norm, depth, seed)
    if std is not None:  # another start for the blocks
        for layer in model.blocks.modules():
            if isinstance(layer, nn.Linear):
                nn.init.normal_(layer.weight, std=std)
    one = slice(seed, seed + 1)  # each seed sees one picture, its own
    loss = F.cross_entropy(model(images[one]), clothes.train_labels[one])
    loss.backward()
    return model.blocks[-1].mlp.fc2.weight.grad.norm().item()


def by_depth(measure, *more):
    return {norm: [[measure(norm, depth, seed, *more) for depth in DEPTHS]
                   for seed in range(SEEDS)] for norm in ("pre", "post")}

# %% {"mystnb": {"figure": {"name": "fig-block-gradient", "caption": "Gradient of the last block before training, over the number of blocks: mean of 5 seeds, band from the lowest to the highest. Left, Xavier initialisation; right, weights with standard deviation 0.02. The dotted line falls like one over the root of the depth."}, "image": {"alt": "Left: the post-norm curve is flat, the pre-norm curve falls along the dotted line. Right: both curves are flat and lie on each other."}}}
gradients = {"Xavier": by_depth(last_gradient),
             "N(0, 0.02²)": by_depth(last_gradient, 0.02)}
figure, axes = plt.subplots(1, 2, figsize=(8, 3.4), sharey=True)
for axis, (title, result) in zip(axes, gradients.items()):
    for norm, color in zip(result, plots.COLORS):
        plots.spread(axis, DEPTHS, result[norm], f"{norm}-norm", color)
    axis.set(xscale="log", yscale="log", xlabel="blocks", title=title)
    axis.set_xticks(DEPTHS, DEPTHS)
    axis.set_yticks([0.1, 0.2, 0.5, 1], ["0.1", "0.2", "0.5", "1"])
    axis.minorticks_off()
start = torch.tensor(gradients["Xavier"]["pre"]).mean(0)[0]
axes[0].plot(DEPTHS, [start * (2 / L) ** 0.5 for L in DEPTHS], "k:")
axes[0].set(ylabel="gradient (length)", ylim=(0.08, 1.6))
axes[1].legend();

# %%
for init, result in gradients.items():
    ratio = {}
    for norm, runs in result.items():
        g = torch.tensor(runs).mean(0)             # (depths,)
        ratio[norm] = (g[-1] / g[0]).item()
        print(f"{init:<12} {norm:<5} 32 blocks / 2 blocks:"
              f" {ratio[norm]:.2f}")
    if init == "Xavier":
        assert ratio["pre"] < 0.5 and ratio["post"] > 0.6
    else:
        assert all(0.7 < r < 1.4 for r in ratio.values())
print("1/sqrt(L) would be 0.25.")

# %% [markdown]
# On the left is the claim of the paper: flat against falling. Now the right side. It is the same measurement with the start that most code uses, weights of standard deviation 0.02 whatever the width, and the two norms cannot be told apart. Why? At the width of this model 0.02 is so small that every branch is nearly silent, and where branches are silent there is not much to normalise. At width 768 the same 0.02 is close to what Xavier gives:

# %% {"tags": ["nbval-check-output"]}
for D in (64, 768):
    xavier = math.sqrt(2 / (D + D))    # a square matrix
    print(f"width {D:>3}: Xavier {xavier:.3f}, that is "
          f"{xavier / 0.02:.1f} times 0.02")

# %% [markdown]
# So whoever repeats such a measurement on a small model should say how it begins.

# %% [markdown]
# ## Before the first step: shake it
#
# Is the larger gradient the reason why deep post-norm stacks fail? Not alone: Adam, the optimiser of nearly all Transformers, divides each gradient by its own size, so it hardly cares. Liu et al. look at something else [(Liu et al., 2020)](#liu2020understanding): a step changes *all* weights of *all* blocks a little. How far does the output move? Here we move each weight by 0.001, up or down at random.

# %% {"mystnb": {"figure": {"name": "fig-block-shake", "caption": "How far the output moves, relative to its length, when every weight of the blocks moves by 0.001: mean of 5 seeds, band from the lowest to the highest."}, "image": {"alt": "Over 2 to 32 blocks the post-norm curve rises steeply; the pre-norm curve stays almost flat."}}}
@torch.no_grad()
def shake(norm, depth, seed):
    model = fresh(norm, depth, seed, D=32, p=14, heads=2, pool="mean")
    before = model.forward_features(images)        # (B, T, D)
    for p in model.blocks.parameters():
        p += 0.001 * torch.randn_like(p).sign()
    after = model.forward_features(images)
    return ((after - before).norm() / before.norm()).item()


moved = by_depth(shake)
figure, axis = plt.subplots(figsize=(6, 3.2))
for norm, color in zip(moved, plots.COLORS):
    plots.spread(axis, DEPTHS, moved[norm], f"{norm}-norm", color)
axis.set(xlabel="blocks", ylabel="the output moves by", ylim=(0, None))
axis.legend();

# %%
moved_by = {norm: torch.tensor(runs).mean(0) for norm, runs in moved.items()}
for norm, m in moved_by.items():
    print(f"{norm}-norm: {100 * m[0]:.1f} % with 2 blocks,"
          f" {100 * m[-1]:.1f} % with 32")
assert moved_by["post"][-1] > 2 * moved_by["pre"][-1]
print("A deep post-norm stack amplifies small steps.")

# %% [markdown]
# In pre-norm the late blocks add little to a stream that is large by then, so their shaking hardly shows. In post-norm the stream is cut back to size 1 after every sum: each block is as loud as the first, and the errors of all of them add up. A step of a length that is harmless for 2 blocks is a leap for 32.
#
# That also says what a **warm-up** is for. It begins with steps so short that even the amplified ones are short.

# %% [markdown]
# <!-- (sec-block-experiment)= -->
# ## Predict, then run
#
# We trained a small ViT on pieces of 14 × 14 pixels: 6, 12, 24 or 36 blocks; pre- or post-norm; two learning rates; without warm-up, and with a warm-up over the first third of the steps. **Write down, before you go on:** at which depth does post-norm begin to fail? Does the warm-up save it at 36 blocks? Does pre-norm need one?

# %% {"tags": ["hide-input"]}
stored = data.result("norms")
config, arms = stored["config"], stored["result"]["arms"]
print("Repeat it with:", stored["command"])
print(f"{config['steps']} steps, {len(stored['seeds'])} seeds; per cent of"
      f" {config['test_pictures']:,} test pictures right, mean")


def accuracy(**wanted):
    """The accuracies of one arm, in per cent, one a seed."""
    wanted = {"change": ""} | wanted
    (arm,) = (a for a in arms if wanted.items() <= a.items())
    return 100 * torch.tensor(arm["accuracy"])


print("\n                      blocks:", *[f"{d:>5}" for d in config["depths"]])
for lr in config["learning_rates"]:
    for warmup in config["warmup_steps"]:
        for norm in config["norms"]:
            row = [accuracy(depth=d, norm=norm, warmup=warmup, lr=lr).mean()
                   for d in config["depths"]]
            print(f"lr {lr:.3f}, warm-up {warmup:>2}, {norm + '-norm':<9}",
                  *[f"{a:5.1f}" for a in row])

# %% {"tags": ["hide-input"], "mystnb": {"figure": {"name": "fig-block-grid", "caption": "Accuracy after the same short training, over the number of blocks: mean of 3 seeds, band from the lowest to the highest. The dotted line is chance."}, "image": {"alt": "Four panels, two learning rates by with and without warm-up. In all of them the pre-norm curve stays high. The post-norm curve starts near it at 6 blocks and falls towards chance with depth; with warm-up it falls later, and with the higher learning rate earlier."}}}
figure, axes = plt.subplots(2, 2, figsize=(8, 5.6), sharex=True, sharey=True)
for row, lr in zip(axes, config["learning_rates"]):
    for axis, warmup in zip(row, config["warmup_steps"]):
        for norm, color in zip(config["norms"], plots.COLORS):
            runs = [accuracy(depth=d, norm=norm, warmup=warmup, lr=lr)
                    for d in config["depths"]]
            plots.spread(axis, config["depths"], torch.stack(runs, 1).tolist(),
                         f"{norm}-norm", color)
        axis.axhline(10, color="black", ls=":", lw=1)
        how = f"warm-up {warmup} steps" if warmup else "no warm-up"
        axis.set(title=f"rate {lr:g}, {how}", ylim=(0, 95),
                 xticks=config["depths"])
for axis in axes[:, 0]:
    axis.set_ylabel("test accuracy (%)")
for axis in axes[1]:
    axis.set_xlabel("blocks")
axes[0, 0].legend(loc="upper right", ncols=2, fontsize=9);

# %% [markdown]
# With 6 blocks one could call it a matter of taste. With more, post-norm falls behind, and then learns nothing; the higher the rate, the earlier. The warm-up moves that border, as the shaking let us expect, but does not lift it. Pre-norm trains at every depth. It, too, is a little worse at 36 blocks than at its best: more blocks are not better by themselves, here after a training this short.

# %% {"tags": ["hide-input"]}
def means(norm, warmup):
    rates = config["learning_rates"]
    return [[accuracy(depth=d, norm=norm, warmup=warmup, lr=lr).mean()
             for d in config["depths"]] for lr in rates]


pre, post = torch.tensor(means("pre", 0)), torch.tensor(means("post", 0))
warm = torch.tensor(means("post", 50))
assert (pre > 50).all()
print("Pre-norm: above 50 % at every depth and rate, without warm-up.")
assert (pre[:, 0] - post[:, 0] < 12).all() and (post[:, 0] > 50).all()
print("Post-norm: close to it with 6 blocks,")
assert (post[:, -1] < 25).all()
print("below 25 % with 36, at either rate.")
assert (warm[:, 1:].mean(1) > post[:, 1:].mean(1)).all()
assert (warm[:, -1] < pre[:, -1] - 15).all()
print("Warm-up helps post-norm, and does not save it at 36 blocks.")

# %% [markdown]
# Two cautions. This is a very small model and a very short training: the depth at which post-norm gives up depends on width, rate, data and patience, and BERT has 12 or 24 post-norm blocks, and was trained, with a warm-up [(Devlin et al., 2019)](#devlin2019bert). And nothing here says that pre-norm ends *better* where both train.
#
# <!-- (sec-block-scale)= -->
# ## A way out
#
# If the trouble is that all branches speak at once and at full voice, let them begin quietly. **LayerScale** [(Touvron et al., 2021)](#touvron2021going) multiplies each branch by one learned gain $\lambda_d$ a channel, and starts these gains near zero:
#
# $$
# x \leftarrow x + \lambda \odot f(x), \qquad \lambda_d = 10^{-4} \text{ at first}
# $$ <!-- (eq-block-scale) -->
#
# ReZero [(Bachlechner et al., 2021)](#bachlechner2021rezero) does the same with one number for each branch, from zero. At the start, every block is then nearly silent, and a stack of any depth is nearly the identity, as in the first cells of this chapter.

# %%
class LayerScale(nn.Module):
    def __init__(self, branch, D, gain=1e-4):
        super().__init__()
        self.branch = branch
        self.gain = nn.Parameter(torch.full((D,), gain))

    def forward(self, x):
        return self.gain * self.branch(x)  # (B, T, D)


def quiet(model, gain=1e-4):
    D = model.config.embed_dim
    for block in model.blocks:
        block.attention = LayerScale(block.attention, D, gain)
        block.mlp = LayerScale(block.mlp, D, gain)
    return model

# %% [markdown]
# **Predict:** does it save 36 *post-norm* blocks, without any warm-up?

# %% {"tags": ["hide-input"], "mystnb": {"figure": {"name": "fig-block-scale", "caption": "36 blocks, no warm-up: with and without LayerScale, for both norms and both learning rates. Bars: mean of 3 seeds; dots: the seeds. The dotted line is chance."}, "image": {"alt": "Bars for four settings. Plain post-norm is near chance, plain pre-norm well above half. With LayerScale both norms reach about the same height, above plain pre-norm."}}}
figure, axes = plt.subplots(1, 2, figsize=(8, 3.4), sharey=True)
for axis, lr in zip(axes, config["learning_rates"]):
    for place, norm in enumerate(config["norms"]):
        for side, change in enumerate(("", "layer scale")):
            a = accuracy(depth=36, norm=norm, warmup=0, lr=lr,
                         change=change)
            at = place + 0.38 * side
            axis.bar(at, a.mean(), 0.34, color=plots.COLORS[2 * side],
                     alpha=0.7, label=change or "plain" if not place
                     else None)
            axis.plot([at] * len(a), a, "k.")
    axis.axhline(10, color="black", ls=":", lw=1)
    axis.set(xticks=[0.19, 1.19], title=f"rate {lr:g}", ylim=(0, 95),
             xticklabels=[f"{norm}-norm" for norm in config["norms"]])
axes[0].set_ylabel("test accuracy (%)")
axes[0].legend(loc="upper right", ncols=2);

# %% {"tags": ["hide-input"]}
for norm in config["norms"]:
    for lr in config["learning_rates"]:
        arm = dict(depth=36, norm=norm, warmup=0, lr=lr)
        plain = accuracy(**arm).mean()
        scaled = accuracy(**arm, change="layer scale").mean()
        print(f"{norm}-norm, rate {lr:g}: {plain:.1f} % plain,"
              f" {scaled:.1f} % with LayerScale")
        assert scaled > plain or norm == "pre"
        assert scaled > 50
print("With LayerScale, 36 post-norm blocks train without warm-up.")

# %% [markdown]
# So the norm's place was never the fault by itself. A deep stack trains if its blocks begin close to the identity: pre-norm gives that in part, because its stream outgrows its branches; small gains give it to both.
#
# ## A deep pair of your own
#
# The same measurement, live and once: 24 blocks, no warm-up, the higher rate.

# %%
def train(norm, depth, few, epochs, gain=None):
    model = fresh(norm, depth, 0, D=32, p=14, heads=2, pool="mean")
    if gain is not None:
        quiet(model, gain)
    recipe = Recipe(epochs=epochs, batch_size=32, lr=3e-3, warmup=0,
                    schedule="constant")
    return fit(model, few, recipe).test_accuracy[-1]


real = clothes.name == "fashion_mnist"
n, epochs = (3200, 1) if real else (1400, budget(2, 1))
few = clothes.subset(budget(n, 160), test=1000)
score = {}
for norm in ("pre", "post"):
    score[norm] = train(norm, budget(24, 6), few, epochs)
    print(f"{norm}-norm: {100 * score[norm]:.1f} %")
if budget(True, False):
    assert score["pre"] > score["post"] + 0.15
    print("As in the stored grid: pre-norm learns, post-norm does not.")

# %% [markdown]
# Try `train("post", 24, few, epochs, gain=1e-4)` yourself.
#
# ## Exercises
#
# Replace each `...` by your code and run the cell: `check` says at once whether it is right, or what it looks like if it is not. Stuck? `check("4.1", hint=1)` and `hint=2` help; the solution is folded below each cell.

# %%
from vitnb.checks import check

# %% [markdown]
# ### Exercise 4.1: LayerNorm by hand
#
# easy, about 5 minutes
#
# Write LayerNorm for tokens of shape (B, T, D), without `nn.LayerNorm` and `F.layer_norm`. `gain` and `bias` have the shape (D,). It must work for any number of tokens.

# %% {"tags": ["nbval-check-output"]}
def my_layer_norm(x, gain, bias, eps):
    """Tokens (B, T, D) -> tokens (B, T, D), each normalised alone."""
    ...


check("4.1", my_layer_norm);

# %% [markdown]
# <details>
# <summary>Solution</summary>
#
# ```python
# def my_layer_norm(x, gain, bias, eps):
#     """Tokens (B, T, D) -> tokens (B, T, D), each normalised alone."""
#     mean = x.mean(-1, keepdim=True)  # (B, T, 1)
#     variance = x.var(-1, correction=0, keepdim=True)  # (B, T, 1)
#     return gain * (x - mean) / (variance + eps).sqrt() + bias
# ```
#
# The last axis alone: one mean and one variance for each token. `correction=0` divides by D, and `eps` stands under the root.
#
# </details>

# %% [markdown]
# ### Exercise 4.2: the two lines
#
# easy, about 5 minutes
#
# `block` has the parts `norm1`, `attention`, `norm2` and `mlp`. Write what a **pre-norm** block does with tokens `x`. The parts come with random gains and biases, so each norm must stand in its own place.

# %% {"tags": ["nbval-check-output"]}
def pre_norm(block, x):
    """Tokens (B, T, D) -> tokens (B, T, D)."""
    ...


check("4.2", pre_norm);

# %% [markdown]
# <details>
# <summary>Solution</summary>
#
# ```python
# def pre_norm(block, x):
#     """Tokens (B, T, D) -> tokens (B, T, D)."""
#     x = x + block.attention(block.norm1(x))
#     return x + block.mlp(block.norm2(x))
# ```
#
# The name `x` is given away once, to the sum. As soon as a line reads `x = block.norm1(x)`, the stream is lost.
#
# </details>

# %% [markdown]
# ### Exercise 4.3: an MLP that returns its input
#
# medium, about 10 minutes, weights set by hand
#
# Silent branches are one identity. Here is another: build a `vitnb.MLP(D, 2 * D)` that gives back its input, for every input, although there is a GELU in the middle. Nothing is trained: you set its four parameters. Two numbers help: what is GELU(1) − GELU(−1)? And GELU(2) − GELU(−2)?

# %% {"tags": ["nbval-check-output"]}
def identity_mlp(D):
    """A vitnb.MLP(D, 2 * D) with mlp(x) = x."""
    ...


check("4.3", identity_mlp);

# %% [markdown]
# <details>
# <summary>Solution</summary>
#
# ```python
# @torch.no_grad()
# def identity_mlp(D):
#     """A vitnb.MLP(D, 2 * D) with mlp(x) = x."""
#     mlp, eye = vitnb.MLP(D, 2 * D), torch.eye(D)
#     mlp.fc1.weight.copy_(torch.cat([eye, -eye]))  # x and -x
#     mlp.fc2.weight.copy_(torch.cat([eye, -eye], 1))  # their difference
#     mlp.fc1.bias.zero_()
#     mlp.fc2.bias.zero_()
#     return mlp
# ```
#
# $x\,\Phi(x) - (-x)\,\Phi(-x) = x\,(\Phi(x) + \Phi(-x)) = x$, because the two shares of the normal distribution add up to 1. So an MLP with a ratio of 2 can pass on its input through the bend, unharmed. With ReLU the same weights do the same.
#
# </details>

# %% [markdown]
# ### Exercise 4.4: which of these train?
#
# prediction, about 5 minutes
#
# Four stacks of 36 blocks are trained as above, at rate 0.003 without warm-up. A final norm follows where it is needed. One block of each:
#
# | | |
# | --- | --- |
# | **A** | `x = norm1(x)`, `x = x + attention(x)`, `x = norm2(x)`, `x = x + mlp(x)` |
# | **B** | `x = norm1(x + gain1 * attention(x))`, `x = norm2(x + gain2 * mlp(x))`, the gains start at 0.0001 |
# | **C** | `x = x + attention(norm1(x))`, `x = x + mlp(norm2(x))` |
# | **D** | as B, and the gains start at 1 |
#
# Which of them get more than half of the test pictures right? Return their letters in one string.

# %% {"tags": ["nbval-check-output"]}
def these_train():
    """The letters of the stacks that train, for example "ABCD"."""
    ...


check("4.4", these_train);

# %% [markdown]
# <details>
# <summary>Solution</summary>
#
# ```python
# def these_train():
#     """The letters of the stacks that train, for example "ABCD"."""
#     return "BC"
# ```
#
# C is pre-norm. A is "normalise, then add": post-norm, shifted by one norm. D is post-norm too as long as its gains are 1, and it is in the first steps that it goes wrong. B begins as almost the identity. All four were measured; this prints it:
#
# ```python
# for letter, norm, change in (
#     ("A", "pre", "normalise then add"),
#     ("B", "post", "layer scale"),
#     ("C", "pre", ""),
#     ("D", "post", "layer scale from 1"),
# ):
#     a = accuracy(depth=36, norm=norm, warmup=0, lr=3e-3, change=change)
#     print(f"{letter}: {a.mean():.1f} %")
# ```
#
# </details>

# %% [markdown]
# ### Exercise 4.5: a test that tells
#
# bug hunt, about 15 minutes
#
# A colleague hands you a class and says that it is a pre-norm block: `Block(embed_dim, num_heads)` makes one, with the parts `norm1`, `attention`, `norm2` and `mlp` of `vitnb.PreNormBlock`. Its parameters have the right names, its output has the right shape, and it trains. Write a test that says `True` if it is wired as pre-norm and `False` if it is not. It is tried on three right classes and eleven wrong ones that you cannot see.

# %% {"tags": ["nbval-check-output"]}
def is_pre_norm(Block):
    """True if Block(embed_dim, num_heads) is wired as pre-norm."""
    ...


check("4.5", is_pre_norm);

# %% [markdown]
# <details>
# <summary>Solution</summary>
#
# ```python
# @torch.no_grad()
# def is_pre_norm(Block):
#     """True if Block(embed_dim, num_heads) is wired as pre-norm."""
#     block, right = Block(24, 3).eval(), vitnb.PreNormBlock(24, 3)
#     for p in block.parameters():  # no gain at 1, no bias at 0
#         p.normal_(std=0.3)
#     right.load_state_dict(block.state_dict())
#     x = torch.randn(2, 7, 24)  # (B, T, D)
#     return torch.allclose(block(x), right(x), atol=1e-4)
# ```
#
# With equal parameters only the wiring can differ. With the gains as they are at the start, `norm1` and `norm2` would be the same function, and swapping them would be invisible. `eval()` keeps dropout out. The test with silent branches is a good one, but not enough: it does not see a forgotten norm, or attention that only feeds the MLP.
#
# </details>

# %% [markdown]
# ## What to remember
#
# 1. A branch adds to the stream. Silence the branches: a pre-norm block is the identity, and "normalise, then add" is not; it is post-norm.
# 2. LayerNorm takes one token: mean and variance over $D$, nothing over $T$. On a tensor of ones it gives zeros, and the test sees nothing.
# 3. Deep stacks train if they begin close to the identity: pre-norm with a final norm, or small gains. Deep post-norm needs short first steps, and here even that was not enough.
#
# ## Sources
#
# - Residual branches: [(He et al., 2016)](#he2016deep). LayerNorm: [(Ba et al., 2016)](#ba2016layer). GELU: [(Hendrycks and Gimpel, 2016)](#hendrycks2016gelu).
# - Post-norm: section 3.1 of [(Vaswani et al., 2017)](#vaswani2017attention). Pre-norm in the ViT, and the places of dropout: equations 2 and 3 and appendix B.1 of [(Dosovitskiy et al., 2021)](#dosovitskiy2021image).
# - Gradients before training, and warm-up: [(Xiong et al., 2020)](#xiong2020layer), on translation and BERT. Amplification: [(Liu et al., 2020)](#liu2020understanding), on translation.
# - Small gains: LayerScale [(Touvron et al., 2021)](#touvron2021going), on ImageNet; ReZero [(Bachlechner et al., 2021)](#bachlechner2021rezero).
#
# **Next:** a stack of blocks turns tokens into better tokens, as many as before. A class needs one answer. Who speaks for the picture? [The cls token](05-cls-token.ipynb).
