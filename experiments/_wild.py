"""What readings of public Vision Transformers are compared by: kinds of bugs, and intervals of shares."""

from math import sqrt

CODES = {  # a kind that a reader names: the codes of findings that name its cause
    "shared layer": {"shared"},
    "scale": {"scale"},
    "no scale": {"scale"},
    "divided after softmax": {"weights sum", "scale"},
    "over the batch": {"over the batch"},
    "patches scrambled": {"cut"},
    "map reshaped": {"cut"},
    "one patch": {"one patch"},
    "normalise then add": {"normalise, then add"},
    "norm on the skip": {"norm on the skip"},
    "doubled branch": {"doubled"},
    "missing residual": {"no skip"},
    "old skip": {"old skip"},
    "heads split": {"heads split"},
    "heads merged": {"heads merged"},
    "cls misplaced": {"reads a patch"},
    "patch read": {"reads a patch"},
    "softmax output": {"probabilities"},
    "sigmoid output": {"confined"},
    "softmax axis": {"softmax axis"},
    "classes": {"classes"},
    "no positions": {"no positions"},
    "same position everywhere": {"no positions", "equal positions"},
    "positions per image": {"image positions", "batch size"},
    "plain tensor": {"left behind", "not stored"},
    "lost on device": {"lost on a device", "left behind"},
    "unregistered": {"unregistered", "lost on a device"},
    "dead": {"dead", "forgotten"},
    "unused": {"unused", "dead", "forgotten"},
    "no gradient": {"no gradient"},
    "same projection": {"same projection"},
    "linear mlp": {"no activation"},
    "act at end": {"activation at the end"},
    "parallel": {"parallel"},
    "missing norm": {"missing norm", "no last norm", "no norm"},
    "norm after branch": {"missing norm", "norm after the branch"},
    "norm axes": {"norm axes"},
    "norm formula": {"norm formula"},
    "dropout in eval": {"random"},
    "made in forward": {"random", "unregistered"},
    "mask": {"mask", "partial mask"},
    "causal": {"mask"},
    "saturated": {"saturated"},
    "pooled over features": {"over features"},
    "leaves out patches": {"leaves out patches"},
    "channels": {"channels"},
    "batch size": {"batch size"},
    "frozen": {"frozen", "frozen weights"},
    "twice": {"projected twice"},
}


def wilson(k: int, n: int, z: float = 1.96) -> tuple[float, float]:
    """The 95 % interval of a share, k of n (Wilson 1927)."""
    share, room = k / n, z * z / n
    middle, half = share + room / 2, z * sqrt(share * (1 - share) / n + room / (4 * n))
    return (middle - half) / (1 + room), (middle + half) / (1 + room)
