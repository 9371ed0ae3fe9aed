# %% [markdown]
# # From many tokens to one answer
#
# A picture goes in as tokens, and the blocks give back as many vectors as they got. A class is one word. Which of the vectors do we read, and how did the answer get there?
#
# | | |
# | --- | --- |
# | **You will be able to** | say what the cls token is and what it is not; write cls, mean and attention pooling and prove what each of them reads; find a cls token in the wrong place; compare the three fairly |
# | **Time** | 55 minutes, 35 of them for the exercises |
# | **Compute** | under a minute on two CPU cores |
# | **You need** | [tokens](01-patchify.ipynb), [positions](02-positions.ipynb), [attention](03-attention.ipynb) and [blocks](04-pre-norm-post-norm.ipynb) |
# | **What people get wrong** | "token 0 is the first patch", "the cls token is projected from pixels", "the model learns what the patches say after the last block", "`repeat` stops the gradient", "the mean does not work" |

# %%
import copy

import torch
from matplotlib import pyplot as plt
from torch import nn
from torch.nn import functional as F

import vitnb
from vitnb import ViT, ViTConfig, data, plots, record_attention
from vitnb.training import Recipe, budget, fit

plots.use_style()
_ = torch.manual_seed(0)

# %% [markdown]
# <!-- (sec-pool-three)= -->
# ## Fifty tokens, one answer
#
# A picture of 28 × 28 pixels in patches of 4 × 4 makes 49 tokens. After the last block there are 49 vectors of width $D$. The **head**, a linear layer, makes $K$ logits of *one* vector, a number for each class. To make one vector of many is called **pooling**, and there are three usual ways.

# %% {"tags": ["hide-input"], "mystnb": {"figure": {"name": "fig-pool-ways", "caption": "Three ways to one vector. Left: an extra token (orange) joins the patches before the blocks, and it alone is read. Middle: all patches are averaged. Right: a learned query (green) weighs the patches after the blocks."}, "image": {"alt": "Three sketches, each with a row of squares below and above a bar named blocks. Left, one orange square stands before the blue ones, and an arrow leads from it alone to the answer. Middle, equal arrows lead from all squares to the answer. Right, a green diamond stands beside arrows of unequal width."}}}
def sketch(axis, title, cls, widths):
    for n in range(6 if cls else 5):
        x, color = n + (not cls), plots.COLORS[0 if n or not cls else 1]
        for y in (0, 2):
            axis.add_patch(plt.Rectangle((x, y), 0.8, 0.8, color=color))
        if widths[n]:
            arrow = dict(arrowstyle="-|>", lw=widths[n], color="#555555")
            axis.annotate("", (3.4, 4.3), (x + 0.4, 2.9), arrowprops=arrow)
    axis.add_patch(plt.Rectangle((0, 1.05), 5.8, 0.7, color="#dddddd"))
    axis.text(2.9, 1.4, "blocks", ha="center", va="center")
    axis.text(3.4, 4.6, "answer", ha="center", va="center")
    axis.set(xlim=(-0.2, 6), ylim=(-0.2, 4.9), title=title)
    axis.set_axis_off()

figure, axes = plt.subplots(1, 3, figsize=(8.5, 3))
sketch(axes[0], "cls token", True, [2, 0, 0, 0, 0, 0])
sketch(axes[1], "mean", False, [1] * 5)
sketch(axes[2], "attention", False, [0.5, 3.5, 1.2, 0.5, 2])
_ = axes[2].plot(0.9, 4.3, "D", color=plots.COLORS[2], markersize=10)
_ = axes[2].text(0.6, 3.6, "query", ha="center")

# %% [markdown]
# Each of them has two ends: something may happen *before* the blocks, and something is read *after* them. So each will be a small class with two methods, `prepend` and `forward`.
#
# To try them we need a whole model. The [next chapter](06-vit.ipynb) assembles it; here it is a box with names on its parts, all of them known but `pool`:

# %% {"tags": ["nbval-check-output"]}
model = ViT(ViTConfig(depth=3)).eval()   # patches of 4, D = 64
pictures = torch.randn(2, 1, 28, 28)     # (B, C, H, W)

def embed(model, images):
    x = model.pool.prepend(model.patch_embed(images))
    return model.positions(x)            # (B, T, D)

def read(model, x):
    return model.head(model.pool(model.norm(x)))   # (B, K)

x = embed(model, pictures)
for block in model.blocks:
    x = block(x)                         # (B, T, D)
assert torch.equal(read(model, x), model(pictures))
print("tokens:", tuple(x.shape), " logits:", tuple(read(model, x).shape))

# %% [markdown]
# Fifty tokens, not 49: this model has a cls token.
#
# <!-- (sec-pool-cls)= -->
# ## One learned vector
#
# The paper puts a vector $x_{\text{class}}$ in front of the patches, and reads what has become of it after $L$ blocks [(Dosovitskiy et al., 2021)](#dosovitskiy2021image):
#
# $$
# z_0 = [\, x_{\text{class}};\; x_p^1 E;\; \dots;\; x_p^N E \,] + E_{\text{pos}}, \qquad y = \mathrm{LN}(z_L^0)
# $$ <!-- (eq-pool-cls) -->
#
# In words: one vector joins the projected patches, all get positions, and the answer is row 0, normalised. In shapes: $(B, N, D) \to (B, 1 + N, D)$, then $(B, 1 + N, D) \to (B, D)$. The idea, and its name [CLS], come from a model of language [(Devlin et al., 2019)](#devlin2019bert).
#
# Read the formula again: $E$ stands behind every patch, and not behind $x_{\text{class}}$. The **cls token** is never projected from pixels. It is a parameter, like a bias: $D$ free numbers. By hand, with three of them:

# %% {"tags": ["nbval-check-output"]}
token = nn.Parameter(torch.tensor([[[7.0, 8.0, 9.0]]]))  # (1, 1, D)
patches = torch.arange(12.0).reshape(2, 2, 3)            # (B, N, D)
row = token.expand(2, -1, -1)                            # (B, 1, D)
print(torch.cat([row, patches], dim=1).detach())         # (B, 1 + N, D)

# %% [markdown]
# Two pictures, the same first row. `expand` only pretends that there are two copies: it makes a view in which one step along $B$ goes nowhere. `repeat` would write the copies down. Some say that `repeat` stops the gradient. **Guess:** which of the two gradients is larger?

# %% {"tags": ["nbval-check-output"]}
g = torch.randn(2, 1, 3)                 # what comes back to each copy
seen = [torch.autograd.grad((copies * g).sum(), token)[0]
        for copies in (token.expand(2, -1, -1), token.repeat(2, 1, 1))]
assert torch.equal(seen[0], seen[1])
assert torch.allclose(seen[0][0, 0], g.sum(dim=0)[0])
print("expand and repeat: the same gradient,")
print("the sum over the pictures of the batch.")

# %% [markdown]
# Neither. One is shorter in memory, that is all.
#
# ## The class

# %%
class ClsToken(nn.Module):
    num_prefix_tokens = 1       # places before the patches

    def __init__(self, embed_dim):
        super().__init__()
        self.token = nn.Parameter(torch.zeros(1, 1, embed_dim))

    def prepend(self, x):
        row = self.token.expand(len(x), -1, -1)   # (B, 1, D)
        return torch.cat([row, x], dim=1)         # (B, 1 + N, D)

    def forward(self, x):
        return x[:, 0]                            # (B, D)

# %% {"tags": ["nbval-check-output"]}
ours, theirs = ClsToken(64), vitnb.ClsToken(64)
nn.init.normal_(ours.token)
theirs.load_state_dict(ours.state_dict())
x = torch.randn(3, 49, 64)                        # (B, N, D)
assert torch.equal(ours.prepend(x), theirs.prepend(x))
assert torch.equal(ours(x), theirs(x))
print("The chapter's cls token is vitnb's.")

# %% [markdown]
# It starts at zero. That is no handicap: it gets a row of the position table as every token does, and gradients from the first step on.
#
# <!-- (sec-pool-parameter)= -->
# ## Where the parameter lives
#
# One of the notebooks that we learned from makes its token in `forward`. It even says `nn.Parameter`:

# %%
class MadeInForward(ClsToken):
    def __init__(self, embed_dim):
        nn.Module.__init__(self)

    def prepend(self, x):
        token = nn.Parameter(torch.randn(len(x), 1, x.shape[2]))
        return torch.cat([token, x], dim=1)       # (B, 1 + N, D)

# %% [markdown]
# Every shape is right. **Guess before you run:** the same model in `eval` mode sees the same pictures twice. Are the logits equal?

# %% {"tags": ["nbval-check-output"]}
wrong = copy.deepcopy(model)
wrong.pool = MadeInForward(64)
assert torch.equal(model(pictures), model(pictures))
assert not torch.allclose(wrong(pictures), wrong(pictures), atol=1e-3)
print("The same pictures twice, the same weights: other logits.")
names = [dict(m.named_parameters()) for m in (model, wrong)]
assert "pool.token" in names[0] and "pool.token" in model.state_dict()
assert "pool.token" not in names[1]
print("No parameter: nothing to train, nothing to save.")

# %% [markdown]
# `nn.Parameter` is only a mark on a tensor. A module finds the mark when the tensor is assigned to `self`; made in a function, it is forgotten when the function ends. And the new token is random for each picture, so the question that it asks is another one every time.
#
# The first size in that line is a bug of its own: `len(x)` tokens, one for each *place in the batch*. Registered with that shape, the token would work until the last, shorter batch:

# %% {"tags": ["nbval-check-output"]}
per_place = nn.Parameter(torch.zeros(32, 1, 64))
torch.cat([per_place, torch.randn(32, 49, 64)], dim=1)
try:
    torch.cat([per_place, torch.randn(17, 49, 64)], dim=1)
except RuntimeError:
    print("32 tokens for 17 pictures: RuntimeError.")
print("The right shape:", tuple(model.pool.token.shape))

# %% [markdown]
# <!-- (sec-pool-token0)= -->
# ## What does token 0 know?
#
# `x[:, 0]` looks like "the first patch". **What does token 0 know before the first block?** Something about the corner of the picture, something about the whole of it, or nothing?

# %% {"tags": ["nbval-check-output"]}
tokens = embed(model, pictures)                   # (B, 1 + N, D)
assert torch.equal(tokens[0, 0], tokens[1, 0])
assert not torch.allclose(tokens[0, 1], tokens[1, 1])
print("Before the first block: the same for every picture.")
after = model.blocks[0](tokens)                   # (B, 1 + N, D)
assert not torch.allclose(after[0, 0], after[1, 0])
print("One block later: another one for every picture.")

# %% [markdown]
# Nothing. It has not met a pixel. The corner of the picture is token 1. One block later token 0 differs from picture to picture, so somewhere in the block it learned something. A block has an attention and an MLP, and the MLP treats every token alone. There is one door.
#
# <!-- (sec-pool-door)= -->
# ## The only door
#
# Close it. We set the output of every attention to zero, so that the tokens can no longer see each other; positions, MLPs, norms and head stay as they are. **Predict:** how do the logits of two unlike pictures differ now? And in a model that averages its patches?

# %%
def without_attention(model):
    model = copy.deepcopy(model)
    for block in model.blocks:
        nn.init.zeros_(block.attention.proj.weight)
        nn.init.zeros_(block.attention.proj.bias)
    return model

# %% {"tags": ["nbval-check-output"]}
averaging = ViT(ViTConfig(depth=3, global_pool="mean")).eval()
a, b = without_attention(model)(pictures)         # (K,) each
assert torch.allclose(a, b, atol=1e-6)
print("cls:  the same logits, whatever the picture.")
a, b = without_attention(averaging)(pictures)
assert not torch.allclose(a, b, atol=1e-3)
print("mean: a bag of patches, which still answers.")

# %% [markdown]
# So *everything* that a cls model says about a picture has come through attention. More precisely: through one row of it. Row $i$ of the attention matrix says where token $i$ looks; token 0 reads row 0 and no other.

# %% {"mystnb": {"figure": {"name": "fig-pool-row", "caption": "Attention in the first head of the last block, for one photograph and random weights. Left: all 50 rows. Right: row 0 without its first entry, put back on the 7 × 7 grid of patches: where the cls token looks. Untrained, it looks nowhere in particular."}, "image": {"alt": "Left, a square of 50 by 50 cells with the top row framed in orange. Right, the same row folded to seven by seven cells without a visible pattern."}}}
photo = data.sample_image(28).mean(0)[None, None]  # (1, 1, H, W)
with record_attention(model) as maps:
    model(photo)
A = maps[-1][0, 0].detach()                        # (T, T)
assert torch.allclose(A.sum(dim=1), torch.ones(50))
figure, (left, right) = plt.subplots(1, 2, figsize=(7.5, 3.6))
left.imshow(A, cmap="viridis")
left.add_patch(plt.Rectangle((-0.5, -0.5), 50, 1, fill=False,
                             edgecolor=plots.COLORS[1], linewidth=2))
left.set(xlabel="looks at token", ylabel="token", title="all rows")
drawn = right.imshow(A[0, 1:].reshape(7, 7), cmap="viridis")
right.set(title="row 0: the cls token", xticks=[], yticks=[])
_ = figure.colorbar(drawn, ax=right, label="weight")

# %% [markdown]
# <!-- (sec-pool-last)= -->
# ## What is never read
#
# A cls model reads row 0 after the last block. **Predict:** we replace the *other 49* tokens there by random numbers. What happens to the logits? And if we do it one block earlier?

# %% {"tags": ["nbval-check-output"]}
def noise_in_patches(x):
    return torch.cat([x[:, :1], torch.randn_like(x[:, 1:])], dim=1)

x = embed(model, pictures)
for block in model.blocks[:-1]:
    x = block(x)                                  # before the last block
last = model.blocks[-1]
logits = read(model, last(x))
assert torch.equal(read(model, noise_in_patches(last(x))), logits)
print("49 of 50 tokens replaced after the last block: the same logits,")
moved = read(model, last(noise_in_patches(x)))
assert not torch.allclose(moved, logits, atol=1e-3)
print("before the last block: other logits.")

# %% [markdown]
# What is not read gets no gradient. Nothing ever tells the patches what to be after the last block, so in a cls model the last MLP works on 49 of 50 tokens for nobody, and "the patch features of the last layer" are a by-product. Here is the gradient that reaches each token, for a cls model and for a mean:

# %%
def gradient_by_token(model, images, labels):
    kept, x = [], embed(model, images)
    for block in model.blocks:
        x = block(x)
        x.retain_grad()
        kept.append(x)
    F.cross_entropy(read(model, x), labels).backward()
    return torch.stack([x.grad.norm(dim=2).mean(0) for x in kept])

# %% {"mystnb": {"figure": {"name": "fig-pool-grad", "caption": "The gradient that reaches each token after each of three blocks, at random weights, mean over 64 random pictures, on a logarithmic scale; white is exactly zero. In the cls model (above) the patches after the last block get none. In the mean model (below) all get the same."}, "image": {"alt": "Two maps of three rows. Above, the last row is white but for its first cell, which is bright. Below, all cells of the last row have one colour."}}}
images, labels = torch.randn(64, 1, 28, 28), torch.arange(64) % 10
models = {"cls": model, "mean": averaging}
grads = {k: gradient_by_token(m, images, labels)
         for k, m in models.items()}              # (depth, T) each
figure, axes = plt.subplots(2, 1, figsize=(7.5, 3.8))
for axis, (name, g) in zip(axes, grads.items()):
    shown = g.log10().masked_fill(g == 0, torch.nan)
    drawn = axis.imshow(shown, cmap="viridis", aspect="auto",
                        vmin=-5, vmax=-2)
    axis.set(title=name, ylabel="after block",
             yticks=range(3), yticklabels=[1, 2, 3])
axes[1].set_xlabel("token")
_ = figure.colorbar(drawn, ax=axes, label="log10 of the gradient")

# %% {"tags": ["nbval-check-output"]}
assert torch.all(grads["cls"][-1, 1:] == 0) and grads["cls"][-1, 0] > 0
assert torch.all(grads["cls"][:-1] > 0)
assert torch.all(grads["mean"] > 0)
print("cls: exactly no gradient at the patches after the last block,")
print("     some everywhere before it.  mean: some at every token.")

# %% [markdown]
# <!-- (sec-pool-bug)= -->
# ## Put last, read first
#
# Another notebook appends its token at the end and reads the answer at position 0:

# %%
class LastReadFirst(ClsToken):
    def prepend(self, x):
        row = self.token.expand(len(x), -1, -1)   # (B, 1, D)
        return torch.cat([x, row], dim=1)         # (B, N + 1, D)

# %% [markdown]
# It reads the top-left patch of the picture. **Guess:** does such a model learn? And a popular test asks of every parameter whether a gradient reaches it. Does that test find the unread token?

# %% {"tags": ["nbval-check-output"]}
wrong = copy.deepcopy(model)
wrong.pool = LastReadFirst(64)
F.cross_entropy(wrong(images), labels).backward()
assert wrong.pool.token.grad.abs().sum() > 0
print("The token that nobody reads gets a gradient.")

# %% [markdown]
# It does, because the other tokens look at it: it hangs on to the model as one more patch that is always the same. And the model learns, because *any* token can gather what it needs through its own row of attention; the experiment below says what it costs. So the shape, the training and the gradient are all content. What finds it is the question from above, asked before the first block:

# %% {"tags": ["nbval-check-output"]}
def row_0_is_no_patch(model):
    row = embed(model, torch.randn(2, 1, 28, 28))[:, 0]   # (B, D)
    return torch.equal(row[0], row[1])

assert row_0_is_no_patch(model) and not row_0_is_no_patch(wrong)
print("Row 0 must be equal for all pictures: the bug is found.")

# %% [markdown]
# <!-- (sec-pool-mean)= -->
# ## The mean
#
# Without any extra token:
#
# $$
# y = \frac{1}{N} \sum_{n=1}^{N} \mathrm{LN}(z_L^n)
# $$ <!-- (eq-pool-mean) -->

# %% {"tags": ["nbval-check-output"]}
class MeanPool(nn.Module):
    num_prefix_tokens = 0

    def prepend(self, x):
        return x                                  # (B, N, D)

    def forward(self, x):
        return x.mean(dim=1)                      # (B, D)

x = torch.randn(3, 49, 64)
assert torch.equal(MeanPool()(x), vitnb.MeanPool()(x))
print("The chapter's mean is vitnb's.")

# %% [markdown]
# Convolutional networks end so too; there it is called global average pooling. Compare with [](#sec-pool-last): here every patch is told what to be, in every block.
#
# A frequent accident on the way from one to the other: the code averages, and the cls token is still there. It is one of fifty, so nothing looks wrong. The test is again to change one thing and to say beforehand what must not move:

# %% {"tags": ["nbval-check-output"]}
class MeanWithCls(ClsToken):
    def forward(self, x):
        return x.mean(dim=1)                      # (B, D)

x = torch.randn(3, 50, 64)
other_cls = torch.cat([torch.randn(3, 1, 64), x[:, 1:]], dim=1)
right, wrong = x[:, 1:].mean(1), MeanWithCls(64)(x)
assert torch.equal(other_cls[:, 1:].mean(1), right)
assert not torch.allclose(MeanWithCls(64)(other_cls), wrong)
print("A mean of patches must not move with token 0; this one does.")

# %% [markdown]
# What does a cls token cost? **Predict** how many parameters fewer ViT-B/16 has with a mean, at width $D = 768$. (Careful: it is not 768.)

# %% {"tags": ["nbval-check-output"]}
from dataclasses import replace
from vitnb.vit import count_parameters

base = ViTConfig.vit_b_16()
with torch.device("meta"):                        # shapes, no memory
    cls = count_parameters(ViT(base))
    mean = count_parameters(ViT(replace(base, global_pool="mean")))
print(f"cls {cls:,}, mean {mean:,}, difference {cls - mean:,}")
assert cls - mean == 2 * 768
print("The token and its place in the position table: 2 D.")

# %% [markdown]
# <!-- (sec-pool-attn)= -->
# ## A learned question
#
# The mean gives the sky as much say as the dog. A cls token may choose, and takes part in every block. There is a way between: leave the patches alone until the end, then let one learned **query** look at them once [(Zhai et al., 2022)](#zhai2022scaling), [(Lee et al., 2019)](#lee2019set):
#
# $$
# y = W_o \sum_{n} a_n v_n, \qquad a = \mathrm{softmax}_n\!\left(\frac{q \cdot k_n}{\sqrt{D/h}}\right)
# $$ <!-- (eq-pool-attn) -->
#
# with keys $k_n$ and values $v_n$ made of the tokens, as in [attention](03-attention.ipynb), and one $q$ that is a parameter. By hand, with three tokens that are their own keys and values, and four questions:

# %% {"tags": ["nbval-check-output"]}
x = torch.tensor([[1.0, 0.0], [3.0, 0.0], [0.0, 4.0]])    # (N, D)
for q in ([0.0, 0.0], [1.0, 0.0], [9.0, 0.0], [0.0, 9.0]):
    a = (x @ torch.tensor(q) / 2**0.5).softmax(dim=0)     # (N,)
    shown = " ".join(f"{w:.2f}" for w in a)
    y = ", ".join(f"{v:.2f}" for v in a @ x)              # (D,)
    print(f"query {q}:  weights {shown}  ->  ({y})")

# %% [markdown]
# The zero query asks nothing and gets the mean. A long one along a feature picks the token that has most of it. Everything between is a question of length and direction, and both are learned.
#
# The class, with $h$ heads, that is $h$ questions at once:

# %%
class AttentionPool(MeanPool):
    def __init__(self, embed_dim, num_heads):
        super().__init__()
        self.shape = num_heads, embed_dim // num_heads
        self.query = nn.Parameter(0.02 * torch.randn(1, 1, embed_dim))
        self.kv = nn.Linear(embed_dim, 2 * embed_dim)
        self.proj = nn.Linear(embed_dim, embed_dim)

    def forward(self, x):
        B, N, D = x.shape
        kv = self.kv(x).reshape(B, N, 2, *self.shape)
        k, v = kv.permute(2, 0, 3, 1, 4)             # 2 x (B, h, N, D/h)
        q = self.query.reshape(1, self.shape[0], 1, -1)  # (1, h, 1, D/h)
        scores = q @ k.mT / self.shape[1] ** 0.5     # (B, h, 1, N)
        y = scores.softmax(dim=-1) @ v               # (B, h, 1, D/h)
        return self.proj(y.reshape(B, D))            # (B, D)

# %% {"tags": ["nbval-check-output"]}
ours, theirs = AttentionPool(64, 4), vitnb.AttentionPool(64, 4)
theirs.load_state_dict(ours.state_dict())
x = torch.randn(3, 49, 64)
assert torch.allclose(ours(x), theirs(x), atol=1e-5)
print("The chapter's attention pooling is vitnb's.")
nn.init.zeros_(ours.query)
v = ours.kv(x)[:, :, 64:]                            # (B, N, D)
assert torch.allclose(ours(x), ours.proj(v.mean(dim=1)), atol=1e-5)
print("With a zero query it is the mean of the values.")

# %% [markdown]
# Two relatives. **Sequence pooling** [(Hassani et al., 2021)](#hassani2021escaping) scores every token by one linear layer with one output, and averages the tokens by the softmax of the scores. That is our class with one head, and with keys and values that are the tokens themselves:

# %% {"tags": ["nbval-check-output"]}
score = nn.Linear(64, 1)
sequence = (score(x).softmax(dim=1) * x).sum(dim=1)  # (B, D)

pool, eye = vitnb.AttentionPool(64, 1), torch.eye(64)
pool.load_state_dict({
    "query": score.weight[None] * 64**0.5,           # (1, 1, D)
    "kv.weight": torch.cat([eye, eye]), "kv.bias": torch.zeros(128),
    "proj.weight": eye, "proj.bias": torch.zeros(64)})
assert torch.allclose(pool(x), sequence, atol=1e-5)
print("Sequence pooling = attention pooling with k = v = x.")

# %% [markdown]
# **The cls token** is the other. Before the first block it is the same for every picture, so its query is, too. **Predict:** what, then, is row 0 of the first attention layer? We copy that layer's weights into an attention pooling and look:

# %% {"tags": ["nbval-check-output"]}
block = model.blocks[0]
x = block.norm1(embed(model, pictures))              # (B, T, D)
qkv = block.attention.qkv
pool = vitnb.AttentionPool(64, 4)
pool.load_state_dict({
    "query": F.linear(x[:1, :1], qkv.weight[:64], qkv.bias[:64]),
    "kv.weight": qkv.weight[64:], "kv.bias": qkv.bias[64:],
    "proj.weight": block.attention.proj.weight,
    "proj.bias": block.attention.proj.bias})
assert torch.allclose(block.attention(x)[:, 0], pool(x), atol=1e-5)
print("In the first block, a cls token is attention pooling.")

# %% [markdown]
# So a cls token is attention pooling done in every block. From the second block on its query depends on what it has found before, and on the way it stands among the patches, which look back at it.

# %% [markdown]
# <!-- (sec-pool-experiment)= -->
# ## Predict, then run
#
# In the first experiments of the paper the mean "performed very poorly". Its authors looked for the reason: it was neither the missing token nor the averaging, but the learning rate, which had been chosen for the cls token. With a lower one the two were equal [(Dosovitskiy et al., 2021, appendix D.3)](#dosovitskiy2021image). Later the same group found the mean somewhat better for a ViT-S/16 on ImageNet-1k [(Beyer et al., 2022)](#beyer2022better).
#
# So a comparison at one learning rate says little. Here is one at four, for a small model and a short training on clothes: three poolings, four rates, five seeds each. **Write down before you look:** which pooling is best at its best rate? Is the order the same at all rates? And what do the cls bugs of this chapter cost?

# %%
stored = data.result("pools")
result, rates = stored["result"], stored["config"]["rates"]
seeds, recipe = len(stored["seeds"]), stored["config"]["recipe"]
print("Repeat it with:", stored["command"])
print(f"{stored['config']['pictures']:,} pictures, {recipe['epochs']} epochs,",
      f"{seeds} seeds, {stored['device']}")
print("\nTest accuracy in %, mean (lowest to highest)")
print("rate  ", *(f"{lr:>18g}" for lr in rates))
accuracy = {}
for pool, arms in result["accuracy"].items():
    accuracy[pool] = a = 100 * torch.tensor(list(arms.values()))
    print(f"{pool:6}", *(f"{v.mean():7.1f} ({v.min():.1f}-{v.max():.1f})"
                         for v in a))            # a: (rates, seeds)

# %% {"tags": ["hide-input"], "mystnb": {"figure": {"name": "fig-pool-rates", "caption": "Test accuracy by learning rate for three poolings: the mean of five seeds, and the band from the lowest to the highest."}, "image": {"alt": "ALT"}}}
figure, axis = plt.subplots(figsize=(6.5, 3.6))
for (pool, a), color in zip(accuracy.items(), (1, 0, 2)):
    plots.spread(axis, rates, a.T.tolist(), pool, plots.COLORS[color])
axis.set(xscale="log", xlabel="learning rate (peak)",
         ylabel="test accuracy (%)")
axis.set_xticks(rates, [f"{lr:g}" for lr in rates])
axis.minorticks_off()
axis.legend(loc="lower center");

# %% [markdown]
# EXPTEXT

# %%
lr = str(stored["config"]["bug_rate"])
right = 100 * torch.tensor(result["accuracy"]["cls"][lr])
print(f"At rate {lr}: cls token {right.mean():.1f} %")
for bug, values in result["bugs"].items():
    v = 100 * torch.tensor(values)
    print(f"  {bug:<17} {v.mean():.1f} %  (from {v.min():.1f} to "
          f"{v.max():.1f}),  {v.mean() - right.mean():+.1f} points")
pass

# %% [markdown]
# BUGTEXT

# %% [markdown]
# Now a small one of your own: the same model and rates, one seed, a few seconds each.

# %%
clothes = data.load("fashion_mnist")
n = 3000 if clothes.name == "fashion_mnist" else 1400
few = clothes.subset(budget(n, 500), test=budget(2000, 200))

def train(pool, lr):
    torch.manual_seed(0)
    config = ViTConfig(**stored["config"]["model"])
    if isinstance(pool, str):
        model = ViT(replace(config, global_pool=pool))
    else:
        model = ViT(config)
        model.pool = pool(config.embed_dim)
    recipe = Recipe(epochs=budget(3, 1), batch_size=50, lr=lr)
    return fit(model, few, recipe).test_accuracy[-1]

# %% [markdown]
# ## Exercises
#
# Replace each `...` by your code and run the cell: `check` says at once whether it is right, or what it looks like if it is not. Stuck? `check("5.1", hint=1)` and `hint=2` help; the solution is folded below each cell.

# %%
from vitnb.checks import check

# %% [markdown]
# ### Exercise 5.1: do the logits move?
#
# prediction, about 5 minutes
#
# We replace one token by noise, just `"before"` or just `"after"` the last block, in a model whose `pool` is `"cls"`, `"mean"` or `"attn"`. `token` is its number, counted from 0. With `attention=False` the attention in all blocks is switched off. Do the logits move? Write the rule, without running a model; the check runs one for each of the 24 cases.

# %% {"tags": ["nbval-check-output"]}
def logits_move(pool, token, place, attention):
    """True if noise in this token moves the logits."""
    ...


check("5.1", logits_move);

# %% [markdown]
# <details>
# <summary>Solution</summary>
#
# ```python
# def logits_move(pool, token, place, attention):
#     """True if noise in this token moves the logits."""
#     if pool != "cls" or token == 0:
#         return True
#     return place == "before" and attention
# ```
#
# What is read moves the answer. With a cls token that is row 0 alone, and another row gets there only if an attention is still to come. With the other two poolings token 0 is the first patch, and all rows are read.
#
# </details>

# %% [markdown]
# ### Exercise 5.2: average the patches, keep the token
#
# medium, about 8 minutes
#
# "Instead of projecting the cls token to the output, how about projecting the averaged patches?" asks a textbook [(Zhang et al., 2023)](#zhang2023dive). Write it as a pooling of its own: a learned cls token joins the patches in front, as before, and at the end exactly the patches are averaged. If the check accepts your class, the cell after it trains it.

# %% {"tags": ["nbval-check-output"]}
class PatchMean(nn.Module):
    num_prefix_tokens = 1

    def __init__(self, embed_dim):
        super().__init__()
        ...

    def prepend(self, x):       # (B, N, D) -> (B, 1 + N, D)
        ...

    def forward(self, x):       # (B, 1 + N, D) -> (B, D)
        ...


done = check("5.2", PatchMean)

# %%
if done:
    print(f"cls token:       {100 * train('cls', 3e-3):.1f} %")
    print(f"mean of patches: {100 * train(PatchMean, 3e-3):.1f} %")

# %% [markdown]
# <details>
# <summary>Solution</summary>
#
# ```python
# class PatchMean(nn.Module):
#     num_prefix_tokens = 1
#
#     def __init__(self, embed_dim):
#         super().__init__()
#         self.token = nn.Parameter(torch.zeros(1, 1, embed_dim))
#
#     def prepend(self, x):
#         row = self.token.expand(len(x), -1, -1)   # (B, 1, D)
#         return torch.cat([row, x], dim=1)         # (B, 1 + N, D)
#
#     def forward(self, x):
#         return x[:, 1:].mean(dim=1)               # (B, D)
# ```
#
# The token is not read, and it is still not idle: the patches look at it. One seed of a short training says little about which is better; run more of them before you answer the textbook.
#
# </details>

# %% [markdown]
# ### Exercise 5.3: ask for the brightest
#
# weights by hand, about 8 minutes
#
# Build a `vitnb.AttentionPool` with one head that returns the token with the most of feature 0, unchanged. In the check it leads by at least 1, and 1e-3 is exact enough. Nothing is trained: set `query` (1, 1, D), `kv` (a linear layer that gives keys, then values) and `proj`.

# %% {"tags": ["nbval-check-output"]}
def brightest(embed_dim):
    """An AttentionPool that picks the token with most of feature 0."""
    ...


check("5.3", brightest);

# %% [markdown]
# <details>
# <summary>Solution</summary>
#
# ```python
# @torch.no_grad()
# def brightest(embed_dim):
#     """An AttentionPool that picks the token with most of feature 0."""
#     pool, eye = vitnb.AttentionPool(embed_dim, 1), torch.eye(embed_dim)
#     pool.query.zero_()
#     pool.query[0, 0, 0] = 20 * embed_dim**0.5
#     pool.kv.weight.copy_(torch.cat([eye, eye]))
#     pool.kv.bias.zero_()
#     pool.proj.weight.copy_(eye)
#     pool.proj.bias.zero_()
#     return pool
# ```
#
# The score of a token is 20 times its feature 0: the root undoes the division in the softmax. A lead of 1 is then a lead of 20 in the scores, a factor $e^{20}$ in the weights.
#
# </details>

# %% [markdown]
# ### Exercise 5.4: is it a cls token?
#
# bug hunt, about 15 minutes
#
# A colleague hands you a class and says that it is a cls token. `Pool(8)` has `prepend` and `forward`; everything has the right shape, and models train with it. Write a test that returns `True` if it is right, `False` if it is not. Right means: one learned vector, the same for every picture and in every call, joins the patches, in front or at the end, and what the blocks have made of *it* is what is read. Begin with the smallest test that finds the token that is put last and read first. Then see how many others it lets through: it is tried on three right classes and nine wrong ones.

# %% {"tags": ["nbval-check-output"]}
def is_cls(Pool):
    """True if Pool(8) is a cls token for tokens of width 8."""
    pool, x = Pool(8), torch.randn(2, 5, 8)
    ...


check("5.4", is_cls);

# %% [markdown]
# <details>
# <summary>Solution</summary>
#
# ```python
# def is_cls(Pool):
#     """True if Pool(8) is a cls token for tokens of width 8."""
#     pool, x = Pool(8), torch.randn(2, 5, 8)
#     y, z = pool.prepend(x), torch.randn(2, 6, 8)
#     row = pool(y)                                # no block between
#     return (
#         y.shape == z.shape                       # joins, replaces none
#         and torch.equal(row[0], row[1])          # no picture in it
#         and torch.equal(pool.prepend(x), y)      # the same each time
#         and len(list(pool.parameters())) == 1    # learned
#         and any(torch.equal(pool(z), z[:, i]) for i in range(6))
#     )
# ```
#
# The line with `row[0]` and `row[1]` is the smallest test: what is read before any block must not depend on the picture. The last line asks whether anything is read at all; without it, a class that answers with its own token would pass all the others.
#
# </details>

# %% [markdown]
# ### Exercise 5.5: a cls token that computes the mean
#
# hard, weights by hand, about 12 minutes
#
# Can cls do what mean does? In one attention layer, exactly: set the weights of a `vitnb.MultiHeadAttention(embed_dim, 1)` so that row 0 of its output is the mean of the patches, for any number of them, and without the cls token itself. Feature 0 is a flag: 1 in the cls token, 0 in every patch. All other features are arbitrary. `qkv` is one linear layer that gives queries, keys and values, in this order, with one row of its weight for each feature of the output.

# %% {"tags": ["nbval-check-output"]}
def cls_is_mean(embed_dim):
    """A MultiHeadAttention whose row 0 is the mean of rows 1 to N."""
    ...


check("5.5", cls_is_mean);

# %% [markdown]
# <details>
# <summary>Solution</summary>
#
# ```python
# @torch.no_grad()
# def cls_is_mean(embed_dim):
#     """A MultiHeadAttention whose row 0 is the mean of rows 1 to N."""
#     D = embed_dim
#     attention = vitnb.MultiHeadAttention(D, 1)
#     for parameter in attention.parameters():
#         parameter.zero_()
#     attention.qkv.weight[0, 0] = -30 * D**0.5    # query of feature 0
#     attention.qkv.weight[D, 0] = 1               # key of feature 0
#     attention.qkv.weight[2 * D :] = torch.eye(D)  # values: the tokens
#     attention.proj.weight.copy_(torch.eye(D))
#     return attention
# ```
#
# Only the cls token has a query and a key that are not zero, and they point against each other. So in row 0 each patch gets the score 0 and the cls token gets −30, a weight of $e^{-30}$. One layer is enough for a cls token to compute the mean. The reverse does not hold: a mean cannot choose, and the blocks before it must do so.
#
# </details>

# %% [markdown]
# ## What to remember
#
# 1. The cls token is one learned vector of shape $(1, 1, D)$, the same for every picture before the first block. All that it says has come through its own row of attention.
# 2. What is not read is not taught: in a cls model the patches after the last block get no gradient at all.
# 3. Cls, mean and a learned query all work. Compare them at several learning rates, with seeds; and test what is read by changing what must not matter.
#
# ## Sources
#
# - The cls token, equations 1 and 4, and the story of the learning rate, appendix D.3: [(Dosovitskiy et al., 2021)](#dosovitskiy2021image). Its model in language: [(Devlin et al., 2019)](#devlin2019bert).
# - Attention pooling: [(Lee et al., 2019)](#lee2019set) for sets, [(Zhai et al., 2022)](#zhai2022scaling) for ViT, with an MLP behind it that we leave out. Sequence pooling: [(Hassani et al., 2021)](#hassani2021escaping).
# - Mean against cls on ImageNet-1k: [(Beyer et al., 2022)](#beyer2022better).
# - The first part of exercise 5.2 is a question of [(Zhang et al., 2023)](#zhang2023dive).
#
# **Next:** patches, positions, blocks and a pooling are all the parts that there are. [The Vision Transformer](06-vit.ipynb) puts them together and checks them against the paper, parameter for parameter.
