"""What two checkers for any network say of the collection of faults, and of right ViTs in many hands.

Chapter 16, which calls them A and B. Both as they come, but that B's two checks that train are left
out: they may take 65,536 steps a model.
"""

from collections.abc import Callable
from contextlib import redirect_stdout
from functools import partial
from io import StringIO

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from experiments._experiment import Experiment
from experiments._models import handwritten, in_a_model, of_fault
from vitbook import faults

BATCH = 16
CHECKERS = {"A": "torchtest2 0.1.0", "B": "neural-net-checklist 1.1.0"}  # from PyPI, needed for this record alone
CHECKLIST = (  # (check, its arguments): of a model, or of a function that builds one
    ("balanced_classification_cross_entropy_loss_at_init", False, {"num_classes"}),
    ("balanced_classification_cross_entropy_init_calibrated", False, {"num_classes"}),
    ("forward_batch_independence", True, set()),
    ("non_zero_gradients", False, set()),
    ("backward_batch_independence", True, set()),
)
THIS = Experiment(
    seeds=[0], purpose="timing", data=None, checkers=CHECKERS, batch=BATCH, checklist=[row[0] for row in CHECKLIST]
)


def run() -> dict:
    wrong = {name: (of_fault(name), (1, 28, 28), 10) for name in in_a_model() if _differs(name)}
    right = {name: model[:3] for name, model in handwritten().items() if _gives_logits(*model[:3])}
    return {
        group: [{"name": name, **judged(*model)} for name, model in models.items()]
        for group, models in (("faults", wrong), ("right", right))
    }


def _differs(name: str) -> bool:
    return faults.FAULTS[name].effect != "same function"


def _gives_logits(build: Callable[[], nn.Module], image: tuple, num_classes: int) -> bool:
    """Neither checker takes a dictionary, a tuple or a named one."""
    return isinstance(build()(torch.randn(BATCH, *image)), Tensor)


def judged(build: Callable[[], nn.Module], image: tuple, num_classes: int) -> dict[str, list[str]]:
    """The names of the checks that a model fails; one that ends in an error counts as failed."""
    torch.manual_seed(0)
    batch = torch.randn(BATCH, *image), torch.arange(BATCH) % num_classes
    return {"A": _torchtest2(build, batch), "B": _checklist(build, batch, num_classes)}


def _torchtest2(build: Callable[[], nn.Module], batch: tuple[Tensor, Tensor]) -> list[str]:
    import torchtest2

    try:
        report = torchtest2.check_model(build(), *batch, loss_fn=F.cross_entropy)
    except Exception as error:
        return [type(error).__name__]
    return [check.name for check in report.failures]


def _checklist(build: Callable[[], nn.Module], batch: tuple[Tensor, Tensor], num_classes: int) -> list[str]:
    from neural_net_checklist import torch_diagnostics

    failed = []
    for name, builds, needs in CHECKLIST:
        check = partial(getattr(torch_diagnostics, f"assert_{name}"), **dict.fromkeys(needs, num_classes))
        try:
            with redirect_stdout(StringIO()):
                check(build if builds else build(), batch)
        except Exception:
            failed.append(name)
    return failed
