"""The exercises of chapter 9: right answers however they are written, and wrong ones that no check declares."""

import numpy as np
import torch
from torch.nn import functional as F

from tests.course.answers import RIGHT, WRONG, right, solution
from vitbook.exercises import chapter_09
from vitnb.training import decay_groups

# 9.1 ------------------------------------------------------------------------------------------------------

RIGHT["9.1"] += [
    lambda a, b: np.std(a.numpy() - b.numpy(), ddof=1) / np.sqrt(len(a)),
    lambda a, b: (a.float() - b.float()).std() / len(a) ** 0.5,
]
WRONG["9.1"] |= {
    "For 5 seeds you say 200.000. Write down the differences first": lambda a, b: 200.0,
    "You are near: do not round": lambda a, b: 1.003 * (a - b).std() / len(a) ** 0.5,
}

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


def in_order(model, optimizer, images, labels, order):
    return clears_first(model, optimizer, images, labels, order.sort().values)


RIGHT["9.2"] += [lambda *given: torch.stack(clears_first(*given)).detach()]
WRONG["9.2"] |= {
    "1 of 3 faults is fixed. A model that is certain": chapter_09.epoch_with(softmax=True, labels_stay=True),
    "2 of 3 faults are fixed. The parameters are the same": chapter_09.epoch_with(cleared_late=True),
    "1 of 3 faults is fixed. Even kinds that are easy": chapter_09.epoch_with(labels_stay=True, cleared_late=True),
    "still not those of a right loop": lambda *given: clears_first(*given)[:-1],
    "batches of 8, in the given order, each used once": in_order,
    "Expected the list of losses, one for each batch, got a tensor": lambda *given: clears_first(*given)[0],
}

# 9.3 ------------------------------------------------------------------------------------------------------


def spares(*spared):
    """All that has several axes decays, but for these."""

    def answer(model):
        names = {name: p.ndim > 1 and name not in spared for name, p in model.named_parameters()}
        return [name for name in names if names[name]], [name for name in names if not names[name]]

    return answer


def but(change):
    """The solution's two lists, changed."""
    return lambda model: change(*map(list, solution("9.3")(model)))


RIGHT["9.3"] += [chapter_09._names_of(decay_groups), but(lambda decayed, spared: [set(decayed), set(spared)])]
WRONG["9.3"] |= {
    "You decay the cls token": spares("positions.table"),
    "You decay the query": spares("positions.table", "pool.token"),
    "is in neither list": but(lambda decayed, spared: (decayed, [])),
    "there more than once": but(lambda decayed, spared: (decayed, spared + decayed)),
    "names in your lists, as in named_parameters(), got a tensor": lambda model: (list(model.parameters()), []),
    "no parameter named 'cls'": but(lambda decayed, spared: (decayed, [*spared, "cls"])),
}
