# %% [markdown]
# # Tokens that look at each other
#
# A token is made from one patch, and so far it knows nothing else: the token of an eye has never heard of a face. How do tokens learn about each other, and who decides which token listens to which?
#
# | | |
# | --- | --- |
# | **You will be able to** | write attention by hand, in one head and in several; say over which axis the softmax runs and why the scores are divided; set the weights of a head by hand, for a neighbour, a twin, a convolution; test that tokens talk and pictures do not |
# | **Time** | 75 minutes, 40 of them for the exercises |
# | **Compute** | about a minute on two CPU cores |
# | **You need** | [From pixels to tokens](01-patchify.ipynb), [Where am I?](02-positions.ipynb); no attention yet |
# | **What people get wrong** | "the softmax may run over either axis", "divide by the root of $D$", "`view` splits heads", "a layer that ran on my batch handles it picture by picture", "it trains, so attention works" |

# %%
import math

import torch
from matplotlib import pyplot as plt
from torch import nn
from torch.nn import functional as F

import vitnb
from vitnb import ViT, ViTConfig, data, patchify, plots

plots.use_style()
torch.set_printoptions(precision=3, sci_mode=False)
_ = torch.manual_seed(0)

# %% [markdown]
# <!-- (sec-attn-look)= -->
# ## Where do four patches look?
#
# Below, a photograph in 196 patches. For each of four patches, marked in orange, the map says how much it listens to every other one. No network was trained for this. One rule made all four maps: *listen to what looks like you*. [Further down](#sec-attn-twin) you write it yourself.

# %% {"tags": ["hide-input"], "mystnb": {"figure": {"name": "fig-attn-look", "caption": "Four patches (orange squares) and the weights with which each takes in all 196 patches of the picture. In each panel the weights sum to 1; bright is the largest of the panel. Every patch listens to itself most, so its own weight is left out of the scale."}, "image": {"alt": "A portrait, and four maps of it. The patch of the blue background lights up the background, the patch of the dark jacket lights up the jacket, the patch of the nose lights up the face, the patch of one eye lights up eyes and glasses."}}}
photo = data.sample_image(224)                         # (C, H, W)
colours = patchify(photo[None], 16)[0]                 # (N, C*p*p)
colours = F.normalize(colours - colours.mean(), dim=-1)
weights = (12 * colours @ colours.T).softmax(dim=-1)   # (N, N)
figure, axes = plt.subplots(1, 5, figsize=(11, 2.5))
plots.draw_image(axes[0], photo)
places = {"background": (3, 12), "jacket": (11, 9), "nose": (5, 7),
          "eye": (4, 5)}
for axis, (name, (row, col)) in zip(axes[1:], places.items(), strict=True):
    n = 14 * row + col
    others = weights[n].clone()
    others[n] = 0
    axis.imshow(weights[n].reshape(14, 14), cmap="viridis", vmin=0,
                vmax=others.max())
    square = plt.Rectangle((col - 0.5, row - 0.5), 1, 1, fill=False,
                           edgecolor=plots.COLORS[1], linewidth=2)
    axis.add_patch(square)
    axis.set_title(name)
for axis in axes:
    axis.set_axis_off()

# %% [markdown]
# ## Mixing with a matrix
#
# Start with a rule that is fixed. Three tokens of two numbers each; every token shall take in the others. The smallest program for that is a matrix $A$ from the left, with one row for each token that listens and one column for each that is heard:

# %% {"tags": ["nbval-check-output"]}
x = torch.tensor([[1.0, 0], [0, 1], [1, 1]])         # (T, D)
A = torch.tensor([[1.0, 0, 0],                       # hears itself
                  [0.5, 0, 0.5],                     # hears 0 and 2
                  [1 / 3, 1 / 3, 1 / 3]])            # hears all alike
print(A @ x)                                         # (T, D)

# %% [markdown]
# Row 1 of the result is half of token 0 and half of token 2. The rows of $A$ sum to 1, so each new token is an average of old ones: it lies between them, and no number can grow. A matrix with such rows is called **row-stochastic**.

# %% {"tags": ["nbval-check-output"]}
assert torch.allclose(A.sum(dim=1), torch.ones(3))
mixed = A @ x
assert (mixed >= x.amin(0)).all() and (mixed <= x.amax(0)).all()
print("Each row sums to 1: each new token is an average of tokens.")

# %% [markdown]
# A matrix that is fixed does the same to every picture. (A convolution does so too, with weights that need not sum to 1.) But whom an eye should listen to depends on the picture: in this one the other eye is to its right, in the next one it is hidden. The weights should depend on the tokens.
#
# <!-- (sec-attn-qkv)= -->
# ## Query, key, value
#
# Each token plays three parts. It **asks**: what am I looking for? It **offers**: what can be found here? And it **hands over** something to those who listen. Three matrices make three vectors of the token $x$: the **query** $q = x W_Q$, the **key** $k = x W_K$ and the **value** $v = x W_V$. By hand, with numbers that can be followed:

# %% {"tags": ["nbval-check-output"]}
W_Q = torch.tensor([[0.0, 2], [2, 0]])   # looks for the *other* number
W_K = torch.tensor([[1.0, 0], [0, 1]])   # offers what it is
W_V = torch.tensor([[10.0, 0], [0, 20]])
q, k, v = x @ W_Q, x @ W_K, x @ W_V      # (T, D) each
print("q\n", q, "\nk\n", k, "\nv\n", v, sep="")

# %% [markdown]
# Does what token 1 offers fit what token 0 looks for? The dot product of that query with that key says how well: the **score**. All nine scores are one product of matrices:

# %% {"tags": ["nbval-check-output"]}
scores = q @ k.T                         # (T, T)
print(scores)
assert scores[0, 1] == q[0] @ k[1]
print("Row: who asks. Column: who is asked.")

# %% [markdown]
# Token 0 is (1, 0) and looks for tokens with a large second number: 1 and 2 have it, token 0 itself has not. Now the scores of a row must become weights that are positive and sum to 1. That is what the **softmax** does: take $e$ to the power of each number, then divide by the sum.

# %% {"tags": ["nbval-check-output"]}
powers = scores.exp()                                # (T, T)
weights = powers / powers.sum(dim=1, keepdim=True)   # (T, T)
print(weights)
assert torch.allclose(weights, scores.softmax(dim=1))
assert torch.allclose(weights.sum(dim=1), torch.ones(3))
print("softmax(dim=1): every row sums to 1.")

# %% [markdown]
# And this matrix mixes, as $A$ did above; not the tokens themselves, but their values:

# %% {"tags": ["nbval-check-output"]}
out = weights @ v                        # (T, D)
print(out)
by_hand = sum(weights[0, j] * v[j] for j in range(3))
assert torch.allclose(out[0], by_hand)
print("Row 0 = the values, weighted by row 0.")

# %% [markdown]
# That is **attention** [(Vaswani et al., 2017)](#vaswani2017attention). Because queries, keys and values come from the same tokens, it is called *self*-attention. With one more factor, which the section after next is about, it reads
#
# $$
# \text{out} = A V, \qquad A = \text{softmax}\!\left(\frac{Q K^\top}{\sqrt{d}}\right)
# $$ <!-- (eq-attn) -->
#
# In words: compare every query with every key, make each row sum to 1, average the values. In shapes: $(T, d)(d, T) \to (T, T)$, then $(T, T)(T, d) \to (T, d)$. In code:

# %%
def attention(q, k, v):
    scores = q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5   # (..., T, T)
    return scores.softmax(dim=-1) @ v                       # (..., T, d)

# %% {"tags": ["nbval-check-output"]}
q, k, v = torch.randn(3, 2, 5, 7, 16)         # 3 x (B, h, T, d)
theirs = F.scaled_dot_product_attention(q, k, v)
assert torch.allclose(attention(q, k, v), theirs, atol=1e-5)
print("Two lines = F.scaled_dot_product_attention, to 1e-5.")

# %% [markdown]
# What is learned in it? Three matrices. There is no parameter for "token 5 listens to token 9": the weights $A$ are computed, anew for each picture.
#
# <!-- (sec-attn-axis)= -->
# ## The wrong axis
#
# The scores are a square. A softmax over the other axis runs as well, gives positive numbers as well, and the shape is right.

# %% {"tags": ["nbval-check-output"]}
wrong = scores.softmax(dim=0)
print("rows sum to   ", wrong.sum(dim=1))
print("columns sum to", wrong.sum(dim=0))

# %% [markdown]
# Now the *columns* sum to 1: each token has one unit of attention to give away, and the tokens that ask compete for it. One gets more than a full average, another next to nothing. Where people write four axes, (B, h, T, T), this is `dim=-2` for `dim=-1`, and a default of `softmax` in old code. It trains; [the experiment](#sec-attn-experiment) shows how well. Its symptom is one line: the rows do not sum to 1.
#
# <!-- (sec-attn-scale)= -->
# ## Why divide?
#
# A dot product of $d$ terms grows with $d$. Let queries and keys have entries of mean 0 and spread 1, as they have after a norm. Each product of two entries then has spread 1, and a sum of $d$ of them has spread $\sqrt{d}$. ViT-Base has $D = 768$ features in $h = 12$ heads of $d = 64$ each (heads come below):

# %% {"tags": ["nbval-check-output"]}
torch.manual_seed(0)
T, d, D = 196, 64, 768
q, k = torch.randn(2, T, d)                  # unit spread
scores = q @ k.T                             # (T, T)
print(f"spread of q . k: {scores.std():.1f}, root of d: {d**0.5:.0f}")
assert abs((scores / d**0.5).std() - 1) < 0.05
print("Divided by the root of d, the spread is 1.")

# %% [markdown]
# Scores that differ by 8 and more make a softmax that lets one token win. How many tokens does a row really listen to? The **entropy** $-\sum_j a_j \ln a_j$ counts it: $e$ to that power is the number of equal weights with the same entropy. **Predict:** of 196 tokens, how many does a row hear without any division, how many with $\sqrt{d}$, how many with $\sqrt{D}$, as several well-known programs had it?

# %% {"tags": ["nbval-check-output"]}
def heard(weights):
    logs = weights.clamp(min=1e-30).log()
    entropy = -(weights * logs).sum(dim=-1)  # (T,)
    return entropy.mean().exp()

rows = {}
for name, divisor in (("nothing", 1), ("root of d", d**0.5),
                      ("root of D", D**0.5)):
    weights = (scores / divisor).softmax(dim=-1)
    rows[name] = heard(weights)
    print(f"divided by {name:9}: {rows[name]:5.0f} tokens heard, "
          f"largest weight {weights.amax(-1).mean():.2f}")
assert rows["nothing"] < 5 < 50 < rows["root of d"] < 150
assert rows["root of D"] > 180

# %% [markdown]
# Without the division a row of *random* numbers has all but made its choice before anything was learned. And a choice that is made is hard to unlearn: the softmax hardly reacts any more. Its slope is $a(1 - a)$, the weight times what is missing to 1, and both ends of it are flat. With $\sqrt{D}$ the opposite happens: nearly everything is heard alike, and the model has to grow larger queries before it can point at anything. The root of $d$, the width in which the dot product is taken, starts in between.
#
# Is a wrong divisor a disaster? No. The matrices $W_Q$ and $W_K$ can learn any factor. That is why it goes unnoticed, and why the only test that sees it is a comparison of numbers with a reference.

# %% {"tags": ["nbval-check-output"]}
q, k, v = torch.randn(3, 1, 12, 7, 64)       # 12 heads of 64
off = q @ k.transpose(-2, -1) / 768**0.5
off = off.softmax(dim=-1) @ v
right = F.scaled_dot_product_attention(q, k, v)
assert off.shape == right.shape
assert not torch.allclose(off, right, atol=0.1)
print("Root of D: the right shape and other numbers.")

# %% [markdown]
# <!-- (sec-attn-twin)= -->
# ## The twin finder
#
# Now the rule of the first figure (there, colour counted too; here, only contrast does). Let $W_Q$ and $W_K$ both be the identity: each patch looks for what it is itself. To make the game clean we take the mean off every patch and scale it to length 1, so that a score is the cosine of an angle, and multiply by a number $\beta$ that says how decided the head is. Its weights can be laid over the picture: row $n$ of $A$, put back on the grid.
#
# We hide a twin. One patch of the picture is copied to another place.

# %%
p, side = 16, 14                             # 14 x 14 patches
here, there = 4 * side + 5, 9 * side + 12    # (row 4, column 5), ...
patches = patchify(photo[None], p)[0]        # (N, C*p*p)
patches[there] = patches[here]

def twin_finder(patches, beta):
    x = patches - patches.mean(-1, keepdim=True)
    x = F.normalize(x, dim=-1)               # length 1
    return (beta * x @ x.T).softmax(dim=-1)  # (N, N)

# %% {"tags": ["hide-input"], "mystnb": {"figure": {"name": "fig-attn-twin", "caption": "The patch of one eye (orange) was copied into the jacket's edge at the right. Left: the picture. Then the row of the eye's patch for three values of β, on a common scale from 0 to 0.5. With a large β two weights are left: the patch and its twin, a half each."}, "image": {"alt": "A portrait with a small square that shows an eye pasted at its right edge, and three maps of 14 by 14 squares. From left to right the map goes from evenly dark to two bright squares, at the place of the eye and of its copy."}}}
picture = vitnb.unpatchify(patches[None], p, 224, 3)[0]
figure, axes = plt.subplots(1, 4, figsize=(11, 3))
plots.draw_image(axes[0], picture)
for n in (here, there):
    corner = (n % side * p - 0.5, n // side * p - 0.5)
    axes[0].add_patch(plt.Rectangle(corner, p, p, fill=False, lw=2,
                                    edgecolor=plots.COLORS[1]))
for axis, beta in zip(axes[1:], (2, 10, 40), strict=True):
    row = twin_finder(patches, beta)[here].reshape(side, side)
    drawn = axis.imshow(row, cmap="viridis", vmin=0, vmax=0.5)
    axis.set_title(f"β = {beta}")
for axis in axes:
    axis.set_axis_off()
figure.colorbar(drawn, ax=axes[-1], shrink=0.8, label="weight");

# %% {"tags": ["nbval-check-output"]}
for beta in (2, 10, 40):
    A = twin_finder(patches, beta)
    assert torch.allclose(A.sum(dim=1), torch.ones(196))
    both = A[here, here] + A[here, there]
    print(f"beta {beta:2}: weight on itself and its twin {both:.2f}")
assert both > 0.95 and torch.isclose(A[here, here], A[here, there])
print("It finds the twin wherever it is: nobody told it the place.")

# %% [markdown]
# This head is *content-based*. It knows nothing of places, so it cannot prefer the near twin to the far one, and it cannot leave itself out either: the patch itself is the best match that there is. Further down we build a head of the opposite kind, which looks at a place and is blind to content.
#
# <!-- (sec-attn-heads)= -->
# ## Heads: one reshape, and where it goes wrong
#
# One row of weights can say one thing: "the other eye", or "my left neighbour". A token may want both. So the $D$ features are divided among $h$ **heads** of width $d = D/h$. Each head does attention on its own share, with weights of its own, and the results are put side by side again.
#
# No loop is needed. Three tokens of four features, two heads; each number says whose it is: 21 is feature 1 of token 2.

# %% {"tags": ["nbval-check-output"]}
T, h, d = 3, 2, 2
x = 10 * torch.arange(T)[:, None] + torch.arange(h * d)  # (T, D)
print(x)
heads = x.view(T, h, d).transpose(0, 1)                  # (h, T, d)
print(heads)

# %% [markdown]
# Head 0 has features 0 and 1 of all three tokens, head 1 has features 2 and 3 of all three. The order matters: first cut each token into heads, *then* swap the axes. Whoever asks `view` for the final shape at once gets that shape:

# %% {"tags": ["nbval-check-output"]}
wrong = x.view(h, T, d)                                  # (h, T, d)
print(wrong)
assert wrong.shape == heads.shape and not torch.equal(wrong, heads)

# %% [markdown]
# What head 0 now takes for three tokens is token 0, the other half of token 0, and half of token 1. As with `patchify`, `view` never moves a number. It draws borders along the memory:

# %% {"tags": ["hide-input"], "mystnb": {"figure": {"name": "fig-attn-memory", "caption": "The twelve numbers as they lie in memory (21 is feature 1 of token 2), coloured by the head that gets them. Above: view, then transpose. Below: view alone."}, "image": {"alt": "Two tapes of twelve boxes. In the upper one, the colours change after every two boxes, blue, orange, blue, orange. In the lower one, the first six are blue and the last six orange."}}}
figure, axis = plt.subplots(figsize=(8.5, 2.2))
right_head = torch.arange(h).repeat_interleave(d).repeat(T)
wrong_head = torch.arange(h).repeat_interleave(T * d)
for y, owner in ((1.4, right_head), (0, wrong_head)):
    for i, head in enumerate(owner.tolist()):
        i_x = i + i // (h * d) * 0.25          # a gap after each token
        box = plt.Rectangle((i_x, y), 0.94, 0.9, color=plots.COLORS[head])
        axis.add_patch(box)
        axis.text(i_x + 0.47, y + 0.45, f"{int(x.flatten()[i]):02}",
                  color="white", ha="center", va="center")
for y, text in ((1.85, "view, transpose"), (0.45, "view alone")):
    axis.text(-0.2, y, text, ha="right", va="center")
for head in range(h):
    axis.plot([], [], "s", color=plots.COLORS[head], label=f"head {head}")
axis.legend(loc="upper center", ncols=2, bbox_to_anchor=(0.4, 0.02))
axis.set(xlim=(-3.2, 12.6), ylim=(-0.1, 2.4))
axis.set_axis_off()

# %% [markdown]
# The way back has the same trap. After attention the numbers lie head by head, (h, T, d), and must come together token by token: transpose first, then reshape.

# %% {"tags": ["nbval-check-output"]}
merged = heads.transpose(0, 1).reshape(T, h * d)         # (T, D)
assert torch.equal(merged, x)
print("Split and merged: the tokens are back.")
print(heads.reshape(T, h * d))

# %% [markdown]
# Without the transpose, "token 0" gets head 0's answers for tokens 0 and 1. Both mistakes have been found in public code whose training looked fine. One of them has a test that passed ("why did the training test still pass?" asks the report of the repair).
#
# ## The class
#
# One linear layer makes queries, keys and values of all heads at once; a last one, $W_O$, mixes what the heads bring home.

# %%
class MultiHeadAttention(nn.Module):
    def __init__(self, embed_dim, num_heads):
        super().__init__()
        self.h, self.d = num_heads, embed_dim // num_heads
        self.qkv = nn.Linear(embed_dim, 3 * embed_dim)
        self.proj = nn.Linear(embed_dim, embed_dim)

    def forward(self, x):
        B, T, D = x.shape
        x = self.qkv(x).reshape(B, T, 3, self.h, self.d)
        q, k, v = x.permute(2, 0, 3, 1, 4)       # 3 x (B, h, T, D/h)
        x = attention(q, k, v)                   # (B, h, T, D/h)
        x = x.transpose(1, 2).reshape(B, T, D)   # (B, T, D)
        return self.proj(x)

# %% [markdown]
# `reshape` cuts the features of each token into (3, h, d), in this order: first all queries, then all keys, then all values, and within each of them head after head. Every library chooses such an order, and copied weights are the proof that ours is the usual one:

# %% {"tags": ["nbval-check-output"]}
B, T, D, h = 3, 17, 48, 6                        # no two sizes are equal
x = torch.randn(B, T, D)
ours, book = MultiHeadAttention(D, h), vitnb.MultiHeadAttention(D, h)
book.load_state_dict(ours.state_dict())
assert torch.allclose(ours(x), book(x), atol=1e-5)
print("The chapter's class is vitnb's class.")

torchs = nn.MultiheadAttention(D, h, batch_first=True)
torchs.load_state_dict({
    "in_proj_weight": ours.qkv.weight, "in_proj_bias": ours.qkv.bias,
    "out_proj.weight": ours.proj.weight, "out_proj.bias": ours.proj.bias,
})
assert torch.allclose(ours(x), torchs(x, x, x)[0], atol=1e-5)
print("It is nn.MultiheadAttention too, to 1e-5.")

# %% [markdown]
# The last layer hides something. To put vectors side by side and multiply them by a matrix is to multiply each by *its* rows of the matrix and add. So the heads do not take turns and do not vote. Each adds something to the token:
#
# $$
# [o_1, \dots, o_h] \, W_O = o_1 W_O^{(1)} + \dots + o_h W_O^{(h)}
# $$ <!-- (eq-attn-sum) -->
#
# Exercise 2 takes a layer apart into these terms.
#
# <!-- (sec-attn-mix)= -->
# ## What mixes, and what must not
#
# Three properties say what attention does, and each is a test that needs no training. First: change one token, and every token of that picture may change.

# %% {"tags": ["nbval-check-output"]}
changed = x.clone()
changed[0, 5] = torch.randn(D)                   # one token, image 0
moved = (ours(changed) - ours(x)).abs().amax(dim=-1) > 1e-6   # (B, T)
assert moved[0].all()
print("Every token of image 0 has heard of it.")
assert not moved[1:].any()
print("No token of another image has.")

# %% [markdown]
# The second sentence of it is the second property: pictures of a batch are strangers that happen to travel together. The third we know from [chapter 2](02-positions.ipynb): put the tokens in another order, and the output comes in that order. Attention is *equivariant*; it has no idea who stands next to whom, except from what positions wrote into the tokens. And here the mistakes with heads come to light, which mix features of different tokens according to where these stand:

# %% {"tags": ["nbval-check-output"]}
class ViewAlone(MultiHeadAttention):
    def forward(self, x):
        B, T, D = x.shape
        q, k, v = self.qkv(x).chunk(3, dim=-1)   # 3 x (B, T, D)
        q, k, v = (t.reshape(B, self.h, T, self.d) for t in (q, k, v))
        x = attention(q, k, v).transpose(1, 2).reshape(B, T, D)
        return self.proj(x)

class MergedAlone(vitnb.MultiHeadAttention):
    def attend(self, q, k, v):
        B, h, T, d = q.shape
        wrong = attention(q, k, v).reshape(B, T, h, d)
        return wrong.transpose(1, 2)             # undone by forward

order = torch.randperm(T)
for kind in (MultiHeadAttention, ViewAlone, MergedAlone):
    layer = kind(D, h)
    error = (layer(x[:, order]) - layer(x)[:, order]).abs().max()
    print(f"{kind.__name__:18} {'passes' if error < 1e-5 else 'fails'}")
    assert (error < 1e-5) == (kind is MultiHeadAttention)

# %% [markdown]
# **Two axes that look alike.** Here is how one of the notebooks that we learned from makes its layer: `nn.MultiheadAttention(D, h)`, fed with tokens (B, T, D). The default of that class is `batch_first=False`: it takes the *first* axis for the tokens and the second for the batch. Nothing complains, for any sizes. Who listens to whom now?

# %% {"tags": ["nbval-check-output"]}
class Crossed(vitnb.MultiHeadAttention):
    """What batch_first=False does to tokens (B, T, D)."""
    def forward(self, x):
        return super().forward(x.transpose(0, 1)).transpose(0, 1)

crossed = Crossed(D, h)
moved = (crossed(changed) - crossed(x)).abs().amax(dim=-1) > 1e-6
assert not moved[0, :5].any() and not moved[0, 6:].any()
print("The other tokens of image 0 have heard nothing.")
assert moved[:, 5].all()
print("Token 5 of every other image has.")

# %% [markdown]
# Tokens of different pictures at the same place attend to each other, and the patches of one picture never meet. In a model that reads its answer from a cls token (chapter 2 met it: one learned token in front, the same for all pictures), that is fatal. This token can only listen to the cls tokens of the other pictures, which know no more than it does. No pixel reaches the answer, not even faintly:

# %% {"tags": ["nbval-check-output"]}
def build(layer):
    torch.manual_seed(0)
    model = ViT(ViTConfig(patch_size=7, depth=2)).eval()
    for block in model.blocks:
        block.attention.__class__ = layer        # same weights
    return model

images = torch.randn(4, 1, 28, 28, requires_grad=True)
logits = build(Crossed)(images)                  # (B, K)
logits[0].sum().backward()
assert (images.grad == 0).all()
print("The gradient of every pixel is exactly 0.")
assert torch.equal(logits[0], logits[1])
print("Different pictures get the same answer.")

# %% [markdown]
# Which tests would have seen it? **Predict for each of these six, before you run them: does the broken model pass?**

# %%
def pixels_count(model, images):
    images = images.detach().requires_grad_()
    model(images)[0].sum().backward()
    return bool(images.grad.abs().sum() > 0)

def same(a, b):
    return torch.allclose(a, b, atol=1e-5)

def tests(model, images):
    out, order = model(images), torch.tensor([2, 0, 3, 1])
    block, z = model.blocks[0], model.embed(images)  # z: (B, T, D)
    return {
        "the shape is right": out.shape == (4, 10),
        "every parameter wants a gradient":
            all(p.requires_grad for p in model.parameters()),
        "pictures shuffled, answers shuffled":
            same(model(images[order]), out[order]),
        "a picture alone = in a batch":
            same(model(images[:1]), out[:1]),
        "one block: alone = in a batch":
            same(block(z[:1]), block(z)[:1]),
        "every picture's pixels count": pixels_count(model, images),
    }

# %% {"tags": ["nbval-check-output"]}
right, broken = (tests(build(layer), images)
                 for layer in (vitnb.MultiHeadAttention, Crossed))
print(f"{'':36} right  broken")
for name in right:
    row = ["pass" if r[name] else "FAIL" for r in (right, broken)]
    print(f"{name:36} {row[0]:6} {row[1]}")
assert all(right.values()) and sum(broken.values()) == 4

# %% [markdown]
# Four of six let it through. The third test sounds made for this bug, and passes: attention over the batch is equivariant under a shuffle of the *batch*, just as the right one is under a shuffle of tokens. The fourth passes *vacuously*: the answers depend on no picture at all, so of course they do not depend on the neighbours. The same test, put to a single block with real tokens, fails. A test is worth something once you have seen it fail.
#
# ## Where are the weights?
#
# One would like to look at $A$. But `F.scaled_dot_product_attention` returns the mixed values and nothing else, and not out of meanness: the fused kernels behind it never hold the matrix. They take it in small blocks, use each one and forget it [(Dao et al., 2022)](#dao2022flashattention). For ViT-B/16 with a batch of 64 the matrices would be this large:

# %% {"tags": ["nbval-check-output"]}
B, h, T, layers = 64, 12, 197, 12
size = B * h * T * T * 4                         # 4 bytes a number
print(f"one layer {size / 1e6:.0f} MB,",
      f"twelve {layers * size / 1e9:.1f} GB")

# %% [markdown]
# So to see the weights one has to compute them the slow way. Within `vitnb.record_attention`, the layers do: the softmax is written out and its result is kept. The answer must stay what it was:

# %% {"tags": ["nbval-check-output"]}
model = build(vitnb.MultiHeadAttention)
with torch.no_grad():
    fused = model(images)
    with vitnb.record_attention(model) as maps:
        explicit = model(images)
assert torch.allclose(fused, explicit, atol=1e-5)
print(len(maps), "layers, each", tuple(maps[0].shape))   # (B, h, T, T)
assert torch.allclose(maps[0].sum(-1), torch.ones(4, 4, 17))
print("Same answers; every row of every head sums to 1.")

# %% [markdown]
# A row of such a map says what was mixed, in one head of one layer. It does not say why the model answers as it does; that question waits for [chapter 8](08-looking-inside.ipynb).
#
# <!-- (sec-attn-by-hand)= -->
# ## A head by hand: look left
#
# Can a head look at a place? With positions as waves it can. Chapter 2 ends its section on waves with a matrix: $e^{m+k} = e^m R_k$, one rotation for all places. So let $W_Q$ be the rotation that turns "here" into "one to the left", and let the keys be the positions as they are. A query is then exactly the key of the left neighbour.

# %%
def rotation(k, D):
    speeds = 10_000 ** (-torch.arange(D // 2) / (D // 2))
    c, s = (k * speeds).cos().diag(), (k * speeds).sin().diag()
    return torch.cat([torch.cat([c, -s], 1), torch.cat([s, c], 1)])

side, D = 7, 64
places = vitnb.SinCosPositions(side, D).table[0]  # (N, D)
stay = rotation(0, D // 2)                        # the row: as it is
left = rotation(-1, D // 2)                       # the column: one less
W_Q = torch.block_diag(stay, left)                # (D, D)

# %% {"tags": ["nbval-check-output"]}
q = (places @ W_Q).reshape(side, side, D)
k = places.reshape(side, side, D)
assert torch.allclose(q[:, 1:], k[:, :-1], atol=1e-5)
print("The query of each place is the key of its left neighbour.")

# %% [markdown]
# All positions have the same length, so no key fits a query better than its double. The best match is certain; how much of the weight it gets is a question of $\beta$ again, the factor on the scores:

# %% {"tags": ["hide-input"], "mystnb": {"figure": {"name": "fig-attn-left", "caption": "A head set by hand on a grid of 7 × 7. Left: the mean weight of the left neighbour (n = 42 places that have one) against β. Middle and right: what the marked place hears, and what a place without a left neighbour hears, at β = 10."}, "image": {"alt": "Left, a curve that rises from near 0 to 1 between beta 0.1 and 20. Middle, a grid with one bright square left of the marked one. Right, the marked place is at the left border and hears itself."}}}
def look(W_Q, beta):
    return (beta * places @ W_Q @ places.T).softmax(dim=-1)  # (N, N)

has_left = [n for n in range(side**2) if n % side]
its_left = [n - 1 for n in has_left]

def mean_weight(beta):
    return look(W_Q, beta)[has_left, its_left].mean().item()

betas = torch.logspace(-1, 1.5, 40)
figure, axes = plt.subplots(1, 3, figsize=(10, 3))
axes[0].semilogx(betas, [mean_weight(b) for b in betas])
axes[0].set(xlabel="β", ylabel="weight of the left neighbour")
for axis, n in zip(axes[1:], (24, 21), strict=True):
    axis.imshow(look(W_Q, 10)[n].reshape(side, side), cmap="viridis",
                vmin=0, vmax=1)
    axis.plot(n % side, n // side, "o", color="white", mec="black")
    axis.set(xlabel="column", ylabel="row")

# %% {"tags": ["nbval-check-output"]}
for beta in (1, 5, 20):
    print(f"beta {beta:2}: mean weight {mean_weight(beta):.2f}")
best = look(W_Q, 1)[has_left].argmax(dim=-1)
assert best.tolist() == its_left and mean_weight(20) > 0.99
print("The left neighbour is the first choice at every place.")

# %% [markdown]
# Nothing was trained, and the head does not care what is in the picture. At the border it cannot find what it looks for and takes the nearest thing, itself; a softmax has to spend its 1 somewhere. Exercise 3 builds the head that looks in any direction, and once that exists there is a surprise close at hand.
#
# ## Nine heads are a convolution
#
# A 3 × 3 convolution takes nine neighbours, multiplies each with a matrix of its own, and adds. Nine heads, each of which looks at one neighbour with a weight of nearly 1, do the same: head $s$ fetches the neighbour, $W_O^{(s)}$ is the kernel's matrix for that neighbour, and [the sum](#eq-attn-sum) is the convolution's sum [(Cordonnier et al., 2020)](#cordonnier2020relationship). We put it into the very class that the book trains. The tokens are single pixels of three channels, followed by their position:

# %%
rows, cols, C, P = 8, 10, 3, 24                  # P: width of a position
D = 9 * P                                        # nine heads of width 24
image = torch.randn(1, C, rows, cols)
places = vitnb.SinCosPositions((rows, cols), P).table    # (1, N, P)
x = torch.zeros(1, rows * cols, D)
x[..., :C] = image.flatten(2).transpose(1, 2)    # content
x[..., C : C + P] = places                       # position; rest is 0

# %%
conv = nn.Conv2d(C, C, kernel_size=3)            # weight (C, C, 3, 3)
layer = vitnb.MultiHeadAttention(D, num_heads=9)
q, k, v = torch.zeros(3, 9, P, D)                # rows of qkv, by head
out = torch.zeros(D, 9, P)                       # columns of W_O, by head
for s in range(9):
    down, right = s // 3 - 1, s % 3 - 1
    turn = torch.block_diag(rotation(down, P // 2),
                            rotation(right, P // 2))
    q[s, :, C : C + P] = 500 * turn.T            # a Linear is x @ W.T
    k[s, :, C : C + P] = torch.eye(P)
    v[s, :C, :C] = torch.eye(C)                  # hand over the content
    out[:C, s, :C] = conv.weight[:, :, s // 3, s % 3].detach()
layer.qkv.weight.data = torch.cat([q, k, v]).reshape(3 * D, D)
layer.proj.weight.data = out.reshape(D, D)
layer.qkv.bias.data.zero_()
layer.proj.bias.data.zero_()
layer.proj.bias.data[:C] = conv.bias.data

# %% {"tags": ["nbval-check-output"]}
with torch.no_grad():
    by_heads = layer(x)[0, :, :C].T.reshape(C, rows, cols)
    by_conv = conv(image)[0]                     # (C, rows-2, cols-2)
error = (by_heads[:, 1:-1, 1:-1] - by_conv).abs().max()
assert error < 1e-4
print("Nine heads set by hand = a 3 x 3 convolution, to 1e-4.")

# %% [markdown]
# (At the border the two differ: a convolution sees nothing there, a head sees itself.) So attention *can* be a convolution: everything that one layer of convolution computes, one layer with enough heads computes too. It does not have to be one. What a convolution is built to assume, attention is free to learn, and needs pictures to learn it from.
#
# <!-- (sec-attn-cost)= -->
# ## What does it cost?
#
# Four matrices of $D \times D$ on each of $T$ tokens, then two products with a $T \times T$ matrix. With two operations for a multiplication and an addition:
#
# $$
# 8 T D^2 + 4 T^2 D
# $$ <!-- (eq-attn-cost) -->
#
# The number of heads is not in it. **Predict:** does PyTorch's own counter agree, for 1, 4 and 12 heads?

# %% {"tags": ["nbval-check-output"]}
from torch.utils.flop_counter import FlopCounterMode

def count(T, D, h):
    layer = MultiHeadAttention(D, h)             # the chapter's
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        layer(torch.randn(1, T, D))
    return counter.get_total_flops()

for T in (49, 196, 784):
    counted = {count(T, 192, h) for h in (1, 4, 12)}
    assert counted == {8 * T * 192**2 + 4 * T**2 * 192}
    share = 4 * T**2 * 192 / counted.pop()
    print(f"{T} tokens: as the formula says, for 1, 4 and 12 heads; "
          f"pairs {100 * share:.0f} %")

# %% [markdown]
# Heads are free because they share out the same $D$ features. What grows is the part for pairs of tokens: quadratic in tokens, and with twice as many tokens along each side of the picture, sixteen times as much.


# %% [markdown]
# <!-- (sec-attn-experiment)= -->
# ## Predict, then run
#
# Does a ViT need attention? We train the same small model three times:
#
# 1. with **attention**;
# 2. with the **plain mean**: every token gets the average of all values, $A$ has $1/T$ everywhere, and nobody chooses;
# 3. with attention **deleted**: nothing is gathered, each token goes through all layers alone, and at the end the tokens are averaged.
#
# And on two tasks. **Single:** what is this picture of clothes, ten kinds. **Pairs:** one picture holds two thumbnails side by side; are they of the *same kind*, yes or no? Every second pair is.

# %% {"tags": ["hide-input"]}
def pairs(images, labels, n, seed=0):
    """Two pictures side by side; label 1 if of one kind, every second."""
    generator = torch.Generator().manual_seed(seed)
    members = [(labels == kind).nonzero()[:, 0] for kind in range(10)]
    same = torch.arange(n) % 2                          # (n,)
    left = torch.randint(10, (n,), generator=generator)
    other = left + torch.randint(1, 10, (n,), generator=generator)
    kinds = torch.stack([left, torch.where(same == 1, left, other % 10)])
    index = torch.empty(2, n, dtype=torch.long)
    for kind, places in enumerate(members):
        wanted = kinds == kind                          # (2, n)
        draw = torch.randint(len(places), (int(wanted.sum()),),
                             generator=generator)
        index[wanted] = places[draw]
    small = F.avg_pool2d(images[:, 0].float(), 2).byte()  # (N, 14, 14)
    both = torch.cat([small[index[0]], small[index[1]]], dim=2)
    return both[:, None], same                          # (n, 1, 14, 28)

# %% {"tags": ["hide-input"], "mystnb": {"figure": {"name": "fig-attn-pairs", "caption": "Eight pairs of the second task. A patch has 7 × 7 pixels, so each thumbnail is four tokens."}, "image": {"alt": "Eight wide pictures, each with two small garments or other things side by side, marked same or different."}}}
clothes = data.load("fashion_mnist")
shown, same_kind = pairs(clothes.test_images, clothes.test_labels, 8)
answers = ["same" if s else "different" for s in same_kind]
_ = plots.pictures(shown, answers, columns=4, size=1.8)

# %% [markdown]
# **Write down six accuracies** before you go on. Chance is 10 % for single pictures and 50 % for pairs.

# %% {"tags": ["hide-input"]}
stored = data.result("talk")
accuracy = stored["result"]["accuracy"]
loss = stored["result"]["train_loss"]
print("Repeat it with:", stored["command"])
print(stored["config"]["recipe"]["epochs"], "epochs,",
      len(stored["seeds"]), "seeds; test accuracy in %:")
mean = {}
for task in ("pairs", "single"):
    count = stored["config"]["pictures"][task]
    print(f"{task}, {count:,} to train on")
    for arm in ("attention", "plain mean", "deleted"):
        v = 100 * torch.tensor(accuracy[task][arm])
        mean[task, arm] = v.mean().item()
        print(f"  {arm:<11} {v.mean():.1f}  "
              f"(lowest {v.min():.1f}, highest {v.max():.1f})")

# %% {"tags": ["hide-input"], "mystnb": {"figure": {"name": "fig-attn-talk", "caption": "Test accuracy of the three models on both tasks: the mean over seeds (n = 5), and each seed as a dot. Dashed: chance."}, "image": {"alt": "Two panels of three bars. Pairs: attention highest, plain mean a little lower, deleted at the line of chance, 50 per cent. Single: three bars of nearly equal height, far above chance."}}}
figure, axes = plt.subplots(1, 2, figsize=(8.5, 3.2), sharey=True)
for axis, task in zip(axes, ("pairs", "single"), strict=True):
    for i, arm in enumerate(("attention", "plain mean", "deleted")):
        v = 100 * torch.tensor(accuracy[task][arm])
        axis.bar(i, v.mean(), color=plots.COLORS[i], alpha=0.6)
        axis.plot([i] * len(v), v, "o", color="black", markersize=4)
    chance = {"pairs": 50, "single": 10}[task]
    axis.axhline(chance, color="black", linestyle="--", linewidth=1)
    axis.set(title=task, ylim=(0, 100),
             ylabel="test accuracy (%)" if task == "pairs" else "")
    axis.set_xticks(range(3), ["attention", "plain\nmean", "deleted"])

# %%
assert mean["pairs", "attention"] > 70 > 58 > mean["pairs", "deleted"]
print("Pairs: without talk the model guesses.")
gap = mean["single", "attention"] - mean["single", "deleted"]
print(f"Single: deleting attention costs {gap:.1f} points.")
assert abs(gap) < 6
gap = mean["pairs", "attention"] - mean["pairs", "plain mean"]
print(f"Pairs: choosing whom to hear is worth {gap:.1f} points.")
assert mean["pairs", "plain mean"] > 65

# %% [markdown]
# Three findings, and the second is the uncomfortable one.
#
# **Where tokens must talk, they must talk.** The deleted model is not a little worse at pairs, it is at chance.
#
# **On single pictures of clothes, attention is hardly needed.** Ten kinds of clothes can be told apart by counting what kinds of patches there are. An accuracy on such data, by itself, says little about whether the attention in a program works; a reader of one well-known example reported that a plain layer in its place does as well.
#
# **The plain mean is enough for much of it.** What counts most here is that the tokens meet at all. After that, each token's own layers can compare what came in with what it is.
#
# Why chance, and not just worse? The deleted model adds up what each patch says by itself, so its answer has the form $f(\text{left}) + g(\text{right})$. Suppose it even recognised every kind without a mistake. We give it the best $f$ and $g$ that exist:

# %% {"tags": ["nbval-check-output"]}
torch.manual_seed(0)
share = torch.full((10, 10), 0.5 / 90).fill_diagonal_(0.5 / 10)
same_kind = torch.eye(10)                    # the truth for kinds (a, b)

def best_loss(logits, parameters):
    optimizer = torch.optim.Adam(parameters, lr=0.1)
    for _ in range(400):
        loss = (share * F.binary_cross_entropy_with_logits(
            logits(), same_kind, reduction="none")).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss.item()

f = torch.randn(10, 1, requires_grad=True)
g = torch.randn(1, 10, requires_grad=True)
added = best_loss(lambda: f + g, [f, g])
print(f"f(left) + g(right): loss {added:.4f}; ln 2 = {math.log(2):.4f}")
assert abs(added - math.log(2)) < 1e-4

# %% [markdown]
# It ends at $\ln 2$, the loss of a coin. And it must: each kind stands as often in a pair of the same as in a pair of different ones, so taken alone neither side is evidence; and the loss is convex in $f$ and $g$, so there is no better place to find. A sum of opinions formed alone cannot answer a question about *two*. A product can. Let each side be a vector, and the answer their dot product, as the score of attention is:

# %% {"tags": ["nbval-check-output"]}
q = torch.randn(10, 10, requires_grad=True)
k = torch.randn(10, 10, requires_grad=True)
multiplied = best_loss(lambda: q @ k.T, [q, k])
assert multiplied < 0.01
print("q(left) . k(right): the loss falls to almost 0.")

# %%
v = torch.tensor(loss["pairs"]["deleted"])
print("Training loss of the deleted model, by seed:",
      " ".join(f"{value:.3f}" for value in v))
assert (v - math.log(2)).abs().max() < 0.01
print("All within 0.01 of ln 2.")

# %% [markdown]
# Two of the bugs from above were trained as well, on single pictures:

# %% {"tags": ["hide-input"]}
for arm in ("attention", "softmax over columns", "heads not transposed"):
    v = 100 * torch.tensor(accuracy["single"][arm])
    print(f"{arm:<20} {v.mean():.1f} %  "
          f"(lowest {v.min():.1f}, highest {v.max():.1f})")
    assert abs(v.mean() - mean["single", "attention"]) < 6
print("Nobody would find these bugs by looking at the accuracy.")

# %% [markdown]
# Now a small one of your own: the pairs, with attention and without, one seed.

# %%
from dataclasses import replace

from vitnb.training import Recipe, budget, fit

class Deleted(vitnb.MultiHeadAttention):
    def forward(self, x):
        return torch.zeros_like(x)

def train(layer, task):
    torch.manual_seed(0)
    model = ViT(ViTConfig(img_size=(14, 28), patch_size=7, depth=2,
                          embed_dim=48, num_classes=2, pos_std=0.5,
                          global_pool="mean"))
    for block in model.blocks:
        block.attention.__class__ = layer       # same weights to start
    return fit(model, task, Recipe(epochs=budget(5, 1), batch_size=64))

# %%
n = budget(4000 if clothes.name == "fashion_mnist" else 3000, 300)
train_x, train_y = pairs(clothes.train_images, clothes.train_labels, n)
test_x, test_y = pairs(clothes.test_images, clothes.test_labels, 1000, 1)
task = replace(clothes, train_images=train_x, train_labels=train_y,
               test_images=test_x, test_labels=test_y,
               classes=("different", "same"))
talking = train(vitnb.MultiHeadAttention, task)
alone = train(Deleted, task)
for name, run in (("attention", talking), ("deleted", alone)):
    print(f"{clothes.name}, {name}: {100 * run.test_accuracy[-1]:.1f} %, "
          f"training loss {run.train_loss[-1]:.3f}")
if budget(True, False) and clothes.name == "fashion_mnist":
    assert talking.test_accuracy[-1] > alone.test_accuracy[-1] + 0.05
    assert alone.train_loss[-1] > 0.68 > talking.train_loss[-1]
    print("The same sign as over five seeds: tokens must talk.")
