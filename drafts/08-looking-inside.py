# %% [markdown]
# # Looking inside
#
# A trained ViT is two hundred thousand numbers that work. What has it learned, and what of that can one see?
#
# | | |
# | --- | --- |
# | **You will be able to** | get the attention maps out of any Transformer, though its fast kernel never stores them; follow attention through the layers; measure how far heads look; judge maps, positions and filters beside the same network with random weights; delete a patch and compare |
# | **Time** | 70 minutes, 40 of them for the exercises |
# | **Compute** | under a minute on two CPU cores; nothing is trained |
# | **You need** | [Tokens that look at each other](03-attention.ipynb), [Where am I?](02-positions.ipynb), [The whole model](06-vit.ipynb) |
# | **What people get wrong** | "the model has no attention weights", "the last layer's map shows what the answer depends on", "the order of the product does not matter", "a bright map is an explanation", "no structure to see means that nothing was learned" |

# %%
import torch
from matplotlib import pyplot as plt
from torch import nn
from torch.nn import functional as F

from vitnb import ViT, data, patchify, plots, record_attention
from vitnb.training import budget, evaluate

plots.use_style()
torch.set_printoptions(precision=3, sci_mode=False)
_ = torch.manual_seed(0)

# %% [markdown]
# <!-- (sec-look-two)= -->
# ## Two networks
#
# This chapter looks into one ViT of the kind that [Training](07-training.ipynb) trains, and always into a second one beside it: the same network with the random weights that the training began with. Whatever shows in both was not learned.
#
# Below, six pictures, and for each of them two maps of 4 × 4 patches: how much the cls token attends to each patch in the last layer. One row is from the network that has learned from 60,000 pictures, the other from the one that has never seen any. **Before you read on: which is which?**

# %% {"tags": ["hide-input"], "mystnb": {"figure": {"name": "fig-look-which", "caption": "Attention of the cls token to the 16 patches in the last layer, mean of four heads, in two networks. Each map has its own scale: dark is its smallest weight, bright its largest."}, "image": {"alt": "Three rows of six. Above, small gray pictures of clothes. In both rows below, coarse maps of four by four squares with some bright and many dark squares; neither row follows the outline of the clothes."}}}
from vitnb.inspection import trained

clothes = data.load("fashion_mnist")
model = trained()
torch.manual_seed(0)                                   # as the training did
start = ViT(model.config).eval()

six = clothes.test_images[[0, 1, 2, 8, 13, 18]]        # (B, C, H, W)
rows = []
for net in (start, model):
    with record_attention(net) as maps, torch.no_grad():
        net(clothes.normalize(six))
    rows.append(maps[-1].mean(1)[:, 0, 1:].reshape(6, 4, 4))
figure, axes = plt.subplots(3, 6, figsize=(7, 3.6))
for n in range(6):
    plots.draw_image(axes[0, n], six[n])
    for axis, row in zip(axes[1:, n], rows):
        axis.imshow(row[n], cmap="viridis")
for axis, name in zip(axes[:, 0], ("picture", "A", "B")):
    axis.set_ylabel(name, rotation=0, ha="right", va="center")
for axis in axes.flat:
    axis.set(xticks=[], yticks=[])
    axis.spines[:].set_visible(False)

# %% [markdown]
# A map always looks like something. As long as there is no measure and no control, choosing between the rows is a guess. The answer stands [below](#sec-look-heads).
#
# First: does the trained network know its clothes? Its weights come with the book, in a file that `python -m experiments trained` makes.

# %%
stored = data.result("trained")
accuracy = stored["result"]["test_accuracy"]
print("Repeat it with: ", stored["command"])
print(f"{stored['result']['parameters']:,} parameters, "
      f"{stored['config']['recipe']['epochs']} epochs, "
      f"{stored['result']['training_seconds']:.0f} s of training")
print(f"test accuracy as stored: {100 * accuracy:.2f} %")

test = clothes.normalize(clothes.test_images)          # (N, C, H, W)
for name, net in (("trained", model), ("random ", start)):
    now = evaluate(net, test, clothes.test_labels).accuracy
    print(f"{name} on {clothes.name}: {100 * now:.2f} %")
    if net is model and clothes.name == "fashion_mnist":
        assert abs(now - accuracy) < 0.001
if clothes.name != "fashion_mnist":
    print("It has learned clothes: what it says of digits means little.")

# %% [markdown]
# <!-- (sec-look-fused)= -->
# ## Where are the maps?
#
# [Chapter 3](03-attention.ipynb) computed $A = \text{softmax}(QK^\top/\sqrt{d})$ and then $AV$. A trained model computes the same, yet nobody finds $A$ in it. Ask PyTorch's own layer, with a hook that sees all that its attention returns:

# %% {"tags": ["nbval-check-output"]}
layer = nn.TransformerEncoderLayer(64, 4, batch_first=True)
layer.self_attn.register_forward_hook(
    lambda module, given, returned: print("weights:", returned[1]))
_ = layer(torch.randn(2, 17, 64))

# %% [markdown]
# `None`. Not forgotten: never there. A **fused kernel** computes the output piece by piece and keeps of each row of $A$ only a running sum. That saves the memory of $h \cdot T^2$ numbers for each picture and layer, and it is why large models are fast. The map must be computed once more, from what is still there: the layer's input and its weights. For the first block of our model:

# %%
images = test[:8]                                      # (B, C, H, W)
with torch.no_grad():
    block, x = model.blocks[0], model.embed(images)    # x: (B, T, D)
    B, T, D = x.shape
    h = block.attention.num_heads
    qkv = block.attention.qkv(block.norm1(x))          # (B, T, 3*D)
q, k, v = qkv.reshape(B, T, 3, h, D // h).permute(2, 0, 3, 1, 4)
scores = q @ k.transpose(-2, -1) / (D // h) ** 0.5     # (B, h, T, T)
weights = scores.softmax(dim=-1)                       # (B, h, T, T)

# %% [markdown]
# Is this the map that the model used? It cannot be compared with one that does not exist. But it can be put to work: mixed with the values, it must give what the kernel gives.

# %% {"tags": ["nbval-check-output"]}
fused = F.scaled_dot_product_attention(q, k, v)        # (B, h, T, D/h)
assert torch.allclose(weights @ v, fused, atol=1e-5)
print("softmax(q k^T / sqrt(d)) v = the fused kernel, to 1e-5.")
assert torch.allclose(weights.sum(-1), torch.ones(B, h, T), atol=1e-5)
print("maps:", tuple(weights.shape), "and every row sums to 1.")

# %% [markdown]
# `record_attention` does this in every layer while a model runs. Inside it the softmax is written out; the answer stays the same.

# %% {"tags": ["nbval-check-output"]}
with torch.no_grad():
    before = model(images)                             # fused
    with record_attention(model) as maps:
        after = model(images)                          # written out
assert torch.allclose(before, after, atol=1e-4)
assert torch.allclose(maps[0], weights, atol=1e-5)
print(len(maps), "layers,", tuple(maps[0].shape), "each: (B, h, T, T)")
print("The same logits, and layer 0 is the map made by hand.")

# %% [markdown]
# Row: the token that asks. Column: the token that is asked. Token 0 is cls, so `maps[l][b, :, 0, 1:]` is what cls takes from the patches in layer `l` of picture `b`.
#
# <!-- (sec-look-heads)= -->
# ## Layers and heads
#
# Here is one picture through all layers and heads, in both networks, now on a common scale.

# %% {"tags": ["hide-input"], "mystnb": {"figure": {"name": "fig-look-heads", "caption": "One picture. Attention of cls to the 16 patches: rows are layers 1 to 4, columns heads 1 to 4. Left the trained network, right the random one. Common scale: white is 0, dark is 0.4 or more."}, "image": {"alt": "Two blocks of four by four small maps. In the left one every map has a few dark squares, at different places in different heads. In the right one all maps are nearly even and pale."}}}
figure, axes = plt.subplots(4, 10, figsize=(9, 3.8),
                            width_ratios=[1] * 4 + [0.15, 1] + [1] * 4)
for axis in axes.flat:
    axis.set_axis_off()
for first, net, name in ((0, model, "trained"), (6, start, "random")):
    with record_attention(net) as maps, torch.no_grad():
        net(clothes.normalize(six[:1]))
    for layer in range(4):
        for head in range(4):
            grid = maps[layer][0, head, 0, 1:].reshape(4, 4)
            axis = axes[layer, first + head]
            axis.imshow(grid, cmap="Blues", vmin=0, vmax=0.4)
            axis.set_axis_on()
            axis.set(xticks=[], yticks=[])
    axes[0, first].set_title(name, loc="left")
    for layer in range(4):
        axes[layer, 0].set_ylabel(f"layer {layer + 1}")
plots.draw_image(axes[0, 5], six[0])

# %% [markdown]
# The trained heads choose; the random ones take nearly everything alike. Row B above is the trained network, and with each map on its own scale that could not be seen. To say it for all pictures we need one number. The entropy of a row, $-\sum_j a_j \ln a_j$, as a power of $e$, is the number of tokens that a row hears ([chapter 3](03-attention.ipynb#sec-attn-scale)): 17 if all weights are equal, 1 if one weight is 1.

# %%
n = budget(500, 100)
images = test[:n]                                      # (B, C, H, W)

def look(net):
    with record_attention(net) as maps, torch.no_grad():
        net(images)
    return maps

def heard(weights):
    logs = weights.clamp(min=1e-30).log()
    return (-(weights * logs).sum(-1)).exp().mean().item()

seen = {"trained": look(model), "random": look(start)}
print(f"tokens heard by a row, of 17 (mean of {len(images)} pictures)")
for name, maps in seen.items():
    per_layer = [heard(weights) for weights in maps]
    print(f"{name:8}", *(f"{v:5.1f}" for v in per_layer))
    if name == "trained" and clothes.name == "fashion_mnist":
        assert max(per_layer) < 12
    if name == "random":
        assert min(per_layer) > 13
print("Random heads hear nearly all tokens, trained ones fewer.")

# %% [markdown]
# That is a first thing that training does and that one can see: the heads become selective. It does not say that they select well.
#
# <!-- (sec-look-rollout)= -->
# ## Through the layers: rollout
#
# The map of layer 4 says which tokens *of layer 3* cls reads. By then, no token is what it was: each has taken in others. So the patch under a bright square need not be what arrives. How do we get back to the pictures?
#
# Three tokens and three layers, by hand. Each token hears one token, so that we can follow it with a finger:

# %% {"tags": ["nbval-check-output"]}
A1 = torch.tensor([[0.0, 1, 0], [0, 1, 0], [0, 0, 1]])  # 0 hears 1
A2 = torch.tensor([[1.0, 0, 0], [0, 0, 1], [1, 0, 0]])  # 2 hears 0, 1 hears 2
A3 = torch.tensor([[0.0, 0, 1], [0, 1, 0], [0, 0, 1]])  # 0 hears 2
x = torch.eye(3)          # token n starts as "pure n", (T, T)
for number, A in enumerate((A1, A2, A3), start=1):
    x = A @ x
    print(f"after layer {number}, token 0 holds", x[0].tolist())

# %% [markdown]
# The last map says: token 0 hears token 2. What it gets there is token 1, and nothing of token 2: token 2 had taken token 0's place in layer 2, and token 0 had listened to token 1 in layer 1. The whole way is a product of matrices, and the last layer stands on the left, because it acts last.

# %% {"tags": ["nbval-check-output"]}
print("A3 A2 A1, row 0:", (A3 @ A2 @ A1)[0].tolist())
print("A1 A2 A3, row 0:", (A1 @ A2 @ A3)[0].tolist())
assert torch.equal(A3 @ A2 @ A1, x)
assert not torch.equal(A1 @ A2 @ A3, x)
print("The other order follows another path.")

# %% [markdown]
# Something is missing. A block does not replace a token by what it hears, it *adds* it: $x + Ax$, the residual path. **Attention rollout** [(Abnar and Zuidema, 2020)](#abnar2020quantifying) counts both parts alike, and so that the rows go on summing to 1, it takes half of each. With $\bar A_l$ the mean of the heads of layer $l$:
#
# $$
# R = \hat A_L \cdots \hat A_2 \hat A_1, \qquad \hat A_l = \tfrac12 \left(\bar A_l + I\right)
# $$ <!-- (eq-look-rollout) -->
#
# In words: half of what it hears, half of what it is, layer after layer. In shapes: $L$ matrices $(T, T)$ make one. In code:

# %%
def rollout(maps):
    identity = torch.eye(maps[0].shape[-1])            # (T, T)
    total = identity
    for weights in maps:                               # (B, h, T, T)
        step = weights.mean(dim=1) + identity          # (B, T, T)
        step = step / step.sum(dim=-1, keepdim=True)   # rows sum to 1
        total = step @ total                           # (B, T, T)
    return total

# %% {"tags": ["nbval-check-output"]}
by_hand = [A[None, None] for A in (A1, A2, A3)]        # (B, h, T, T) each
R = rollout(by_hand)[0]
print(R)

# %% [markdown]
# Row 0 now holds all three: token 1, which came the long way round and straight in layer 1; token 0, which partly stayed at home; and some of token 2, as it was at the start.
#
# **Prove it.** For which network is this right to the last digit? For one whose layers do just that: $x \leftarrow \frac12 x + \frac12 \bar A x$. No values, no MLP, no norm. Let ten features run through it:

# %% {"tags": ["nbval-check-output"]}
from vitnb import inspection

torch.manual_seed(0)
maps = [torch.randn(2, 4, 7, 7).softmax(-1) for _ in range(3)]
tokens = x = torch.randn(2, 7, 10)                     # (B, T, D)
for weights in maps:
    x = x / 2 + weights.mean(1) @ x / 2                # (B, T, D)
assert torch.allclose(rollout(maps) @ tokens, x, atol=1e-5)
print("R @ tokens = what comes out of the layers.")
assert torch.allclose(rollout(maps).sum(-1), torch.ones(2, 7))
print("Every row sums to 1.")
same = [torch.eye(7).expand(2, 4, 7, 7)] * 3
assert torch.equal(rollout(same), torch.eye(7).expand(2, 7, 7))
print("Tokens that hear only themselves stay themselves.")
assert torch.allclose(rollout(maps), inspection.rollout(maps))
print("The chapter's function is vitnb's function.")

# %% [markdown]
# So rollout is exact about a network that we do not have. Ours multiplies what it hears by value matrices, differently in each head, and adds an MLP. Rollout knows nothing of these. How much is lost that way, only a measurement can tell; it follows [below](#sec-look-delete). First the look of it:

# %% {"tags": ["hide-input"], "mystnb": {"figure": {"name": "fig-look-rollout", "caption": "Rollout from cls to the 16 patches through all four layers, for the trained and for the random network. Each map has its own scale."}, "image": {"alt": "Three rows of six. Above, pictures of clothes. In the middle and below, coarse maps of four by four squares; in the middle row the bright squares differ from picture to picture, below they hardly do."}}}
figure, axes = plt.subplots(3, 6, figsize=(7, 3.6))
for r, net in ((1, model), (2, start)):
    with record_attention(net) as maps, torch.no_grad():
        net(clothes.normalize(six))
    way = rollout(maps)[:, 0, 1:].reshape(6, 4, 4)
    for n in range(6):
        axes[r, n].imshow(way[n], cmap="viridis")
        plots.draw_image(axes[0, n], six[n])
for axis, name in zip(axes[:, 0], ("picture", "trained", "random")):
    axis.set_ylabel(name, rotation=0, ha="right", va="center")
for axis in axes.flat:
    axis.set(xticks=[], yticks=[])
    axis.spines[:].set_visible(False)

# %% [markdown]
# <!-- (sec-look-distance)= -->
# ## How far does a head look?
#
# A famous figure of the ViT paper shows, for each head, how far from itself a patch looks on average. With $d(i, j)$ the distance between the centres of two patches:
#
# $$
# \text{distance of a head} = \frac1N \sum_{i} \sum_{j} a_{ij} \, d(i, j)
# $$ <!-- (eq-look-distance) -->
#
# Before we measure: what *can* come out? Three heads made by hand, on the 4 × 4 grid of our model. One looks at itself, one at its left neighbour (in the first column, at the right one), and one at all patches alike.

# %%
places = torch.cartesian_prod(torch.arange(4), torch.arange(4))
apart = torch.cdist(places.float(), places.float())    # (N, N)
n16 = torch.arange(16)
neighbour = torch.where(n16 % 4 > 0, n16 - 1, n16 + 1)
heads = {"itself": torch.eye(16),
         "left neighbour": torch.eye(16)[neighbour],
         "all alike": torch.full((16, 16), 1 / 16)}    # (N, N) each

# %% {"tags": ["nbval-check-output"]}
for name, A in heads.items():
    far = (A * apart).sum(1).mean()
    given = inspection.attention_distance([A[None, None]], 4, 0)
    assert torch.isclose(given[0, 0], far)
    print(f"{name:15} {far:.2f} patches")
uniform = far
seven = torch.full((1, 1, 49, 49), 1 / 49)
far = inspection.attention_distance([seven], 7, 0)
print(f"all alike on 7 x 7: {far.item():.2f} patches")

# %% [markdown]
# The third number is the one to remember. A head that has learned nothing and hears all patches alike does not have the distance 0, but about half the picture's side: "looks far" is what *nothing* looks like. A head has learned something about places if it lies off that line. **Predict:** which of the 16 trained heads are local, and in which layers? (In the paper's figure some heads of the first layers look at their neighbourhood, and in the last layers all look far. Its model has 24 layers and was trained on far more pictures.)

# %% {"tags": ["hide-input"], "mystnb": {"figure": {"name": "fig-look-distance", "caption": "Mean attention distance of the 16 heads, in pixels (a patch has 7), by layer: dots are heads, means over the test pictures whose number the next cell prints. The line is attention to all patches alike."}, "image": {"alt": "Two groups of dots at each of four layers, trained and random. All of them lie close to a horizontal line at fourteen pixels; the trained ones scatter a little more."}}}
figure, axis = plt.subplots(figsize=(6.5, 3))
distance = {}
for (name, maps), shift, marker in zip(seen.items(), (-0.1, 0.1), "os"):
    d = inspection.attention_distance(maps, 4, patch_size=7)
    distance[name] = d                                 # (layers, h)
    layer = torch.arange(1, 5)[:, None].expand_as(d) + shift
    axis.plot(layer.flatten(), d.flatten(), marker, label=name)
axis.axhline(7 * uniform, color="black", lw=1, ls=":")
axis.set(xlabel="layer", ylabel="distance (pixels)", ylim=(0, 21),
         xticks=range(1, 5))
axis.legend(loc="lower right", ncols=2);

# %%
print(f"all alike {7 * uniform:.1f} pixels; {len(images)} pictures")
for name, d in distance.items():
    print(f"{name:8} {d.min():.1f} to {d.max():.1f} pixels")
    assert (d - 7 * uniform).abs().max() < 0.25 * 7 * uniform
print("No head is local: all lie within a quarter of the line.")

# %% [markdown]
# The famous picture is **not** here. Not because we measured badly (the hand-made heads prove the measure), and not because the model is bad at its task. With 16 patches and a few minutes of training, no head had a need to become a small window. [(Raghu et al., 2021)](#raghu2021vision) report the same of large ViTs: without enough data, their first layers do not learn to look locally.
#
# <!-- (sec-look-positions)= -->
# ## The position table
#
# The next famous picture: the cosine of the angle between the position vectors of two places, for all pairs. In the paper's model each place resembles its neighbours and its own row and column. Our table has 16 places; the waves of [chapter 2](02-positions.ipynb#sec-waves), where neighbours resemble each other by construction, show what to look for.

# %% {"tags": ["hide-input"], "mystnb": {"figure": {"name": "fig-look-positions", "caption": "Cosine similarity of position vectors. Each small square of 4 × 4 belongs to one place and compares it with all 16. Left: the learned table. Middle: the table at the start of the training. Right: waves."}, "image": {"alt": "Three panels of sixteen small maps each. Left and middle look the same: one bright square in each map, at its own place, and gray speckles elsewhere. Right, every map has a smooth bright blob around its own place."}}}
from vitnb import SinCosPositions

def tiles(similarity):
    """(N, N) -> one picture of 4 x 4 maps with gaps."""
    x = F.pad(similarity.reshape(16, 4, 4), (0, 1, 0, 1),
              value=float("nan"))                      # (N, 5, 5)
    x = x.reshape(4, 4, 5, 5).permute(0, 2, 1, 3)
    return x.reshape(20, 20)[:-1, :-1]

similar = inspection.position_similarity
waves = SinCosPositions((4, 4), 64).table
compare = {"trained": similar(model.positions.table),
           "random": similar(start.positions.table),
           "waves": similar(waves, num_prefix_tokens=0)}
figure, axes = plt.subplots(1, 3, figsize=(9, 3))
for axis, (name, similarity) in zip(axes, compare.items()):
    drawn = axis.imshow(tiles(similarity), cmap="RdBu_r", vmin=-1, vmax=1)
    axis.set_title(name)
    axis.set_axis_off()
figure.colorbar(drawn, ax=axes, label="cosine", shrink=0.8);

# %%
near = (apart == 1).nonzero(as_tuple=True)
rest = (apart > 1).nonzero(as_tuple=True)
print("mean cosine with   neighbours   other places")
for name, similarity in compare.items():
    print(f"{name:15} {similarity[near].mean():13.2f}"
          f" {similarity[rest].mean():14.2f}")
moved = (model.positions.table - start.positions.table).norm()
print(f"The table moved by {moved / start.positions.table.norm():.0%} "
      "of its length.")
pairs = torch.stack([compare[k][rest] for k in ("trained", "random")])
print(f"Its similarities and the start's: correlation "
      f"{torch.corrcoef(pairs)[0, 1]:.2f}")
assert compare["trained"][near].mean() < 0.1
assert torch.corrcoef(pairs)[0, 1] > 0.8
print("No neighbours to see: the map is that of the random start.")

# %% [markdown]
# Again nothing. The table began loud (spread 1, for the reason that [chapter 2](02-positions.ipynb#sec-loud) gives) and hardly moved. Sixteen random vectors in 64 dimensions are all nearly at right angles, which makes 16 names that nobody can mix up; that they should *resemble* each other where the places are close, the task never asked.
#
# **So the positions are useless? Predict:** we exchange the vectors of the places among each other, in the trained model. What is left of its accuracy?

# %%
from copy import deepcopy

mixed = deepcopy(model)
order = torch.randperm(16, generator=torch.Generator().manual_seed(0))
with torch.no_grad():
    mixed.positions.table[:, 1:] = model.positions.table[:, 1 + order]
few, labels = test[:2000], clothes.test_labels[:2000]
whole = evaluate(model, few, labels).accuracy
lost = evaluate(mixed, few, labels).accuracy
print(f"{clothes.name}: {100 * whole:.0f} % with the table, "
      f"{100 * lost:.0f} % with its rows exchanged")
if clothes.name == "fashion_mnist":
    assert lost < whole - 0.3
    print("Invisible, and the model falls without it.")

# %% [markdown]
# What was learned about places is not in the table. It is in the matrices that read it. A picture of a parameter shows what is easy to draw, and that is not the same as what matters.
#
# <!-- (sec-look-filters)= -->
# ## The filters
#
# Each of the 64 features of a token starts as a filter of 7 × 7 pixels ([chapter 1](01-patchify.ipynb#sec-embed)). Single filters are hard to read, so the paper shows the **principal components** of all filters: patterns of which every filter is a weighted sum, ordered by how much of the whole they account for (their *energy*). The singular value decomposition gives them in one call.

# %%
def components(rows):
    """rows (M, p*p) -> patterns (p*p, p*p), shares of energy."""
    _, s, patterns = torch.linalg.svd(rows, full_matrices=False)
    return patterns, s**2 / (s**2).sum()

pixels = patchify(clothes.normalize(clothes.train_images[:3000]), 7)
pixels = pixels.flatten(0, 1)                          # (B*N, p*p)
filters = {
    "trained": model.patch_embed.proj.weight.detach().flatten(1),
    "random": start.patch_embed.proj.weight.detach().flatten(1),
    "patches": pixels - pixels.mean(0),
}                                                      # (M, p*p) each

# %% {"tags": ["hide-input"], "mystnb": {"figure": {"name": "fig-look-filters", "caption": "The first eight principal components of the 64 filters, trained and random, and of the patches of 3,000 pictures themselves. Each pattern has its own scale and may as well be drawn with light and dark exchanged."}, "image": {"alt": "Three rows of eight patterns of seven by seven pixels. Below, the patches' patterns are smooth: even, left to right, top to bottom, then finer waves. Above, those of the trained filters are broad bands and blobs with some noise. In the middle, those of the random filters are noise."}}}
figure, axes = plt.subplots(3, 8, figsize=(8, 3.4))
for row, (name, rows) in zip(axes, filters.items()):
    patterns, _ = components(rows)
    for axis, pattern in zip(row, patterns):
        top = pattern.abs().max()
        axis.imshow(pattern.reshape(7, 7), vmin=-top, vmax=top)
        axis.set(xticks=[], yticks=[])
        axis.spines[:].set_visible(False)
    row[0].set_ylabel(name, rotation=0, ha="right", va="center")

# %%
print("share of the energy in the first 4, 8, 16 of 49 components")
share = {}
for name, rows in filters.items():
    _, energy = components(rows)
    share[name] = energy[:4].sum().item()
    sums = [energy[:k].sum() for k in (4, 8, 16)]
    print(f"{name:8}", *(f"{100 * v:5.0f} %" for v in sums))
assert share["random"] < share["trained"] < share["patches"]
print("Between noise and the patches' own patterns: learned, in part.")

# %% [markdown]
# This one can be seen: the trained components are smoother than those of the random network. It is also less than it seems. The lower row was computed without any network: bands and waves are what *patches of pictures* are made of, so smooth filters say that the network has met pictures. And without the middle row we would have no idea that four of 49 random components hold their share of the energy as well: the largest of many random things is always larger than the rest.
#
# <!-- (sec-look-delete)= -->
# ## Delete a patch, watch the answer
#
# All so far was looking. The other way is to *do* something: take a patch away, and see by how much the logit of the model's answer moves. This is **occlusion** [(Zeiler and Fergus, 2014)](#zeiler2014visualizing). It asks for the effect itself, and costs one forward pass for each patch.
#
# How does one take a patch away? Paint it black, as the background of these pictures is; paint it in the mean gray of all pictures; or, what only a Transformer can do, **take its token out** before the first block and let it run with one token less. By hand, for patch 5 of one picture:

# %%
one = test[:1]                                         # (1, C, H, W)
with torch.no_grad():
    logits = model(one)
    said = logits.argmax(1)                            # (B,)
    tokens = model.embed(one)                          # (1, 1 + N, D)
    x = torch.cat([tokens[:, :6], tokens[:, 7:]], 1)   # (1, N, D)
    for block in model.blocks:
        x = block(x)
    without = model.forward_head(model.norm(x))        # (1, K)
drop = (logits - without)[0, said]
print(f"logit of {clothes.classes[said]}: "
      f"{logits[0, said].item():.2f}, without patch 5 "
      f"{without[0, said].item():.2f}")
given = inspection.token_removal(model, one, said)     # (1, N)
assert torch.isclose(given[0, 5], drop[0], atol=1e-4)
print("vitnb's token_removal says the same.")

# %% {"tags": ["hide-input"], "mystnb": {"figure": {"name": "fig-look-delete", "caption": "By how much the logit of the trained network's answer moves if a patch is removed (second row), beside two maps that should tell: attention of cls in the last layer, and rollout. Each map has its own scale."}, "image": {"alt": "Four rows of six. Above, pictures of clothes; below each, three maps of four by four squares: effect of removal, last-layer attention, rollout. Bright squares of the three maps fall together in some places and not in others."}}}
x = clothes.normalize(six)
with record_attention(model) as maps, torch.no_grad():
    said = model(x).argmax(1)                          # (B,)
effect = inspection.token_removal(model, x, said).abs()
shown = {"removed": effect, "last layer": maps[-1].mean(1)[:, 0, 1:],
         "rollout": rollout(maps)[:, 0, 1:]}           # (B, N) each
figure, axes = plt.subplots(4, 6, figsize=(7, 4.7))
for n in range(6):
    plots.draw_image(axes[0, n], six[n])
    for axis, map_ in zip(axes[1:, n], shown.values()):
        axis.imshow(map_[n].reshape(4, 4), cmap="viridis")
for axis, name in zip(axes[:, 0], ("picture", *shown)):
    axis.set_ylabel(name, rotation=0, ha="right", va="center")
for axis in axes.flat:
    axis.set(xticks=[], yticks=[])
    axis.spines[:].set_visible(False)

# %% [markdown]
# Do they agree? The eye finds what it hopes for. So rank the 16 patches by each of two maps, and take the correlation of the ranks: 1 if the order is the same, 0 if the one says nothing about the other, −1 if it is reversed. Attention has no sign, so we rank by how far the logit moves, in either direction.

# %% {"tags": ["nbval-check-output"]}
a = torch.tensor([[0.1, 0.2, 0.3, 0.9]])
for b in ([1.0, 5, 6, 7], [7.0, 6, 5, 1], [2.0, 1, 6, 5]):
    agree = inspection.rank_correlation(a, torch.tensor([b]))
    print(b, f"{agree.item():+.2f}")

# %% [markdown]
# And controls. One is the random network. The other needs no network at all: the **brightness** of a patch. If a map cannot beat that, it has told us where the picture is bright.
#
# **Predict, then run.** Three signs (attention of cls in the last layer, rollout, brightness), three ways of deleting, two networks. Which sign agrees best with the effect of deletion in the trained one? And what will the random network show?

# %%
n = budget(300, 50)

def agreement(net):
    pixels, x = clothes.test_images[:n], test[:n]
    with record_attention(net) as maps, torch.no_grad():
        said = net(x).argmax(1)                        # (B,)
    signs = {"last layer": maps[-1].mean(1)[:, 0, 1:],
             "rollout": rollout(maps)[:, 0, 1:],
             "brightness": patchify(pixels.float(), 7).mean(2)}
    black = -clothes.mean[0] / clothes.std[0]
    ways = {"black": inspection.occlusion(net, x, said, black),
            "gray": inspection.occlusion(net, x, said),
            "removed": inspection.token_removal(net, x, said)}
    return signs, {way: e.abs() for way, e in ways.items()}

# %%
rank, found = inspection.rank_correlation, {}
print(f"mean rank correlation over {n} pictures (spread of pictures)")
for name, net in (("trained", model), ("random", start)):
    signs, ways = agreement(net)
    print(f"{name:12}", *(f"{way:>13}" for way in ways))
    for sign, a in signs.items():
        r = {way: rank(a, e) for way, e in ways.items()}  # (B,) each
        r = {way: v[~v.isnan()] for way, v in r.items()}
        found[name, sign] = {way: v.mean().item() for way, v in r.items()}
        print(f"  {sign:10}", *(f"{v.mean():+6.2f} ({v.std():.2f})"
                               for v in r.values()))
if clothes.name == "fashion_mnist" and budget(True, False):
    @@ASSERT@@

# %% [markdown]
# Is that our one network, or is it the rule? The same for five others, each trained for a shorter time from its own random start:

# %%
stored = data.result("looking")
runs = stored["result"]["runs"]
print("Repeat it with: ", stored["command"])
print(f"{len(runs)} seeds, {stored['config']['pictures']:,} pictures, "
      f"{stored['config']['recipe']['epochs']} epochs; looked at "
      f"{stored['config']['pictures_looked_at']} test pictures")
low, *_, high = sorted(run["test_accuracy"] for run in runs)
print(f"test accuracy {100 * low:.1f} to {100 * high:.1f} %")

# %% {"tags": ["hide-input"], "mystnb": {"figure": {"name": "fig-look-agree", "caption": "Mean rank correlation between a sign and how far the logit moves when a patch is deleted, for five seeds (dots) and three ways of deleting. Blue: trained. Orange: the same networks before training."}, "image": {"alt": "Three panels: black, gray, removed. In each, three groups of dots, for last-layer attention, rollout and brightness. @@ALT@@"}}}
signs = list(runs[0]["trained"]["agreement"])
figure, axes = plt.subplots(1, 3, figsize=(9.5, 3.3), sharey=True)
for axis, way in zip(axes, ("black", "gray", "removed")):
    for shift, name, marker in ((-0.12, "trained", "o"),
                                (0.12, "random", "s")):
        for at, sign in enumerate(signs):
            values = [r[name]["agreement"][sign][way] for r in runs]
            axis.plot([at + shift] * len(values), values, marker, ms=5,
                      color=plots.COLORS[name == "random"],
                      label=name if at == 0 else None)
    axis.axhline(0, color="black", lw=1, ls=":")
    axis.set_xticks(range(3), ["last\nlayer", "rollout", "bright-\nness"])
    axis.set_title(way)
axes[0].set_ylabel(f"rank correlation (n={len(runs)} seeds)")
axes[0].legend(loc="upper left", handletextpad=0.1);

# %%
def over_seeds(name, sign, way):
    return torch.tensor([r[name]["agreement"][sign][way] for r in runs])

last, way_back, bright = signs
@@SEEDASSERT@@

# %% [markdown]
# @@DISCUSS@@

# %% [markdown]
# <!-- (sec-look-explain)= -->
# ## Attention is not an explanation
#
# Why can a large weight mean so little? A weight says how much of a value is taken. The value may be nothing. One token that asks and two that are asked:

# %% {"tags": ["nbval-check-output"]}
weights = torch.tensor([[0.9, 0.1]])                   # (1, T)
values = torch.tensor([[0.0, 0.0], [10.0, -10.0]])     # (T, d)
print("output:          ", (weights @ values).tolist())
print("without token 0: ", (weights[:, 1:] @ values[1:]).tolist())
print("length of weight x value:",
      (weights.T * values).norm(dim=1).tolist())

# %% [markdown]
# Nine tenths of the attention go to a token that contributes nothing. (In a model that takes the token *out*, the softmax would hand its weight to the others: deleting changes more than one thing.) And the other way round: other weights may lead to the same output. Here the two tokens hand over the same value, and any map at all is as good as any other:

# %% {"tags": ["nbval-check-output"]}
values = torch.tensor([[3.0, 4.0], [3.0, 4.0]])        # (T, d)
for weights in ([0.9, 0.1], [0.5, 0.5], [0.0, 1.0]):
    print(weights, (torch.tensor(weights) @ values).tolist())

# %% [markdown]
# This debate has a history. "Attention is not explanation" is the title of [(Jain and Wallace, 2019)](#jain2019attention), who found for text classifiers, mostly recurrent ones, that attention often agrees little with gradients and that quite different weights can give nearly the same prediction. [(Serrano and Smith, 2019)](#serrano2019attention), on text as well, removed the tokens with the largest weights and found them a noisy sign of what decides. [(Wiegreffe and Pinter, 2019)](#wiegreffe2019attention) answered, "Attention is not not explanation": whether it is one depends on what one wants explained, and on the controls. None of them speaks of Vision Transformers. The control with random weights is that of [(Adebayo et al., 2018)](#adebayo2018sanity), for other kinds of maps, on pictures: some of these hardly change when the network's weights are made random, and so cannot be about what it has learned.
#
# So say what was measured. "In the last layer cls takes most from this patch" is a fact. "The model recognised the boot by its heel" is a claim about cause, and needs a deletion, a control, and more than one picture.
#
# **Two more pictures that you will not see here.** In ViTs trained *without labels* the map of cls can follow the outline of the object so well that it serves to cut it out [(Caron et al., 2021)](#caron2021emerging). And in large ViTs a few tokens grow about ten times as long as the others and spoil the maps [(Darcet et al., 2024)](#darcet2024vision). Ours is neither:

# %%
with torch.no_grad():
    last_block = model.forward_intermediates(images)["block_4"]
length = last_block[:, 1:].norm(dim=-1)                # (B, N)
times = length.max() / length.median()
print(f"longest patch token: {times:.1f} times the median")
cls_map = seen["trained"][-1].mean(1)[:, 0, 1:]        # (B, N)
ink = patchify(clothes.test_images[: len(images)].float(), 7).mean(2)
r = rank(cls_map, ink)
r = r[~r.isnan()].mean()
print(f"map of cls and brightness: rank correlation {r:.2f}")
assert times < 5 and r < 0.6
print("No outlier tokens; no outline in the map of cls.")

# %% [markdown]
# ## Exercises
#
# Replace each `...` by your code and run the cell: `check` says at once whether it is right, or what it looks like if it is not. Stuck? `check("8.1", hint=1)` and `hint=2` help; the solution is folded below each cell.

# %%
from vitnb.checks import check

# %% [markdown]
# ### Exercise 8.1: where does it come from?
#
# easy, about 10 minutes
#
# Rollout by hand. Let every token hear exactly one token, as in the three matrices above, and leave the residual path out. `heard[l][n]` is the token that token `n` hears in layer `l`, the first layer first. Whose content does `token` hold after the last layer?
#
# Find the answer for `[[1, 1, 2], [0, 2, 0], [2, 1, 2]]` and token 1 with your finger first. (These are $A_1$, $A_2$ and $A_3$ from above.)

# %% {"tags": ["nbval-check-output"]}
def source(heard, token):
    """The token whose content arrives at token."""
    ...


check("8.1", source);

# %% [markdown]
# <details>
# <summary>Solution</summary>
#
# ```python
# def source(heard, token):
#     """The token whose content arrives at token."""
#     for layer in reversed(heard):
#         token = layer[token]
#     return token
# ```
#
# Start at the end: the last layer says which token of the layer before it was read, that layer says the next one, down to the first. It is the product with the last matrix on the left, one row of it. In the example, token 1 hears itself in layer 3, then token 2 in layer 2, and that one was itself: token 2.
#
# </details>

# %% [markdown]
# ### Exercise 8.2: a head of any distance
#
# medium, about 10 minutes, weights set by hand
#
# Build the attention map (N, N) of a head, without cls, on a grid of `rows` × `cols` patches, whose mean distance is exactly `distance` patches. It may be anything from 0 to what a head has that hears all alike. Rows sum to 1, weights are not negative.

# %% {"tags": ["nbval-check-output"]}
def head_of_distance(rows, cols, distance):
    """An attention map (N, N) of this mean distance."""
    ...


check("8.2", head_of_distance);

# %% [markdown]
# <details>
# <summary>Solution</summary>
#
# ```python
# def head_of_distance(rows, cols, distance):
#     """An attention map (N, N) of this mean distance."""
#     places = torch.cartesian_prod(
#         torch.arange(rows), torch.arange(cols)
#     ).float()
#     N = rows * cols
#     even = torch.full((N, N), 1 / N)
#     most = (even * torch.cdist(places, places)).sum(1).mean()
#     share = distance / most
#     return share * even + (1 - share) * torch.eye(N)
# ```
#
# The distance is a mean, so it mixes as the maps do: a share of "all alike" and the rest of "itself". On a 4 × 4 grid the distance 1 is half of each; the left neighbour has it too. One number for a head cannot tell a window from a mixture.
#
# </details>

# %% [markdown]
# ### Exercise 8.3: a map that PyTorch does not show
#
# medium, about 10 minutes
#
# torchvision's ViTs use `nn.MultiheadAttention`, and in their blocks it returns no weights. `layer` is such a module (made with `batch_first=True`), `x` are its input tokens (B, T, D). Return the maps of all heads, (B, h, T, T). It keeps the three matrices in one: `layer.in_proj_weight` is (3·D, D), queries first, then keys, then values, and `layer.in_proj_bias` goes with it.

# %% {"tags": ["nbval-check-output"]}
def hidden_maps(layer, x):
    """The attention maps (B, h, T, T) of x in layer."""
    ...


check("8.3", hidden_maps);

# %% [markdown]
# <details>
# <summary>Solution</summary>
#
# ```python
# def hidden_maps(layer, x):
#     """The attention maps (B, h, T, T) of x in layer."""
#     B, T, D = x.shape
#     h = layer.num_heads
#     qkv = F.linear(x, layer.in_proj_weight, layer.in_proj_bias)
#     qkv = qkv.reshape(B, T, 3, h, D // h)
#     q, k, v = qkv.permute(2, 0, 3, 1, 4)  # (B, h, T, D/h)
#     scores = q @ k.transpose(-2, -1) / (D // h) ** 0.5
#     return scores.softmax(dim=-1)  # (B, h, T, T)
# ```
#
# Weights and input are enough, for any layer of any library; that is why a map is never really lost. If you may call the layer yourself, `need_weights=True, average_attn_weights=False` gives the same.
#
# </details>

# %% [markdown]
# ### Exercise 8.4: the map and the output
#
# medium, about 10 minutes, a prediction
#
# Someone changes one attention layer of a ViT. Does its map change? Does its output change, what the layer adds to the stream? Put a pair for each, `(map, output)`, with `True` where something changes.
#
# - `double queries`: query weights and their biases times 2
# - `double queries, halve keys`: and the keys' weights and biases divided by 2
# - `double values`: value weights and their biases times 2
# - `shift keys`: a fixed vector is added to the bias of the keys
# - `shift queries`: a fixed vector is added to the bias of the queries
# - `swap two heads in proj`: the columns of the output projection that read head 1 and head 2 are exchanged

# %% {"tags": ["nbval-check-output"]}
def changes(what):
    """(does the map change, does the output change)"""
    return {
        "double queries": ...,
        "double queries, halve keys": ...,
        "double values": ...,
        "shift keys": ...,
        "shift queries": ...,
        "swap two heads in proj": ...,
    }[what]


check("8.4", changes);

# %% [markdown]
# <details>
# <summary>Solution</summary>
#
# ```python
# def changes(what):
#     """(does the map change, does the output change)"""
#     return {
#         "double queries": (True, True),
#         "double queries, halve keys": (False, False),
#         "double values": (False, True),
#         "shift keys": (False, False),
#         "shift queries": (True, True),
#         "swap two heads in proj": (False, True),
#     }[what]
# ```
#
# Two of them change the output under a map that stands still: whoever looks only at maps does not see values and projection at all. `shift keys` is the surprise. It adds the same number, $q \cdot s$, to all scores of a row, and a softmax does not notice; the bias of the keys is a parameter without any effect. Shifting the queries adds $s \cdot k_j$, which differs from column to column.
#
# </details>

# %% [markdown]
# ### Exercise 8.5: is it a rollout?
#
# bug hunt, about 15 minutes
#
# Programs for attention rollout are copied a lot, and their bugs with them: every one of them paints a map. You get a `function(maps)` that takes a list of (B, h, T, T), the first layer first, and returns (B, T, T). Say `True` if it is rollout as in this chapter, `False` if not. Your test is tried on four right ones and ten wrong ones.

# %% {"tags": ["nbval-check-output"]}
def is_rollout(function):
    """True if function is attention rollout."""
    ...


check("8.5", is_rollout);

# %% [markdown]
# <details>
# <summary>Solution</summary>
#
# ```python
# def is_rollout(function):
#     """True if function is attention rollout."""
#     maps = [torch.randn(2, 3, 5, 5).softmax(-1) for _ in range(3)]
#     tokens = x = torch.randn(2, 5, 4)  # (B, T, D)
#     for weights in maps:
#         x = x / 2 + weights.mean(1) @ x / 2  # (B, T, D)
#     return torch.allclose(function(maps) @ tokens, x, atol=1e-4)
# ```
#
# Not a second rollout to compare with, but what rollout is *for*: the layers themselves, run on tokens. Identity in, identity out is a good test and too weak alone, because identities commute: every order passes it, and so do heads and pictures that were mixed up. One of the right four divides by `step.sum(-1)` without `keepdim`, that is, down the columns. Here every row sums to 2 and nothing happens; in programs that first throw the smallest weights away, rows differ, and the same line is a bug.
#
# </details>

# %% [markdown]
# ## What to remember
#
# 1. A fused kernel hides the map, and weights and input bring it back: softmax, times values, equals the kernel's output.
# 2. Beside every picture of a trained network belongs the same picture of a random one, and beside every map the dullest sign that could do as well.
# 3. In a small ViT one sees selective heads and smoother filters. One sees no local heads, no neighbours in the position table, no outline in the map of cls; and the invisible table carries the accuracy.
# 4. Attention says what is read. What the answer depends on, a deletion says, and even that depends on how one deletes.
#
# ## Sources
#
# - Filters, position similarity, attention distance: figure 7 and appendix D.7 of [(Dosovitskiy et al., 2021)](#dosovitskiy2021image). Local heads and data: [(Raghu et al., 2021)](#raghu2021vision).
# - Rollout: [(Abnar and Zuidema, 2020)](#abnar2020quantifying), on text; its numbers there are about language models. Occlusion: [(Zeiler and Fergus, 2014)](#zeiler2014visualizing).
# - What attention explains: [(Jain and Wallace, 2019)](#jain2019attention), [(Serrano and Smith, 2019)](#serrano2019attention), [(Wiegreffe and Pinter, 2019)](#wiegreffe2019attention); random weights as a control: [(Adebayo et al., 2018)](#adebayo2018sanity).
# - Maps that do follow the object, and tokens that spoil maps: [(Caron et al., 2021)](#caron2021emerging), [(Darcet et al., 2024)](#darcet2024vision).
