# %% [markdown]
# # Where am I?
#
# A token is made from the pixels of one patch. Nothing in it says where in the picture that patch was. Does the model find out from the order of the tokens, and if not, how do we tell it?
#
# | | |
# | --- | --- |
# | **You will be able to** | say what equivariant and invariant mean, and test a layer for it; give tokens a place with a learned table and with waves; stretch a position table to another size of picture and see when that went wrong |
# | **Time** | 45 minutes, and 55 for the exercises |
# | **Compute** | about a minute on two CPU cores |
# | **You need** | [From pixels to tokens](01-patchify.ipynb); attention and the rest of the model stay boxes |
# | **What people get wrong** | "the tokens are in order already", "equivariant means invariant", "positions must be sine waves", "adding positions spoils the content", "the right shape means that the table was resized right" |

# %%
import textwrap

import torch
from matplotlib import pyplot as plt
from torch import nn
from torch.nn import functional as F

import vitnb
from vitnb import ViT, ViTConfig, data, patchify, plots, unpatchify

plots.use_style()
_ = torch.manual_seed(0)

# %% [markdown]
# <!-- (sec-bag)= -->
# ## A bag of patches
#
# [The first chapter](01-patchify.ipynb) cut a picture into patches and lined them up as one reads a page. Now we cut the same picture and put the patches back in a random order, like a puzzle poured out of its box.

# %%
def shuffle(images, p, order):
    B, C, H, W = images.shape
    patches = patchify(images, p)                       # (B, N, C*p*p)
    return unpatchify(patches[:, order], p, (H, W), C)  # (B, C, H, W)

# %% {"tags": ["hide-input"], "mystnb": {"figure": {"name": "fig-pos-puzzle", "caption": "The photograph and the same 49 patches in a random order."}, "image": {"alt": "Left, a portrait of a woman in uniform. Right, the same picture as 49 square pieces in disorder: parts of the face, the flag and the uniform can be made out, but nothing is in its place."}}}
photo = data.sample_image(224)[None]                    # (1, C, H, W)
order = torch.randperm(49, generator=torch.Generator().manual_seed(1))
puzzle = shuffle(photo, 32, order)                      # (1, C, H, W)
figure, axes = plt.subplots(1, 2, figsize=(7, 3.5))
for axis, image in zip(axes, (photo, puzzle), strict=True):
    plots.draw_image(axis, image[0])
    axis.set_axis_off()

# %% [markdown]
# We give both pictures to a ViT that adds no positions and averages its tokens at the end. [Chapter 3](03-attention.ipynb) and the ones after it open the box: between the patch embedding and the average there are linear layers, norms and attention. It has random weights, and it answers with ten numbers, one for each class: the **logits**.
#
# **Before you run it, decide:** how far do the ten logits move when the patches are shuffled? Not at all, a little, or completely?

# %% {"tags": ["nbval-check-output"]}
def moved(model):
    with torch.no_grad():
        return (model(puzzle) - model(photo)).abs().max().item()

sizes = dict(img_size=224, patch_size=32, in_chans=3)
bag = ViT(ViTConfig(**sizes, pos_embed="none", global_pool="mean"))
assert moved(bag) < 1e-5
print("Without positions: the same ten logits.")

# %% [markdown]
# Not at all (the last digits differ, because a computer's sum depends on its order a little). For this model the portrait and the heap of squares are one and the same thing. No training can change that: we asked nothing of the weights. A ViT without positions does not read a sequence, it reads a **bag of patches**, where only what is in it counts.
#
# Is the test able to fail? The same model with a table of positions, which is what this chapter is about:

# %% {"tags": ["nbval-check-output"]}
told = ViT(ViTConfig(**sizes, pos_std=1.0, global_pool="mean"))
assert moved(told) > 0.01
print("With positions: other logits.")

# %% [markdown]
# <!-- (sec-equivariance)= -->
# ## Why: equivariance
#
# Let the tokens be the rows of a matrix $x$. Putting rows in another order is a multiplication from the left by a **permutation matrix** $P$, which has a single 1 in each row and in each column:

# %% {"tags": ["nbval-check-output"]}
x = torch.tensor([[1.0, 2], [3, 4], [5, 6]])            # (T, D)
P = torch.tensor([[0.0, 0, 1], [1, 0, 0], [0, 1, 0]])   # (T, T)
print(P @ x)
assert torch.equal(P @ x, x[[2, 0, 1]])
print("P @ x = x[[2, 0, 1]]")

# %% [markdown]
# Two things can be true of a function of $x$, and they are not the same:
#
# $$
# f(Px) = P f(x) \qquad\qquad g(Px) = g(x)
# $$ <!-- (eq-pos-equivariance) -->
#
# The function $f$ is **equivariant**: shuffle before it or shuffle after it, the result is the same, so each output moves along with its token. The function $g$ is **invariant**: the shuffle leaves no trace. Here is the left equation in code, and every kind of layer that a ViT has, with random parameters.

# %%
def error(f, x, order):
    """How far f is from f(Px) = P f(x)."""
    return (f(x[:, order]) - f(x)[:, order]).abs().max().item()

T, D = 7, 12
x, order = torch.randn(2, T, D), torch.randperm(T)      # (B, T, D)
layers = {
    "linear": nn.Linear(D, 20),
    "LayerNorm": nn.LayerNorm(D),
    "MLP": vitnb.MLP(D, hidden_dim=30),
    "attention": vitnb.MultiHeadAttention(D, num_heads=3),
    "block": vitnb.PreNormBlock(D, num_heads=3),
}

# %% {"tags": ["nbval-check-output"]}
for name, layer in layers.items():
    for parameter in layer.parameters():
        nn.init.normal_(parameter, std=0.3)
    assert error(layer, x, order) < 1e-5
    print(f"{name:9}  f(Px) = P f(x)")

# %% [markdown]
# The first three are no surprise: they treat each token alone and cannot know in which row it stands. Attention does look at all tokens, but it takes a weighted *sum* over them, with weights that come from what the tokens contain, and a sum has no order. If $f_1$ and $f_2$ are equivariant, so is one after the other: $f_2(f_1(Px)) = f_2(P f_1(x)) = P f_2(f_1(x))$. So a stack of any depth is.
#
# Equivariant, not invariant. The tokens that come out are shuffled too. It is the mean at the end that is invariant, and an invariant step after equivariant ones makes the whole invariant: that is all there is to the bag of patches.

# %% {"tags": ["nbval-check-output"]}
f = layers["block"]
assert not torch.allclose(f(x[:, order]), f(x))
print("The tokens move along: equivariant.")
assert torch.allclose(f(x[:, order]).mean(1), f(x).mean(1), atol=1e-5)
print("Their mean stays: invariant.")

# %% [markdown]
# **Why random parameters?** One of the notebooks that we learned from builds its LayerNorm for two axes, tokens and features, where it should have the features alone. A gain and a shift for each place come with it. They all start at 1 and 0, so a fresh layer passes our test:

# %% {"tags": ["nbval-check-output"]}
wide = nn.LayerNorm([T, D])
print("fresh:  ", "passes" if error(wide, x, order) < 1e-5 else "fails")
nn.init.normal_(wide.weight)
print("trained:", "passes" if error(wide, x, order) < 1e-5 else "fails")
assert error(wide, x, order) > 0.1

# %% [markdown]
# A test of a layer that has just been made tests only how it starts.
#
# **The same word, another change.** Equivariance is always about some change of the input. "Convolutions are translation invariant", one reads, also in one of those notebooks. Here the change is a shift of the picture, and again the word is the other one: the output shifts along.

# %% {"tags": ["nbval-check-output"]}
conv = nn.Conv2d(1, 3, 3, padding=1, padding_mode="circular")
image = torch.randn(1, 1, 8, 10)                        # (B, C, H, W)
shifted = image.roll(2, dims=3)                         # two pixels right
assert torch.allclose(conv(shifted), conv(image).roll(2, dims=3), atol=1e-5)
assert not torch.allclose(conv(shifted), conv(image))
print("conv(shifted picture) = shifted conv(picture): equivariant.")

# %% [markdown]
# <!-- (sec-table)= -->
# ## A vector for each place
#
# If the layers cannot know where a token stands, the token itself has to say it. To the token of place $n$ we add a vector $e^n$ that belongs to this place:
#
# $$
# z^n = x_p^n \, E + b + e^n
# $$ <!-- (eq-pos-add) -->
#
# In words: what is in the patch, plus where it is. In shapes: tokens $(B, N, D)$ plus one **position table** $(1, N, D)$. In code: `+`. Two pictures of three patches, by hand; in the first picture, patches 0 and 1 look alike:

# %% {"tags": ["nbval-check-output"]}
tokens = torch.tensor([[[5.0, 5], [5, 5], [7, 0]],
                       [[1.0, 1], [2, 2], [3, 3]]])     # (B, N, D)
table = torch.tensor([[[0.1, 0], [0.2, 0], [0.3, 0]]])  # (1, N, D)
print(tokens + table)

# %% [markdown]
# The twins 5, 5 can now be told apart. The batch axis of the table has length 1, so every picture gets the same three vectors: place 2 is place 2, whatever is to be seen there.
#
# **Added, not appended.** Would it not be cleaner to append the position, so that content and place stay apart? The next layer is linear, so let us look at what it would do with the two:

# %% {"tags": ["nbval-check-output"]}
content, place = torch.randn(5, 8), torch.randn(5, 4)
linear = nn.Linear(8 + 4, 6, bias=False)
joined = linear(torch.cat([content, place], dim=1))     # (5, 6)
V, W = linear.weight.split([8, 4], dim=1)               # (6, 8), (6, 4)
assert torch.allclose(joined, content @ V.T + place @ W.T, atol=1e-6)
print("linear([content, place]) = content V + place W")

# %% [markdown]
# It adds them. Appending means wider tokens for the same sum, one layer later. Nor does the sum spoil the content: $D$ features are much room, and the embedding can keep some of them free. Exercise 2.3 builds a table that every token can read to the last digit, with its content untouched.
#
# **The cls token has a place too.** The paper puts one learned token in front of the patches and reads the answer there ([chapter 5](05-cls-token.ipynb)). So its table has $T = N + 1$ rows, and row 0 is no patch. The default model of `vitnb` does the same:

# %% {"tags": ["nbval-check-output"]}
model = ViT(ViTConfig(patch_size=7))                    # N = 16 patches
images = torch.randn(3, 1, 28, 28)
patches = model.patch_embed(images)                     # (B, N, D)
embedded = model.embed(images)                          # (B, T, D)
table = model.positions.table                           # (1, T, D)
print("patches", tuple(patches.shape), "table", tuple(table.shape))
assert torch.equal(embedded[:, 1:], patches + table[:, 1:])
cls = model.pool.token + table[:, :1]                   # (1, 1, D)
assert torch.equal(embedded[:, :1], cls.expand(3, -1, -1))
print("token 0 = cls + row 0, patch n = its token + row n + 1")

# %% [markdown]
# The whole module is a table and a plus. The table is a parameter: like all weights, it starts at random and is learned.

# %%
class LearnedPositions(nn.Module):
    def __init__(self, num_tokens, embed_dim, std=0.02):
        super().__init__()
        table = torch.randn(1, num_tokens, embed_dim) * std
        self.table = nn.Parameter(table)                # (1, T, D)

    def forward(self, x):
        return x + self.table                           # (B, T, D)

# %% {"tags": ["nbval-check-output"]}
ours, theirs = LearnedPositions(T, D), vitnb.LearnedPositions(T, D)
theirs.load_state_dict(ours.state_dict())
assert torch.equal(ours(x), theirs(x))
print("The chapter's class is vitnb's class.")

# %% [markdown]
# **Is row 5 "after" row 4?** Predict: we shuffle the patches of the photograph once more, and this time the rows of the table in the same way, in the model whose logits moved before. Do they move now?

# %% {"tags": ["nbval-check-output"]}
order = torch.randperm(49, generator=torch.Generator().manual_seed(1))
before = told(photo)                                    # (1, K)
table = told.positions.table
table.data = table.data[:, order]                       # (1, N, D)
assert torch.allclose(told(puzzle), before, atol=1e-5)
print("Patches and rows shuffled alike: the same logits.")

# %% [markdown]
# They stay. The table holds no order, no rows and columns, no neighbours. It holds 49 different names, and what counts is that a place has the same name in every picture. That place 8 lies below place 1, the model has to learn from pictures.
#
# <!-- (sec-loud)= -->
# ## How loud should the place be?
#
# The table starts at random, but how large? The usual choice is a spread of 0.02. More than one of the notebooks that we learned from writes `torch.randn` and leaves it there: a spread of 1. Compare the length of a position with the length of a patch's token, on real pictures:

# %%
clothes = data.load("fashion_mnist")
images = clothes.normalize(clothes.test_images[:256])   # (B, C, H, W)
ratios = []
for std in (0.02, 1.0):
    model = ViT(ViTConfig(patch_size=7, pos_std=std))
    patch = model.patch_embed(images).norm(dim=-1).mean()
    place = model.positions.table[0, 1:].norm(dim=-1).mean()
    ratios.append((place / patch).item())
    print(f"spread {std:4}: a position is {ratios[-1]:.2f} times a patch")
assert ratios[0] < 0.1 < 0.5 < ratios[1]

# %% [markdown]
# At 0.02 a token is nearly all content: the model starts as a bag of patches and has to discover that places matter. At 1, where a patch is speaks as loudly as what is in it, from the first step. Is that a bug? The [experiment below](#sec-pos-experiment) asks the training.
#
# <!-- (sec-waves)= -->
# ## Waves instead of a table
#
# Could the positions be computed and not learned? The number of the place itself is a bad code: it grows without end, and place 40 would be forty times as loud as place 1. The hands of a clock do better. A fast hand tells neighbours apart and soon comes round again; a slow hand tells which round it is. A hand at angle $\alpha$ is two numbers, $\sin \alpha$ and $\cos \alpha$. Four places in a row, with two hands, so $D = 4$:

# %% {"tags": ["nbval-check-output"]}
m = torch.arange(4.0)[:, None]                          # places, (4, 1)
hands = torch.tensor([1.0, 0.01])                       # radians a place
angles = m * hands                                      # (4, D/2)
code = torch.cat([angles.sin(), angles.cos()], dim=1)   # (4, D)
print(code.round(decimals=2))

# %% [markdown]
# Columns 0 and 2 are the fast hand, columns 1 and 3 the slow one. In general there are $D/2$ hands, from one radian a place down to nearly a ten-thousandth [(Vaswani et al., 2017)](#vaswani2017attention):
#
# $$
# e^m = (\sin m\omega_0, \sin m\omega_1, \dots, \cos m\omega_0, \cos m\omega_1, \dots), \qquad \omega_i = 10000^{-2i/D}
# $$ <!-- (eq-pos-waves) -->

# %%
def speeds(D):
    return 10_000 ** (-torch.arange(D // 2) / (D // 2))

def waves(places, D):
    angles = torch.arange(places)[:, None] * speeds(D)  # (places, D/2)
    return torch.cat([angles.sin(), angles.cos()], 1)   # (places, D)

# %% {"tags": ["nbval-check-output"]}
assert torch.allclose(waves(4, 4), code)
print("The function gives the table made by hand.")

# %% [markdown]
# A picture has two axes. So half of the width codes the row, the other half the column:

# %%
def sincos(rows, cols, D):
    row = waves(rows, D // 2)[:, None].expand(-1, cols, -1)
    col = waves(cols, D // 2)[None].expand(rows, -1, -1)
    both = torch.cat([row, col], dim=2)                 # (rows, cols, D)
    return both.reshape(1, rows * cols, D)              # (1, N, D)

# %% {"tags": ["nbval-check-output"]}
table = sincos(3, 5, 16).reshape(3, 5, 16)
assert torch.equal(table[2, 0, :8], table[2, 4, :8])    # one row
assert torch.equal(table[0, 4, 8:], table[2, 4, 8:])    # one column
theirs = vitnb.SinCosPositions((3, 5), 16, num_prefix_tokens=1).table
assert torch.allclose(sincos(3, 5, 16), theirs[:, 1:], atol=1e-6)
assert not theirs[:, 0].any()
print("vitnb's class has the same table, with zeros for cls.")
assert torch.allclose(table.norm(dim=-1), torch.tensor(8 ** 0.5))
print("Every place is equally loud: its length is sqrt(D / 2).")

# %% [markdown]
# What has been won? Unlike a learned table at its start, this one knows what *near* means. The picture shows the product $e^n \cdot e^m$ of one place with all places of a grid of 7 × 7.

# %% {"tags": ["hide-input"], "mystnb": {"figure": {"name": "fig-pos-similar", "caption": "How similar each place is to the marked one (cosine of the angle between the two vectors). Left and middle: waves. Right: a learned table before training. Each panel has its own scale: the waves are all rather similar, since the slow hands hardly move within seven places."}, "image": {"alt": "Three grids of seven by seven squares. Left and middle: brightness falls off around the marked place, the centre on the left and the upper edge in the middle. Right: only the marked place is bright, the rest is random gray."}}}
fixed = sincos(7, 7, 64)[0]                             # (N, D)
learned = torch.randn(49, 64, generator=torch.Generator().manual_seed(0))
figure, axes = plt.subplots(1, 3, figsize=(9, 3.1))
shown = ((fixed, 24, "waves"), (fixed, 1, "waves"),
         (learned, 24, "a random table"))
for axis, (codes, n, name) in zip(axes, shown, strict=True):
    cosine = F.cosine_similarity(codes, codes[n : n + 1], dim=1)
    drawn = axis.imshow(cosine.reshape(7, 7), cmap="viridis")
    axis.plot(n % 7, n // 7, "o", color="white", mec="black")
    axis.set(title=name, xlabel="column", ylabel="row")
    figure.colorbar(drawn, ax=axis, shrink=0.75)

# %% {"tags": ["nbval-check-output"]}
row, col = torch.arange(49) // 7, torch.arange(49) % 7
distance = ((row - 3) ** 2 + (col - 3) ** 2).sqrt()     # (N,)
product = fixed @ fixed[24]                             # (N,)
assert torch.corrcoef(torch.stack([product, distance]))[0, 1] < -0.9
print("Similarity falls with the distance.")
a, b, c, d = (fixed[r * 7 + c] for r, c in
              ((0, 0), (2, 1), (4, 3), (6, 4)))
assert torch.isclose(a @ b, c @ d)
print("It depends on the way from one to the other alone:")
print("(0, 0) to (2, 1) is like (4, 3) to (6, 4).")

# %% [markdown]
# There is a reason behind the second sentence. Going $k$ places on turns every hand by an angle that depends on $k$ and not on where we start. A turn is linear: one matrix $R_k$, a **rotation**, moves all places at once,
#
# $$
# e^{m + k} = e^m R_k \quad \text{for every } m.
# $$ <!-- (eq-pos-rotation) -->

# %% {"tags": ["nbval-check-output"]}
def rotation(k, D):
    c, s = (k * speeds(D)).cos().diag(), (k * speeds(D)).sin().diag()
    return torch.cat([torch.cat([c, -s], 1), torch.cat([s, c], 1)])

code, R = waves(20, 16), rotation(3, 16)                # (D, D)
assert torch.allclose(code[:-3] @ R, code[3:], atol=1e-5)
assert torch.allclose(R @ R.T, torch.eye(16), atol=1e-6)
print("One matrix takes every place three places on.")

# %% [markdown]
# So a linear layer can turn "here" into "three to the left", for all tokens with the same weights. [Chapter 3](03-attention.ipynb) makes a head of it that looks at its neighbour.
#
# Must positions be waves, then? No: the paper compares no positions, a table for a line, a table for two axes and a relative one, and finds the first clearly worse and the other three nearly alike [(Dosovitskiy et al., 2021, appendix D.4)](#dosovitskiy2021image). That is a large model and much data. With less of both, waves are a good start: a careful study of training on ImageNet alone prefers them [(Beyer et al., 2022)](#beyer2022better).
#
# <!-- (sec-resize)= -->
# ## A picture of another size
#
# A model trained on pictures of 28 pixels shall look at pictures of 35. The patches keep their 7 pixels, so there are 25 of them instead of 16. Load the weights, and this happens:

# %%
small = ViT(ViTConfig(img_size=28, patch_size=7))
large = ViT(ViTConfig(img_size=35, patch_size=7))
try:
    large.load_state_dict(small.state_dict())
except RuntimeError as problem:
    print(textwrap.fill(str(problem).splitlines()[-1].strip(), 75))

# %% {"tags": ["nbval-check-output"]}
here, there = small.state_dict(), large.state_dict()
differ = [k for k in here if here[k].shape != there[k].shape]
assert differ == ["positions.table"]
print(f"1 of {len(here)} entries depends on the picture's size: {differ}")

# %% [markdown]
# Everything else in a ViT works for any number of tokens. Only the table must be stretched, from a grid of 4 × 4 to one of 5 × 5. On a table that we can read: a grid of 2 × 3 whose vectors have one number, the column, and a 9 for cls.

# %% {"tags": ["nbval-check-output"]}
table = torch.tensor([9.0, 0, 1, 2, 0, 1, 2]).reshape(1, 7, 1)
cls, places = table[:, :1], table[:, 1:]                # cls stays out
grid = places.reshape(1, 2, 3, 1).permute(0, 3, 1, 2)   # (1, D, 2, 3)
print(grid[0, 0])

# %% [markdown]
# The places are back on their grid, as a picture of 2 × 3 pixels with $D$ channels. To stretch a picture is an old task, and PyTorch does it:

# %% {"tags": ["nbval-check-output"]}
grid = F.interpolate(grid, size=(4, 6), mode="bilinear")
print(grid[0, 0])
places = grid.flatten(2).transpose(1, 2)                # (1, 24, D)
stretched = torch.cat([cls, places], dim=1)             # (1, 25, D)
print(tuple(stretched.shape), "cls:", stretched[0, 0].item())

# %% [markdown]
# Every row still reads from left to right, and column 2 of the old grid lies where column 4 and 5 of the new one are. `vitnb.resize_positions` takes these steps with `bicubic`, a smoother curve through the old points. Four things must be true of such a function, and its shape is none of them:

# %% {"tags": ["nbval-check-output"]}
resize = vitnb.resize_positions
table = torch.randn(1, 1 + 4 * 5, 8)                    # grid of 4 x 5
assert torch.equal(resize(table, (4, 5), (4, 5)), table)
print("The same grid gives the same table.")
larger = resize(table, (4, 5), (6, 8))
assert torch.equal(larger[:, 0], table[:, 0])
print("The row of cls is kept.")

column = torch.arange(5.0).repeat(4)                    # n -> its column
ramp = torch.cat([torch.tensor([9.0]), column])[None, :, None]
grid = resize(ramp, (4, 5), (6, 8))[0, 1:].reshape(6, 8)
assert (grid - grid[0]).abs().max() < 1e-5
print("Down a column nothing changes,")
assert (grid[0].diff() > 0).all()
print("along a row the numbers grow.")

# %% [markdown]
# Now the wrong ways. All of them give a table of the right shape, and the error message is gone.
#
# **As one line.** The places are stretched as they stand in memory, one after the other. **Swapped.** The old grid is read as 5 rows of 4, not 4 rows of 5; on a square grid nobody would notice that mistake.

# %%
def as_a_line(table, old, new):
    line = table[:, 1:].transpose(1, 2)                 # (1, D, N)
    line = F.interpolate(line, size=new[0] * new[1], mode="linear")
    return torch.cat([table[:, :1], line.transpose(1, 2)], 1)

def swapped(table, old, new):
    return resize(table, old[::-1], new)

# %% {"tags": ["hide-input"], "mystnb": {"figure": {"name": "fig-pos-resize", "caption": "A table of 4 × 5 places that holds the column of each place, stretched to 6 × 8 in three ways. All three have the right shape."}, "image": {"alt": "Three grids of six rows and eight columns. Left, smooth vertical bands from dark to light. Middle and right, slanted and broken bands: the same column has light and dark squares."}}}
ways = {"right": resize, "as one line": as_a_line, "swapped": swapped}
figure, axes = plt.subplots(1, 3, figsize=(9, 2.7), sharey=True)
for axis, name in zip(axes, ways, strict=True):
    way = ways[name]
    grid = way(ramp, (4, 5), (6, 8))[0, 1:].reshape(6, 8)
    drawn = axis.imshow(grid, cmap="viridis", vmin=0, vmax=4)
    axis.set(title=name, xlabel="new column")
axes[0].set_ylabel("new row")
figure.colorbar(drawn, ax=axes, label="old column", shrink=0.8);

# %% {"tags": ["nbval-check-output"]}
for name, way in ways.items():
    out = way(ramp, (4, 5), (6, 8))                     # (1, 1 + 48, 1)
    grid = out[0, 1:].reshape(6, 8)
    still = (grid - grid[0]).abs().max() < 1e-5
    print(f"{name:11}  shape {tuple(out.shape)}  columns "
          + ("kept" if still else "torn"))

# %% [markdown]
# **By a factor.** `F.interpolate` takes a `scale_factor` too, and then computes the size: the old side times the factor, rounded *down*. A factor of 61/14 should make 61 out of 14. But a computer's 61/14 is a little less than the true one:

# %% {"tags": ["nbval-check-output"]}
def by_factor(old, new):
    grid = torch.zeros(1, 1, old, old)
    return F.interpolate(grid, scale_factor=new / old).shape[-1]

lost = [new for new in range(1, 129) if by_factor(14, new) != new]
print("From 14 these sides come out wrong:", lost)
print("61 becomes", by_factor(14, 61))
assert by_factor(14, 61) == 60

# %% [markdown]
# For a few sizes in a hundred, a row and a column of places are missing. This stood in well-known code, where a small number was added to the factor to get round it. Say the `size` that you want.
#
# <!-- (sec-pos-experiment)= -->
# ## Predict, then run
#
# Four small ViTs are trained on a part of the pictures of clothes, patches in order. They differ in their positions alone: none, a learned table of spread 0.02, one of spread 1, waves. (They read their answer from a cls token. It collects from the patches by a sum, so without positions it sees a bag as well.) Then we test each twice: on the test pictures, and on the same pictures with the patches of each one **shuffled**.
#
# **Write down, for each of the four, which part of its accuracy is left.** For the one without positions you can know it exactly.

# %%
stored = data.result("positions")
print("Repeat it with:  ", stored["command"])
print("It ran on:       ", stored["device"])
print("Pictures:        ", f"{stored['config']['pictures']:,}")
print(f"test accuracy after {stored['config']['recipe']['epochs']} epochs,"
      f" mean of {len(stored['seeds'])} seeds (lowest to highest)")
kept = {}
for arm, runs in stored["result"]["accuracy"].items():
    o, s = (100 * torch.tensor(runs[k]) for k in ("ordered", "shuffled"))
    kept[arm] = s.mean() / o.mean()
    print(f"{arm:18} in order {o.mean():.1f} %, "
          f"shuffled {s.mean():.1f} % ({s.min():.1f} to {s.max():.1f})")

# %% {"tags": ["hide-input"], "mystnb": {"figure": {"name": "fig-pos-shuffled", "caption": "Accuracy on ordered and on shuffled test pictures after training on ordered ones: bars are means, dots the five seeds, the line is chance."}, "image": {"alt": "Four pairs of bars. Without positions both bars are equal, with a learned table of spread 0.02 the second is hardly lower. With waves it is much lower, and with a table of spread 1 it is lowest of all."}}}
accuracy = stored["result"]["accuracy"]
figure, axis = plt.subplots(figsize=(7.5, 3.4))
for side, key in ((-0.2, "ordered"), (0.2, "shuffled")):
    runs = 100 * torch.tensor([a[key] for a in accuracy.values()])
    at = torch.arange(len(runs)) + side
    axis.bar(at, runs.mean(1), 0.36, alpha=0.75, label=key)
    axis.plot(at[:, None].expand_as(runs), runs, "o", ms=3.5,
              color="black", clip_on=False)
axis.axhline(10, color="black", lw=1, ls=":")
axis.set_xticks(range(len(accuracy)),
                [arm.replace(", ", "\n") for arm in accuracy])
axis.set(ylabel="test accuracy (%)", ylim=(0, 100))
axis.legend(loc="upper right", ncols=2);

# %% [markdown]
# <!-- Written before the measurement: to be checked against book/results/positions.json. -->
#
# Without positions nothing is lost, as it must be. The surprise is the next one: the model with the quiet table has been told in every step where each patch is, and still keeps most of its accuracy on heaps of patches. It has a table and hardly reads it. The two loud ones do read theirs, and the shuffle costs them dearly.
#
# To lose much here is no fault: it shows that a model relies on *where* things are. Whether that pays is the other column, on ordered pictures. So the spread of 1 is not a bug but a choice. The place is heard from the first step on, and the content half as clearly. This training is short; a longer one gives the quiet table more time to grow.

# %% {"tags": ["nbval-check-output"]}
none = torch.tensor([accuracy["none"][k] for k in ("ordered", "shuffled")])
assert (none[0] - none[1]).abs().max() < 0.002
print("None: nothing is lost, with any seed.")
assert kept["learned, std 0.02"] > 0.85
print("Spread 0.02: more than 85 % of the accuracy is left.")
assert max(kept["learned, std 1"], kept["sin-cos"]) < 0.7
print("Spread 1 and waves: less than 70 % is left.")

# %% [markdown]
# A small one of your own, with the two extremes. It has fewer pictures and half the blocks.

# %%
from vitnb.training import Recipe, budget, evaluate, fit

def train(**positions):
    torch.manual_seed(0)
    model = ViT(ViTConfig(patch_size=7, depth=2, mlp_ratio=4.0,
                          **positions))
    recipe = Recipe(epochs=budget(4, 1), batch_size=64, lr=1e-3)
    fit(model, few, recipe)
    return model

n = 5000 if clothes.name == "fashion_mnist" else 1400
few = clothes.subset(budget(n, 500), test=500)
none = train(pos_embed="none")
loud = train(pos_std=1.0)

# %%
test = clothes.normalize(clothes.test_images[:2000])    # (B, C, H, W)
labels = clothes.test_labels[:2000]
puzzles = shuffle(test, 7, torch.randperm(16))
lost = []
for name, model in (("none", none), ("spread 1", loud)):
    a, b = (evaluate(model, x, labels).accuracy for x in (test, puzzles))
    lost.append(a - b)
    print(f"{clothes.name}, {name:8}: in order {100 * a:.1f} %, "
          f"shuffled {100 * b:.1f} %")
assert abs(lost[0]) < 0.002
print("Without positions, nothing is lost.")
if budget(True, False) and clothes.name == "fashion_mnist":
    assert lost[1] > 0.1
    print("With loud positions, more than ten points are.")

# %% [markdown]
# ### The same weights, other sizes
#
# The trained models now look at test pictures of 21, 35 and 42 pixels, scaled from 28, with their tables stretched right, or as one line. No weight is trained again. **Predict:** does the wrong way fall to chance?

# %% {"tags": ["hide-input"], "mystnb": {"figure": {"name": "fig-pos-sizes", "caption": "Accuracy on pictures of other sizes than the trained 28 pixels, without further training: mean of five seeds, and the band from the lowest to the highest."}, "image": {"alt": "Three panels. In each, accuracy is highest at 28 pixels and falls towards smaller and larger pictures. In the left panel the two ways nearly coincide; in the other two the wrong way falls far below the right one."}}}
sizes = stored["config"]["sizes"]
measured = stored["result"]["sizes"]
figure, axes = plt.subplots(1, 3, figsize=(9.5, 3.2), sharey=True)
kinds = (("right", "right"), ("line", "as one line"))
for axis, arm in zip(axes, measured, strict=True):
    for color, (way, name) in enumerate(kinds):
        runs = [[100 * a for a in run] for run in measured[arm][way]]
        plots.spread(axis, sizes, runs, name, plots.COLORS[color])
    axis.set(title=arm, xlabel="side of the picture (pixels)",
             xticks=sizes, ylim=(0, 100))
axes[0].set_ylabel("test accuracy (%)")
axes[0].legend(loc="lower left");

# %% [markdown]
# <!-- Written before the measurement: to be checked against book/results/positions.json. -->
#
# Two things to see. Away from 28 pixels every curve falls, with the right table, too: the clothes now fill more patches, or fewer, than in any picture of the training. That is why one trains a little further at the new size, as the paper does. (It finds that more pixels help. Here they cannot: our larger pictures hold nothing that the small ones did not.)
#
# And the wrong table costs most where positions are loud, and next to nothing where they are quiet. A model that does not read its table is not harmed by a torn one. So accuracy may not tell you that your resizing is wrong; the four properties above do.

# %% [markdown]
# <!-- (sec-pos-exercises)= -->
# ## Exercises
#
# Replace each `...` by your code and run the cell: `check` says at once whether it is right, or what it looks like if it is not. Stuck? `check("2.1", hint=1)` and `hint=2` help; the solution is folded below each cell.

# %%
from vitnb.checks import check

# %% [markdown]
# ### Exercise 2.1: what does a bag notice?
#
# easy, about 5 minutes, a prediction
#
# The model `bag` above has no positions and averages its tokens. Do its logits stay (`True`) or move (`False`) if the picture is changed in one of these ways?
#
# - `roll by a patch`: moved to the right by one patch; what leaves on the right comes in on the left
# - `roll by a pixel`: the same, by one pixel
# - `mirror`: left and right exchanged, pixel by pixel
# - `swap`: two patches exchanged
# - `turn`: each patch turned by 90°, in its place
# - `twice`: two copies of the picture side by side, so that there are twice as many tokens
#
# Put `True` or `False` for each of the six.

# %% {"tags": ["nbval-check-output"]}
def stays(change):
    """True if the logits stay, False if they move."""
    return {
        "roll by a patch": ...,
        "roll by a pixel": ...,
        "mirror": ...,
        "swap": ...,
        "turn": ...,
        "twice": ...,
    }[change]


check("2.1", stays);

# %% [markdown]
# <details>
# <summary>Solution</summary>
#
# ```python
# def stays(change):
#     """True if the logits stay, False if they move."""
#     return {
#         "roll by a patch": True,
#         "roll by a pixel": False,
#         "mirror": False,
#         "swap": True,
#         "turn": False,
#         "twice": True,
#     }[change]
# ```
#
# Ask which squares there are afterwards, and in which shares. Rolling by a patch and swapping leave the same 49 squares. Rolling by a pixel, mirroring and turning make squares that were not there before. `twice` doubles the number of every square; attention weighs by shares and the mean divides by the number, so nothing moves: the bag knows shares, not numbers.
#
# </details>

# %% [markdown]
# ### Exercise 2.2: a test for equivariance
#
# medium, about 10 minutes
#
# `layer` is a function from tokens $(B, T, D)$ to tokens $(B, T, D')$. Say whether $f(Px) = P f(x)$ holds for it, for every $P$. Your test is tried on five layers that are equivariant and on seven that only look so.

# %% {"tags": ["nbval-check-output"]}
def is_equivariant(layer, T, D):
    """True if shuffling before layer is shuffling after it."""
    ...


check("2.2", is_equivariant);

# %% [markdown]
# <details>
# <summary>Solution</summary>
#
# ```python
# def is_equivariant(layer, T, D):
#     """True if shuffling before layer is shuffling after it."""
#     x = torch.randn(2, T, D)  # (B, T, D)
#     for _ in range(5):
#         order = torch.randperm(T)
#         before, after = layer(x[:, order]), layer(x)[:, order]
#         if not torch.allclose(before, after, atol=1e-4):
#             return False
#     return True
# ```
#
# A flip or a roll alone is too weak: a convolution along the tokens can be equivariant to both. And `torch.equal` is too strict: attention sums in another order, and the last digits differ. One of the five attends over the *batch* instead of the tokens, which is a bug, and it passes: equivariance does not prove everything.
#
# </details>

# %% [markdown]
# ### Exercise 2.3: an address, by hand
#
# medium, about 10 minutes, weights set by hand
#
# Does adding spoil the content? Suppose the patch embedding leaves the last two features of every token at zero. Choose a table $(N, D)$ and a matrix `read` $(D, 2)$ so that `(tokens + table) @ read` is exactly (row, column) for each token, whatever the patches show. Return both: `return table, read`.

# %% {"tags": ["nbval-check-output"]}
def address(rows, cols, D):
    """A table (N, D) and a read-out (D, 2) of row and column."""
    ...


check("2.3", address);

# %% [markdown]
# <details>
# <summary>Solution</summary>
#
# ```python
# def address(rows, cols, D):
#     """A table (N, D) and a read-out (D, 2) of row and column."""
#     n = torch.arange(rows * cols)
#     table, read = torch.zeros(rows * cols, D), torch.zeros(D, 2)
#     table[:, -2], table[:, -1] = n // cols, n % cols
#     read[-2, 0] = read[-1, 1] = 1
#     return table, read
# ```
#
# `read` has zeros where the content speaks, so it does not hear the patch. This is what room means: in $D$ features, content and place can have directions of their own.
#
# </details>

# %% [markdown]
# ### Exercise 2.4: stretch a table
#
# medium, about 15 minutes
#
# Write it yourself, for any two grids (each is a pair of rows and columns) and for any number of rows in front of the patches: none, one for cls, or more. Bilinear or bicubic, as you like.

# %% {"tags": ["nbval-check-output"]}
def my_resize(table, old, new, num_prefix):
    """Table (1, num_prefix + N, D) -> (1, num_prefix + N', D)."""
    ...


check("2.4", my_resize);

# %% [markdown]
# <details>
# <summary>Solution</summary>
#
# ```python
# def my_resize(table, old, new, num_prefix):
#     """Table (1, num_prefix + N, D) -> (1, num_prefix + N', D)."""
#     prefix, places = table[:, :num_prefix], table[:, num_prefix:]
#     grid = places.reshape(1, *old, -1)  # (1, rows, cols, D)
#     grid = grid.permute(0, 3, 1, 2)  # (1, D, rows, cols)
#     grid = F.interpolate(grid, size=new, mode="bicubic")
#     places = grid.flatten(2).transpose(1, 2)  # (1, N', D)
#     return torch.cat([prefix, places], dim=1)
# ```
#
# `reshape(1, D, rows, cols)` without the `permute` has the right shape too, and tears every vector apart: it is the mistake of [chapter 1](01-patchify.ipynb#by-hand-on-24-pixels) again.
#
# </details>

# %% [markdown]
# ### Exercise 2.5: a table that is no table
#
# bug hunt, about 15 minutes
#
# One of the notebooks that we learned from makes a table in the forward pass, and gives it an axis for the batch. In short:
#
# ```python
# class Suspect(nn.Module):
#     def forward(self, x):
#         B, T, D = x.shape
#         return x + nn.Parameter(torch.randn(B, T, D))
# ```
#
# The shape is right, it is an `nn.Parameter`, and a model with it trains, badly. Write the test that it fails. `make()` builds a new module of positions, and `x` are tokens $(B, T, D)$. Sound positions give every picture of the batch the same table, give it again in the next call, and carry it with the weights: after `second.load_state_dict(first.state_dict())` the second module does what the first one does. Your test is tried on three sound kinds and five unsound ones.

# %% {"tags": ["nbval-check-output"]}
def is_sound(make, x):
    """True if the positions that make() builds can be trusted."""
    ...


check("2.5", is_sound);

# %% [markdown]
# <details>
# <summary>Solution</summary>
#
# ```python
# def is_sound(make, x):
#     """True if the positions that make() builds can be trusted."""
#     zeros, first, second = torch.zeros_like(x), make(), make()
#     second.load_state_dict(first.state_dict())
#     table = first(zeros)  # (B, T, D)
#     return (
#         torch.equal(table, table[:1].expand_as(table))
#         and torch.equal(table, first(zeros))
#         and torch.equal(table, second(zeros))
#     )
# ```
#
# Tokens of zeros show the table alone, with no rounding. `Suspect` makes its table anew in each call, so it is never learned: `list(Suspect().parameters())` is empty, although the word `nn.Parameter` stands there. And with the axis for the batch each picture has places of its own.
#
# </details>

# %% [markdown]
# ## What to remember
#
# 1. Without positions a ViT is **equivariant** in its tokens, and with a mean at the end **invariant**: it reads a bag of patches.
# 2. One vector for each place is added, the same for every picture, cls included. Learned or computed matters less than how loud it is at the start.
# 3. For another size, put the table back on its grid and stretch it there; cls stays out, the `size` is given. A wrong way has the right shape.
#
# ## Sources
#
# - The table, its stretching and the comparison of kinds: equation 1, section 3.2 and appendix D.4 of [(Dosovitskiy et al., 2021)](#dosovitskiy2021image).
# - The waves: section 3.5 of [(Vaswani et al., 2017)](#vaswani2017attention), for one axis; two axes as in [(Beyer et al., 2022)](#beyer2022better).
# - That such layers are equivariant, and what a sum has to do with it: [(Zaheer et al., 2017)](#zaheer2017deep).
#
# **Next:** the tokens know what they show and where they are. [Chapter 3](03-attention.ipynb) lets them look at each other.
