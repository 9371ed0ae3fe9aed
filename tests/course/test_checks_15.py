"""The exercises of chapter 15: right answers however they are written, and wrong ones that no check declares."""

import torch
from torch import nn
from torch.nn import functional as F

from tests.course.answers import WRONG, remade, right
from vitbook.exercises.chapter_15 import CHANGES, QueryValueLoRA
from vitnb import ViT, ViTConfig
from vitnb.lora import add_lora

# 15.1 -----------------------------------------------------------------------------------------------------

WRONG["15.1"] |= {
    "which layer is the linear classifier": lambda way, name: CHANGES[way, name] or "norm" in name,
    "What are its factors before the first step": lambda way, name: CHANGES[way, name] or name.endswith(".down"),
    "is the weight itself changed": lambda way, name: CHANGES[way, name] or "linear" in name,
    "where are its products": lambda way, name: CHANGES[way, name] or "positions" in name,
    "does a gradient reach the cls token": lambda way, name: CHANGES[way, name] and name != "pool.token",
    "does a gradient reach the gains": lambda way, name: CHANGES[way, name] and "ls1" not in name,
    "what is its gradient made of": lambda way, name: CHANGES[way, name] and not name.endswith(".up"),
}


def test_a_network_that_takes_the_step_agrees():
    """One step of plain gradient descent on a small network of the same parts."""
    for (way, name), changes in CHANGES.items():
        torch.manual_seed(0)
        model = ViT(ViTConfig(img_size=8, embed_dim=16, depth=2, num_heads=2, init_values=1.0))
        model = add_lora(model, rank=2) if way == "LoRA" else model
        if way == "probe":
            model.requires_grad_(False).head.requires_grad_(True)
        before = model.get_parameter(name).clone()
        F.cross_entropy(model(torch.randn(4, 1, 8, 8)), torch.arange(4)).backward()
        torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.1).step()
        assert changes != torch.equal(model.get_parameter(name), before), (way, name)


# 15.2 -----------------------------------------------------------------------------------------------------


@right("15.2")
def read_off(kernel, bias, mean, std):
    """The tokens of a black image are the bias; those of one bright pixel, less that, the kernel."""
    p = kernel.shape[-1]
    images = torch.cat([torch.zeros(1, p * p), torch.eye(p * p)]).view(-1, 1, p, p).expand(-1, 3, -1, -1)
    tokens = F.conv2d((images - mean.view(3, 1, 1)) / std.view(3, 1, 1), kernel, bias, stride=p)[:, :, 0, 0]
    return (tokens[1:] - tokens[0]).T.reshape(-1, 1, p, p), tokens[0]


WRONG["15.2"] |= {
    "by no mistake that I know": lambda kernel, bias, mean, std: (2 * kernel.sum(1, keepdim=True), bias),
    "Expected a tensor of shape": lambda kernel, bias, mean, std: (kernel[:, :2], bias),
    "Expected the pair (kernel, bias)": lambda kernel, bias, mean, std: kernel.sum(1, keepdim=True),
}


# 15.3 -----------------------------------------------------------------------------------------------------


@right("15.3")
def by_distance_of_unit_vectors(tokens, examples, labels):
    tokens, examples = (x / x.norm(dim=1, keepdim=True) for x in (tokens, examples))
    return labels[torch.cdist(tokens, examples).argmin(dim=1)]


@right("15.3")
def one_by_one(tokens, examples, labels):
    nearest = [F.cosine_similarity(token[None], examples).argmax() for token in tokens]
    return torch.stack([labels[n] for n in nearest])


WRONG["15.3"] |= {
    "tokens get another label": lambda tokens, examples, labels: labels[:1].repeat(len(tokens)),
}

# 15.4 -----------------------------------------------------------------------------------------------------


@right("15.4")
class InOneProduct(QueryValueLoRA):
    """The two changes as one product with a third of zeros."""

    def forward(self, x):
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        q = q + F.linear(F.linear(x, self.down_q), self.up_q)
        return torch.cat([q, k, v + F.linear(x, self.up_v @ self.down_v)], dim=-1)


def zeros(module, qkv, rank):
    return nn.Parameter(torch.zeros(rank, qkv.in_features))


class Instead(QueryValueLoRA):
    def forward(self, x):
        q, _, v = self.changes(x)
        return torch.cat([q, self.qkv(x).chunk(3, dim=-1)[1], v], dim=-1)


class Detached(QueryValueLoRA):
    def forward(self, x):
        q, k, v = self.changes(x)
        return self.qkv(x) + torch.cat([q, k, v.detach()], dim=-1)


WRONG["15.4"] |= {
    "are the products added to what qkv gives": Instead,
    "No gradient reaches your down_v": Detached,
    "Expected a part named qkv": remade(QueryValueLoRA, qkv=None),
    "Expected a part named up_v": remade(QueryValueLoRA, up_v=None),
    "down_q has the shape": remade(QueryValueLoRA, down_q=lambda m, qkv, rank: nn.Parameter(torch.rand(2, 2))),
    "up_q has requires_grad=False": remade(
        QueryValueLoRA, up_q=lambda m, qkv, rank: nn.Parameter(torch.zeros(qkv.in_features, rank), False)
    ),
    "qkv is trained as well": remade(QueryValueLoRA, qkv=lambda m, qkv, rank: qkv.requires_grad_(True)),
    "Which factor must begin at zero": remade(
        QueryValueLoRA, up_v=lambda m, qkv, rank: nn.Parameter(torch.rand(qkv.in_features, rank))
    ),
    "both gradients are zero": remade(QueryValueLoRA, down_v=zeros),
    "Is there a scale?": type(
        "Scaled", (QueryValueLoRA,), {"changes": lambda m, x: tuple(2 * c for c in QueryValueLoRA.changes(m, x))}
    ),
    "an nn.Module from your class": lambda qkv, rank: qkv.weight,
}
