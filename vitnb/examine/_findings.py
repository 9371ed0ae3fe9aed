"""What an examination can find, and the report that it is told in."""

import html
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field

LEVELS = ("breaks", "departs", "note")
FAMILIES = {  # in the order of the data's way
    "runs": "does it run",
    "cut": "from pixels to patches",
    "place": "positions",
    "attend": "attention",
    "wire": "norms and residual branches",
    "pool": "from tokens to one vector",
    "output": "logits",
    "register": "parameters and devices",
}
LAMPS = {"breaks": "●", "departs": "○", "note": "·"}
COLOURS = {"breaks": "#8f0018", "departs": "#6b4a00", "note": "#3d444d", "fine": "#14532d"}  # dark on light and gray
NOT_LOOKED_AT = (
    "the training loop, the data and the labels",
    "other devices than the CPU",
    "paths that this call does not take, and other sizes than the one given",
)


@dataclass(frozen=True)
class Kind:
    """What a code means, what would make it legal, what to look at first.

    strict: whether nobody would call it a choice; what is not is left out of a strict count.
    """

    level: str
    family: str
    means: str
    legal: str = ""
    look: str = ""
    strict: bool = True


KINDS = {
    # does it run
    "runs": Kind("breaks", "runs", "As called here, the model does not run.", look="the line that the error names"),
    "too large": Kind("note", "runs", "Nothing was examined: it would take minutes.", "A model of two blocks has the "
        "same bugs.", "the arguments for depth and width: build a small one"),
    "batch size": Kind("breaks", "runs", "A model must take any number of images.", look="view and reshape with a "
        "number in them, squeeze() without an axis, parameters with an axis for the batch"),
    "channels": Kind("breaks", "runs", "The model says that it takes this number of channels, and cannot.",
        look="where in_chans is read, and the sizes of the cls token and of the positions"),
    "classes": Kind("breaks", "output", "There must be one logit for each class.", look="the size of the last linear "
        "layer"),
    "random": Kind("breaks", "runs", "In eval mode the same images must give the same logits.",
        look="F.dropout without training=self.training, layers or parameters made in forward"),
    # from pixels to patches
    "blind": Kind("breaks", "cut", "The logits do not depend on the image: nothing can be learned.",
        look="how the pixels reach what the classifier reads; often attention runs over the images of a batch"),
    "no gradient": Kind("breaks", "cut", "No gradient reaches the image, so the layers before cannot learn.",
        look="torch.no_grad, detach, .data and item before this place"),
    "no backward": Kind("breaks", "cut", "Without gradients no step of training is possible.",
        look="operations in place (+=, -=, *=, relu_) on what another layer still needs"),
    "unseen pixels": Kind("breaks", "cut", "Part of the image cannot change the answer.", "A size that is no multiple "
        "of the patch.", "how patches are cut, and which tokens are used"),
    "border": Kind("departs", "cut", "The last rows or columns of the image never reach the classifier.",
        "Where that loss is accepted.", "image size and patch size: one should be a multiple of the other"),
    "cut": Kind("breaks", "cut", "A token must hold one rectangle of the image, all of it, and nothing else.",
        "Patches that overlap by design.", "reshape and view in the patch embedding: a transpose or permute must come "
        "before them; a convolution's map needs flatten(2).transpose(1, 2)"),
    "one patch": Kind("breaks", "cut", "The whole image is one patch: attention has nothing to compare.",
        look="the patch size that reaches the patch embedding"),
    "mixed before": Kind("departs", "cut", "What attention reads first are no patches, so patches, positions and "
        "read-out were not examined.", "Convolutions, a Mixer or cross-attention before it: no plain ViT.",
        "the patch embedding"),
    "overlap": Kind("note", "cut", "Patches overlap.", "A stem of several convolutions.", "the patch embedding"),
    "order": Kind("note", "cut", "Tokens are not in reading order: learned positions do not mind, computed ones do.",
        look="the axes of the patch embedding"),
    # positions
    "no positions": Kind("breaks", "place", "The model cannot tell where a patch lies: shuffled patches give the same "
        "logits.", "A model for sets.", "whether positions are added, before the first block, and differ from place to "
        "place"),
    "equal positions": Kind("breaks", "place", "Places share one position vector, so they cannot be told apart.",
        look="the shape of the table, and expand or repeat along the axis of tokens"),
    "one coordinate": Kind("breaks", "place", "The model knows the row of a patch or its column, and not both.",
        look="what is computed of a patch's number: number // columns is its row, number % columns its column"),
    "image positions": Kind("breaks", "place", "What an image gives depends on its place in the batch.",
        look="parameters and tables whose first axis is the batch: it must be 1"),
    "zero positions": Kind("note", "place", "As built, the order of patches does not matter: positions or the head "
        "begin at zero."),
    # attention
    "other images": Kind("breaks", "attend", "The logits of an image depend on the other images of its batch.",
        look="every axis that is called 0 or 1, batch_first=True, and norms that work in eval mode"),
    "over the batch": Kind("breaks", "attend", "Attention mixes images, not tokens.",
        look="nn.MultiheadAttention without batch_first=True, or a transpose too few"),
    "softmax axis": Kind("breaks", "attend", "The weights of a query must sum to 1 over the keys.", look="the dim of "
        "the softmax, that of the keys; then the product with the values: swapped letters, a transposed map"),
    "no attention": Kind("departs", "attend", "No softmax over products of tokens was seen in this pass.",
        "Another way to mix tokens, or attention of a form that is not known here.", "whether attention is called, and "
        "whether its result is used"),
    "no softmax": Kind("breaks", "attend", "The scores weigh the values as they are.", "Linear attention, or a "
        "sigmoid, by design.", "the softmax between q·k and the product with v"),
    "softmax twice": Kind("breaks", "attend", "A softmax of a softmax is nearly the same weight for all tokens.",
        look="the softmax"),
    "weights sum": Kind("breaks", "attend", "The weights that mix the values do not sum to 1.", "Attention that is "
        "changed after the softmax by design (DeepViT).", "what happens between the softmax and the product with v; a "
        "division belongs before the softmax"),
    "scale": Kind("breaks", "attend", "Scores must be q·k divided by the root of the width of one head.",
        "A learned temperature, or another scale chosen on purpose.", "the number that the scores are divided by: the "
        "root of embed_dim // num_heads", strict=False),
    "no mixing": Kind("breaks", "attend", "Scores must compare tokens with tokens: (..., T, T).",
        look="how heads are split: transpose(1, 2) before q·k, or heads are compared with heads"),
    "mask": Kind("breaks", "attend", "A token cannot attend to what comes after it, as in a language model.",
        look="tril, triu, is_causal and masks"),
    "offsets": Kind("breaks", "attend", "With equal tokens, rotary and relative positions must depend on the offset of "
        "patches, and tell offsets apart.", look="which of cos and sin belongs to which pair, the sign for queries and "
        "keys, the place of the cls token, the index into the table"),
    "one axis": Kind("breaks", "attend", "What a patch knows never leaves its row, or column, before pooling.",
        look="which axis is folded into the batch for rows, and which for columns"),
    "partial mask": Kind("departs", "attend", "Some tokens cannot attend to some others.", "Windows, or a mask on "
        "purpose.", "the mask"),
    "heads split": Kind("breaks", "attend", "A row of queries, keys or values must come from one token.",
        look="how heads are split: view(B, T, h, d), and then transpose(1, 2)"),
    "heads merged": Kind("breaks", "attend", "With attention switched off a token still reaches others.",
        look="how heads are split and merged: transpose(1, 2) before reshape(B, T, D), or cat on dim=-1"),
    "same projection": Kind("breaks", "attend", "Queries, keys and values must have weights of their own.",
        "Tied on purpose.", "which linear layer makes which"),
    "different inputs": Kind("departs", "attend", "Queries, keys and values do not all read the same tokens.",
        "Cross-attention.", "what is passed as query, key and value"),
    "projected twice": Kind("departs", "attend", "Two linear layers in a row are one: nothing lies between them.",
        "Low rank by design.", "linear layers before nn.MultiheadAttention, which has its own"),
    "no projection": Kind("departs", "attend", "After the heads no linear layer mixes them.", look="the end of "
        "attention"),
    "saturated": Kind("breaks", "attend", "As built, nearly all weight lies on one token: softmax passes almost no "
        "gradient.", "Trained weights.", "the initial weights: their standard deviation and the scale of the scores"),
    # norms and residual branches
    "no skip": Kind("breaks", "wire", "There is no residual path around this branch.", look="x = x + f(norm(x))"),
    "doubled": Kind("breaks", "wire", "A branch is added to itself, where the tokens that it read belong.",
        look="the names on both sides of the +"),
    "normalise, then add": Kind("breaks", "wire", "The residual stream carries normalised tokens: x = norm(x) comes "
        "before x + f(x).", look="the name that the norm's result is given: x + f(norm(x)) keeps x", strict=False),
    "norm on the skip": Kind("breaks", "wire", "The skip carries the normalised tokens, and the branch reads the raw "
        "ones.", look="which of the two the norm is applied to", strict=False),
    "scaled skip": Kind("breaks", "wire", "The skip is made smaller in each branch: little of the tokens is left.",
        "A gate by design.", "LayerScale: it belongs to the branch, x + gamma * f(norm(x))"),
    "missing norm": Kind("breaks", "wire", "One half of the block reads tokens that no norm has touched; the other "
        "does not.", look="the norm before this half"),
    "post-norm": Kind("departs", "wire", "The norm follows the addition, as in the first Transformer; ViT has it "
        "before the branch.", "Models work with it, with warm-up.", "norm_first"),
    "norm after the branch": Kind("departs", "wire", "The norm is applied to what the branch returns.", "As in Swin "
        "V2.", "x + norm(f(x))"),
    "no norm": Kind("departs", "wire", "No branch has a norm.", look="the norms of the blocks"),
    "shared": Kind("breaks", "wire", "One layer is used for different inputs in one pass.", "Layers shared on purpose "
        "(ALBERT).", "layers that are made once and called twice: one norm for both halves, one block in a loop",
        strict=False),
    "old skip": Kind("breaks", "wire", "The MLP is added to the tokens from before attention.", "Long skips by design "
        "(U-ViT).", "the name on the left of the second +"),
    "mlp first": Kind("departs", "wire", "The MLP comes before attention.", "ViTs work with it.", "the order in the "
        "block"),
    "parallel": Kind("departs", "wire", "The MLP does not read what attention has added.", "Both side by side on "
        "purpose (ViT-22B).", "what the MLP is called with", strict=False),
    "norm axes": Kind("breaks", "wire", "A norm of tokens must be over the features of each token.",
        look="the shape given to LayerNorm, the axes of mean and var"),
    "norm formula": Kind("breaks", "wire", "A norm must divide what is left without the mean by its standard "
        "deviation.", look="the norm's formula"),
    "other norm": Kind("departs", "wire", "The norm is no LayerNorm.", "RMSNorm, BatchNorm by design.", "the norms"),
    "no activation": Kind("breaks", "wire", "The MLP has no non-linearity: its two linear layers are one.",
        look="the MLP's activation"),
    "activation": Kind("departs", "wire", "The MLP's activation is not GELU.", "ViTs work with it.", "the MLP"),
    "activation at the end": Kind("departs", "wire", "The MLP ends in an activation, so its branch cannot add negative "
        "numbers freely.", look="the last layers of the MLP"),
    "no last norm": Kind("departs", "wire", "No norm stands between the last block and the classifier.",
        "Post-norm needs none.", "the norm after the blocks", strict=False),
    # from tokens to one vector
    "reads a patch": Kind("breaks", "pool", "The classifier reads one token, and it is a patch, not the cls token.",
        look="the order of torch.cat and the index that is read"),
    "same token": Kind("breaks", "pool", "Two classifiers should read two tokens, cls and distillation.",
        look="the indices of the tokens"),
    "leaves out patches": Kind("breaks", "pool", "Some patches never reach the classifier.", "Tokens pruned by design.",
        "the slice of tokens that is pooled: [:, 1:] only leaves out a cls token where there is one"),
    "fixed cls": Kind("departs", "pool", "The token that stands beside the patches is not learned.",
        look="where the cls token is made: it should be an nn.Parameter, not a buffer or a plain tensor"),
    "flattened": Kind("departs", "pool", "The classifier has weights for each token.", "ViTs work with it, at one "
        "image size.", "the head"),
    "over features": Kind("breaks", "pool", "The mean is taken over the features of each token, not over the tokens.",
        look="the axis of the mean: 1 for (B, T, D)"),
    # logits
    "probabilities": Kind("breaks", "output", "The outputs are probabilities; CrossEntropyLoss takes logits and would "
        "apply a second softmax.", "A model that is not trained with CrossEntropyLoss.", "the last line of forward"),
    "log-probabilities": Kind("note", "output", "The outputs are log-probabilities: right for NLLLoss, harmless for "
        "CrossEntropyLoss.", look="the last line of forward"),
    "confined": Kind("breaks", "output", "Logits must be free to take any value.", "A loss made for that range.",
        "an activation after the last linear layer"),
    "first loss": Kind("note", "output", "A fresh model's loss should be near ln K.", look="the initial weights"),
    # parameters and devices
    "unregistered": Kind("breaks", "register", "Weights that take part are no parameters of the model: no optimizer "
        "will train them.", look="plain lists of modules (nn.ModuleList), tensors without nn.Parameter, layers made in "
        "forward"),
    "dead": Kind("breaks", "register", "Parameters take part in the pass, and no gradient reaches them.",
        look="what stands above, if anything; then what is computed and not used, detach, torch.no_grad, zeros times "
        "zeros"),
    "symmetric": Kind("breaks", "register", "Units of a layer that begin with the same weights stay the same for ever.",
        look="the initialisation: random numbers, not one constant"),
    "norm gains": Kind("breaks", "register", "The gains of the norms begin at random around 0; they should begin at 1.",
        look="an initialisation that draws every weight, those of the norms, too"),
    "dead rows": Kind("note", "register", "Rows of a table are never used: it is too long, or its tokens reach "
        "nothing, for a reason that may stand above.", "A table made for longer inputs.", "its length"),
    "forgotten": Kind("breaks", "register", "A layer is made like its neighbours, and never used.",
        look="the names and indices of the layers that are called"),
    "mean with cls": Kind("note", "pool", "The cls token, or a register, is pooled with the patches."),
    "dropped": Kind("breaks", "output", "In training mode most of what a layer returns is dropped.",
        look="the number given to dropout: it is the share that is dropped, not kept; in stochastic depth, the "
        "comparison with random numbers"),
    "dropped skip": Kind("breaks", "wire", "In training mode the skip is dropped together with the branch.",
        look="x + dropout(f(norm(x)))"),
    "left over": Kind("breaks", "runs", "A pass in training mode changes what comes after it, and nothing that is "
        "stored.", look="masks and numbers that are kept as attributes"),
    "unused": Kind("note", "register", "Modules with parameters are not used by this call.", "Another mode, such as "
        "pretraining."),
    "frozen": Kind("note", "register", "Parameters do not learn.", "Computed positions, or fine-tuning."),
    "frozen weights": Kind("departs", "register", "Weights of layers do not learn (requires_grad is False).",
        "Fine-tuning.", "requires_grad_ and requires_grad = False"),
    "left behind": Kind("breaks", "register", "A tensor stays where it is when the model moves to another device.",
        look="tensors kept as attributes: register_buffer; tensors made in forward: device=x.device"),
    "lost on a device": Kind("breaks", "register", "nn.Parameter(…).to(device) is a parameter on the CPU and none on a "
        "GPU.", look="call .to on the model, or inside nn.Parameter(…)"),
    "not stored": Kind("note", "register", "Tensors are not in state_dict: random ones are others in a model that is "
        "loaded again.", "Constants that are computed.", "nn.Parameter, or register_buffer"),
}  # fmt: skip


@dataclass(frozen=True)
class Finding:
    """One thing found: what was measured (says, number), what it means, what would make it legal, where to look."""

    code: str
    level: str
    family: str
    says: str
    number: float | None
    means: str
    legal: str
    look: str

    @property
    def strict(self) -> bool:
        """Whether it counts where only what nobody would call a choice is counted."""
        return self.level == "breaks" and KINDS[self.code].strict


def told(error: Exception) -> str:
    """An error's type, and the first line of its text."""
    text = str(error).strip().split("\n")[0]
    return f"{type(error).__name__}: {text[:160]}"


def finding(code: str, says: str, number: float | None = None, level: str | None = None) -> Finding:
    kind = KINDS[code]
    return Finding(code, level or kind.level, kind.family, says, number, kind.means, kind.legal, kind.look)


def named(code: str, says: str, names: Sequence, level: str | None = None) -> Finding:
    """A finding of several things: what is said has {} for their number, and the first three follow."""
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return finding(code, f"{says.format(len(names))}: {', '.join(map(str, names[:3]))}{more}.", len(names), level)


@dataclass(frozen=True)
class Report:
    """What an examination found, in the order of the data's way; print it, or show it in a notebook."""

    findings: tuple[Finding, ...]
    skipped: dict[str, str] = field(default_factory=dict)  # a test: why it was not made
    tests: int = 0
    allowed: tuple[str, ...] = ()

    def at(self, level: str) -> list[Finding]:
        return [found for found in self.findings if found.level == level]

    @property
    def exit_status(self) -> int:
        """1 if something breaks what every ViT must have, else 0."""
        return int(bool(self.at("breaks")))

    @property
    def verdict(self) -> str:
        breaks, departs = len(self.at("breaks")), len(self.at("departs"))
        if not breaks:
            meant = "one departure from the paper: is it meant?"
            if departs > 1:
                meant = f"{departs} departures from the paper: are they meant?"
            return "Nothing breaks what every ViT must have" + (f"; {meant}" if departs else ".")
        return f"{breaks} finding{'s' * (breaks > 1)} to fix. Fix the first, then run again: faults hide each other."

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        yield self.verdict
        for found in self.findings:
            yield f"\n{LAMPS[found.level]} {found.level}: {found.code} ({FAMILIES[found.family]})"
            yield f"   {found.says}"
            yield f"   {found.means}" + (f" Legal: {found.legal}" if found.legal else "")
            if found.look:
                yield f"   Look at {found.look}."
        if self.skipped:
            yield "\nNot tested: " + "; ".join(f"{name} ({why})" for name, why in self.skipped.items()) + "."
        yield "\nNot looked at: " + "; ".join(NOT_LOOKED_AT) + "."

    def _repr_html_(self) -> str:
        rows = "".join(self._row(family, name) for family, name in FAMILIES.items())
        table = f"<table><tr><th>level</th><th>part</th><th>what was found</th></tr>{rows}</table>"
        rest = "; ".join([*(f"{name} ({why})" for name, why in self.skipped.items()), *NOT_LOOKED_AT])
        return f"<p><b>{html.escape(self.verdict)}</b></p>{table}<p>Not looked at: {html.escape(rest)}.</p>"

    def _row(self, family: str, name: str) -> str:
        here = [found for found in self.findings if found.family == family]
        worst = min((LEVELS.index(found.level) for found in here), default=None)
        level = "fine" if worst is None else LEVELS[worst]
        lamp = f"<b style='color: {COLOURS[level]}'>● {level}</b>"
        cell = "<br>".join(
            f"<b>{html.escape(f.code)}</b> ({f.level}): {html.escape(f.says)} {html.escape(f.means)}"
            + (f" <i>Legal:</i> {html.escape(f.legal)}" if f.legal else "")
            + (f" <i>Look at</i> {html.escape(f.look)}." if f.look else "")
            for f in here
        )
        return f"<tr><td>{lamp}</td><td>{name}</td><td style='text-align: left'>{cell or '–'}</td></tr>"

    def to_json(self) -> str:
        """The report as JSON, with the version of its form."""
        told = {"version": 1, "verdict": self.verdict, **asdict(self), "not_looked_at": NOT_LOOKED_AT}
        return json.dumps(told, indent=1, ensure_ascii=False)


def in_order(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """Findings by level, then in the order of the data's way."""
    return tuple(sorted(findings, key=lambda f: (LEVELS.index(f.level), [*FAMILIES].index(f.family))))
