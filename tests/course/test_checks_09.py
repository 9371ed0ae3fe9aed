"""The exercises of chapter 9: right answers however they are written, and wrong ones that no check declares."""

import numpy as np
import torch
from torch.nn import functional as F

from tests.course.answers import right, verdict, wrong
from vitbook.exercises import chapter_09
from vitnb import ViT, ViTConfig
from vitnb.training import decay_groups

# 9.1 ------------------------------------------------------------------------------------------------------


right("9.1")(lambda a, b: np.std(a.numpy() - b.numpy(), ddof=1) / np.sqrt(len(a)))


@right("9.1")
def by_squares(a, b):
    d = a - b
    return (((d - d.mean()) ** 2).sum() / (len(d) - 1) / len(d)).sqrt().item()


wrong("9.1", "Write down the differences first")(lambda a, b: 200.0)
wrong("9.1", "You are near: do not round")(lambda a, b: 1.003 * (a - b).std() / len(a) ** 0.5)
wrong("9.1", "For 5 seeds you say")(lambda a, b: a.std())
wrong("9.1", "Expected a number")(lambda a, b: a - b)

# 9.2 ------------------------------------------------------------------------------------------------------


@right("9.2")
def clears_first(model, optimizer, images, labels, order):
    losses = []
    for batch in order.split(8):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(images[batch]), labels[batch])
        loss.backward()
        optimizer.step()
        losses.append(loss)
    return losses


@right("9.2")
def clears_last_and_takes_the_logarithm(model, optimizer, images, labels, order):
    images, labels, losses = images[order], labels[order], []
    for x, y in zip(images.split(8), labels.split(8), strict=True):
        loss = F.nll_loss(model(x).softmax(1).log(), y)
        loss.backward()
        optimizer.step()
        model.zero_grad()
        losses.append(loss.item())
    return losses


wrong("9.2", "1 of 3 faults is fixed. A model that is certain")(chapter_09.epoch_with(softmax=True, labels_stay=True))
wrong("9.2", "2 of 3 faults are fixed. The parameters are the same")(chapter_09.epoch_with(cleared_late=True))
wrong("9.2", "1 of 3 faults is fixed. Even kinds that are easy")(
    chapter_09.epoch_with(labels_stay=True, cleared_late=True)
)
wrong("9.2", "Your labels are in the opposite of the given order")(
    lambda model, optimizer, images, labels, order: clears_first(
        model, optimizer, images[order], labels[order.argsort()], torch.arange(len(order))
    )
)
right("9.2")(lambda *given: torch.stack(clears_first(*given)).detach())
wrong("9.2", "still not those of a right loop")(lambda *given: clears_first(*given)[:-1])
wrong("9.2", "still not those of a right loop")(
    lambda model, optimizer, images, labels, order: clears_first(model, optimizer, images, labels, order.sort().values)
)
wrong("9.2", "Expected the list of losses, one for each batch, got a tensor")(lambda *given: clears_first(*given)[0])


def test_the_loop_with_all_three_faults_is_not_done_yet():
    assert verdict("9.2", chapter_09.epoch_with(True, True, True)) == (False, "9.2: not done yet.")


# 9.3 ------------------------------------------------------------------------------------------------------


@right("9.3")
def by_axes(model):
    decayed = [n for n, p in model.named_parameters() if p.ndim >= 2 and n not in model.no_weight_decay()]
    return decayed, [n for n, _ in model.named_parameters() if n not in decayed]


@right("9.3")
def by_name(model):
    names = {name for name, _ in model.named_parameters()}
    spared = {n for n in names if "bias" in n or "norm" in n or n.split(".")[-1] in ("table", "token", "query")}
    return names - spared, spared


@right("9.3")
def by_groups(model):
    names = {id(p): name for name, p in model.named_parameters()}
    return tuple([names[id(p)] for p in group["params"]] for group in decay_groups(model, 0.1))


def spares(*spared):
    """All that has several axes decays, but for these."""

    def answer(model):
        names = {name: p.ndim > 1 and name not in spared for name, p in model.named_parameters()}
        return [name for name in names if names[name]], [name for name in names if not names[name]]

    return answer


wrong("9.3", "You decay the cls token")(spares("positions.table"))
wrong("9.3", "You decay the query")(spares("positions.table", "pool.token"))
wrong("9.3", "is in neither list")(lambda m: (by_axes(m)[0], []))
wrong("9.3", "there more than once")(lambda m: (by_axes(m)[0], list(dict(m.named_parameters()))))
wrong("9.3", "Expected names in your lists, as in named_parameters(), got a tensor")(
    lambda m: ([p for p in m.parameters()], [])
)
wrong("9.3", "no parameter named 'cls'")(lambda m: (by_axes(m)[0], by_axes(m)[1] + ["cls"]))


def test_reference_of_the_decay_is_the_package():
    model = ViT(ViTConfig(embed_dim=16, depth=1))
    assert [set(names) for names in by_groups(model)] == [set(names) for names in by_axes(model)]


# 9.4 ------------------------------------------------------------------------------------------------------


right("9.4")(lambda: "c, a")
wrong("9.4", "5 of 6. Think again about B")(lambda: "ABC")
wrong("9.4", "5 of 6. Think again about C")(lambda: "A")
wrong("9.4", "4 of 6. Think again about E")(lambda: "ACEF")
wrong("9.4", "0 of 6. Think again about A")(lambda: "BDEF")
wrong("9.4", "only the comparisons A to F: you name G")(lambda: "ACG")
wrong("9.4", "Expected a string such as 'ACE', got a list of 2")(lambda: ["A", "C"])
