"""How things are wired: the two blocks, the way of the cls token, the loop of training, one or several devices."""

from vitbook import images
from vitbook.drawings._sheet import Drawing, Place, Sheet


def block() -> Drawing:
    """Draw the pre-norm block alone, with what each of its parts is for."""
    alt = (
        "The pre-norm block, read from top to bottom. The tokens run down a thick line, the residual stream. Twice a "
        "branch leaves it. On the first one, a norm brings every token to a steady size, and attention moves "
        "information between tokens; on the second, another norm does the same, and an MLP makes new features in each "
        "token. A plus sign adds the result of each branch to the stream, so what was there is kept."
    )
    return Drawing(alt, _block)


PRE = "x = x + attention(norm1(x))", "x = x + mlp(norm2(x))"
NOTES = {
    "norm": ("brings every token", "to a steady size"),
    "attention": ("moves information", "between tokens"),
    "mlp": ("makes new features", "in each token"),
    "plus": ("adds the result and", "keeps what was there"),
}


def _block(wide: bool) -> Sheet:
    sheet = Sheet(720, 464) if wide else Sheet(344, 480)
    stream, x, w, notes, size = (190, 236, 120, 392, 14) if wide else (36, 66, 88, 172, 12.5)
    sheet.stream((stream, 44), (stream, 376))
    for y, layer in ((48, "attention"), (216, "mlp")):
        _branch(sheet, stream, x, y, layer, w, True, size)
        sheet.text(x + w / 2, y - 7, "first branch" if y == 48 else "second branch", "soft", 12 if wide else 11)
        for part, at in (("norm", 37), (layer, 88), ("plus", 130)):
            if wide:
                sheet.text(notes, y + at, " ".join(NOTES[part]), size=14, anchor="start")
            else:
                sheet.lines(notes, y + at, NOTES[part], 12, anchor="start")
    sheet.arrow((stream, 372), (stream, 396), colour="token", width=6)
    sheet.text(stream, 24, "x", "token", 15, weight=700, mono=True)
    sheet.text(stream + 12, 25, "(B, T, D)", "soft", 12 if wide else 10.5, "start", mono=True)
    if wide:
        sheet.lines(stream - 20, 196, ("residual", "stream"), 14, colour="token", anchor="end", weight=700)
    for i, line in enumerate(PRE):
        sheet.text(stream - 22, 422 + 24 * i, line, size=14 if wide else 12.5, anchor="start", mono=True)
    return sheet


def blocks() -> Drawing:
    """Draw the pre-norm block and the post-norm block side by side; the thick line is the residual stream."""
    alt = (
        "Two transformer blocks side by side, read from top to bottom. Left, pre-norm: the residual stream runs "
        "through untouched; two branches leave it, norm then attention, and norm then MLP, and each is added back. "
        "Right, post-norm: attention and the MLP branch off without a norm, and after each sum a norm stands in the "
        "stream itself, so nothing passes the block unchanged."
    )
    return Drawing(alt, _blocks)


def _blocks(wide: bool) -> Sheet:
    sheet = Sheet(720 if wide else 344, 0)
    half = sheet.width / 2
    across, size = (100, 14) if wide else (36, 12.5)
    w = 120 if wide else 88
    for side, pre in enumerate((True, False)):
        left = side * half
        sheet.text(left + half / 2, 26, "pre-norm" if pre else "post-norm", weight=700, size=16 if wide else 14)
        stream, x = left + across, left + across + (46 if wide else 30)
        top, y = 70, 406
        sheet.text(stream, 50, "x", "token", 15, weight=700, mono=True)
        sheet.text(stream + 12, 51, "(B, T, D)", "soft", 12 if wide else 10.5, "start", mono=True)
        sheet.stream((stream, top - 4), (stream, y - 10))
        sheet.arrow((stream, y - 12), (stream, y + 12), colour="token", width=6)
        for start, layer in ((top, "attention"), (top + 168, "mlp")):
            _branch(sheet, stream, x, start, layer, w, pre, size)
        lines = PRE if pre else ("x = norm1(x + attention(x))", "x = norm2(x + mlp(x))")
        y += 34
        if not wide:
            lines = [p for line in lines for p in _broken(line)]
        for line in lines:
            sheet.text(left + (68 if wide else 14), y, line, size=13 if wide else 10.5, anchor="start", mono=True)
            y += 22 if wide else 17
    sheet.path(f"M{half} 20V{y - 10}", "line", 1)
    sheet.height = y + 4
    return sheet


def _broken(line: str) -> tuple[str, str]:
    """A line of code in two, for a phone."""
    at = line.index("+ ") + 2
    return line[:at], "\u00a0\u00a0" + line[at:]


def _branch(sheet: Sheet, stream: float, x: float, y: float, layer: str, w: float, pre: bool, size: float) -> None:
    """One branch of a block: it leaves the stream at y and joins it again."""
    cx = x + w / 2
    at = y + (22 if pre else 38)
    sheet.path(f"M{stream} {y + 4}H{cx}V{at}", "soft")
    if pre:
        sheet.norm(Place(x + 12, at, w - 24, 30))
        sheet.arrow((cx, at + 30), (cx, at + 48))
        at += 48
    tall = 38 if layer == "mlp" else 34
    if layer == "mlp":
        sheet.mlp(Place(x, at, w, tall))
    else:
        sheet.box(Place(x, at, w, tall), "attention", "weights", size=size)
    at += tall
    join = y + (130 if pre else 100)
    sheet.arrow((cx, at), (cx, join), (stream + 10, join))
    sheet.plus(stream, join, 10)
    if not pre:
        sheet.norm(Place(stream - 27, join + 22, 54, 26))


def cls_way() -> Drawing:
    """Draw where the cls token goes: in front of the patches, through every block, and alone into the head."""
    alt = (
        "The way of the cls token. It starts as a learned vector beside the tokens of the patches. In every block "
        "it attends to all tokens, itself included, and the patch tokens attend to each other and to it; between the "
        "blocks all tokens go straight on. After the last block the cls token alone is read, passes a norm and the "
        "head, and becomes the logits; the patch tokens are not used any more."
    )
    return Drawing(alt, _cls_way)


def _cls_way(wide: bool) -> Sheet:
    sheet = Sheet(720, 316) if wide else Sheet(344, 566)
    count, layers = 5, ("embedded", "block 1", "block 2", "block L")
    ahead, across, start, first = (146, 46, 118, 66) if wide else (104, 54, 92, 108)

    def at(layer: int, token: int) -> tuple[float, float]:
        """Where a token stands: blocks go to the right on a wide sheet, down on a phone."""
        a, b = start + layer * ahead, first + token * across
        return (a, b) if wide else (b, a)

    for layer in range(3):  # who attends to whom
        for asks in (*range(1, count), 0):
            for asked in range(count):
                if asks == asked:
                    continue
                (x0, y0), (x1, y1) = at(layer, asked), at(layer + 1, asks)
                sheet.path(f"M{x0:g} {y0:g}L{x1:g} {y1:g}", "weights" if asks == 0 else "line", 1.8 if asks == 0 else 1)
    for token in range(count):
        kind = "cls" if token == 0 else "token"
        for layer in range(3):
            (x0, y0), (x1, y1) = at(layer, token), at(layer + 1, token)
            sheet.path(
                f"M{x0:g} {y0:g}L{x1:g} {y1:g}", kind, 6 if token == 0 else 3, dash="10 6" if layer == 2 else None
            )
        for layer in range(4):
            x, y = at(layer, token)
            sheet.circle(x, y, 13 if token == 0 else 11, f"{kind}-4", kind, 2)
            if token == 0:
                sheet.diamond(x, y, 6)
    for token, name in enumerate(("cls token", "patch 0", "patch 1", "…", "patch N − 1")):
        x, y = at(0, token)
        colour, weight = ("cls", 700) if token == 0 else ("soft", 400)
        if wide:
            sheet.text(x - 22, y, name, colour, 13, "end", weight)
        else:
            sheet.lines(x, y - 34, name.split(" ", 1) if token else ["cls", "token"], 11, colour=colour, weight=weight)
    for layer, name in enumerate(layers):
        x, y = at(layer, 0)
        if wide:
            sheet.text(x, y - 34, name, "ink", 13, weight=700)
        else:
            sheet.text(14, y, name, "ink", 11.5, "start", weight=700)
    x, y = at(3, 0)
    if wide:
        sheet.arrow((x + 16, y), (x + 42, y), colour="cls", width=2.5)
        sheet.norm(Place(x + 45, y - 14, 54, 28))
        sheet.arrow((x + 72, y + 16), (x + 72, y + 46), colour="cls", width=2.5)
        sheet.box(Place(x + 42, y + 49, 60, 32), "head")
        sheet.arrow((x + 72, y + 83), (x + 72, y + 111), colour="cls", width=2.5)
        sheet.bars(x + 46, y + 158, [8, 12, 38, 6, 16])
        sheet.text(x + 72, y + 174, "logits", size=13)
        sheet.text(x + 72, y + 192, "(B, K)", "soft", 12, mono=True)
    else:
        sheet.arrow((x, y + 16), (x, y + 38), colour="cls", width=2.5)
        sheet.norm(Place(x - 28, y + 41, 56, 26))
        sheet.arrow((x + 30, y + 54), (x + 62, y + 54), colour="cls", width=2.5)
        sheet.box(Place(x + 65, y + 40, 56, 28), "head")
        sheet.arrow((x + 123, y + 54), (x + 153, y + 54), colour="cls", width=2.5)
        sheet.bars(x + 162, y + 72, [8, 12, 36, 6, 16])
        sheet.text(x + 188, y + 88, "logits (B, K)", size=11)
    keys = (("weights", 1.8, "cls attends to every token"), ("line", 1, "patches attend to all, too"))
    for i, (colour, width, words) in enumerate(keys):
        x, y = (118 + 250 * i, 292) if wide else (20, 522 + 24 * i)
        sheet.path(f"M{x} {y}h28", colour, width)
        sheet.text(x + 38, y, words, "soft", 12 if wide else 11, "start")
    return sheet


def training_loop() -> Drawing:
    """Draw one step of training as a loop: batch, logits, loss, gradients, step."""
    alt = (
        "One step of training as a loop. A batch of images goes through the model and gives logits. Cross-entropy "
        "compares the logits with the labels and gives one number, the loss. zero_grad clears the old gradients, and "
        "backward sends new ones from the loss back to every parameter of the model. The optimizer's step changes the "
        "parameters against their gradients, and the next batch comes."
    )
    return Drawing(alt, lambda wide: _loop_wide() if wide else _loop_narrow())


def _images(sheet: Sheet, x: float, y: float, side: float) -> None:
    """A small batch."""
    for i in (0, 1, 2):
        sheet.rect(sheet.image(Place(x + 8 * i, y + 8 * i, side, side), images.boot()[0]), None, "patch")


def _loop_wide() -> Sheet:
    sheet, y, low = Sheet(720, 306), 104, 240
    _images(sheet, 24, y - 48, 80)
    sheet.text(72, 30, "images", weight=700)
    sheet.arrow((130, y), (222, y), label="(B, C, H, W)")
    model = sheet.box(Place(226, y - 32, 116, 64), "model", "token", 15)
    sheet.arrow((346, y), (420, y), label="(B, K)")
    sheet.bars(432, y + 22, [8, 14, 44, 6, 18])
    sheet.text(458, 30, "logits", weight=700)
    sheet.arrow((498, y), (556, y))
    loss = sheet.box(Place(560, y - 32, 136, 64), ["cross-entropy:", "the loss"], "logits", 14)
    sheet.arrow((loss.cx, 48), (loss.cx, loss.y - 4))
    sheet.text(loss.cx, 30, "labels", weight=700)
    sheet.text(loss.cx + 10, 58, "(B,)", "soft", 12, "start", mono=True)
    back = dict(colour="mark", width=2.2)
    sheet.arrow((loss.cx, loss.bottom + 4), (loss.cx, low), (522, low), **back, dash="7 4")
    sheet.lines(loss.cx - 12, 196, ["zero_grad()", "backward()"], 12, colour="mark", anchor="end", mono=True)
    sheet.box(Place(402, low - 24, 116, 48), "gradients", "norm", 14)
    sheet.arrow((398, low), (346, low), **back)
    box = sheet.box(Place(226, low - 24, 116, 48), "optimizer", "norm", 14)
    sheet.arrow((box.cx, box.y - 4), (box.cx, model.bottom + 4), **back)
    sheet.text(box.cx + 12, 176, "step()", "mark", 12, "start", mono=True)
    sheet.text(24, low, "the next batch", "soft", 12, "start")
    sheet.arrow((222, low), (130, low))
    sheet.arrow((72, low - 14), (72, y + 58))
    return sheet


def _loop_narrow() -> Sheet:
    sheet, x, far = Sheet(344, 530), 84, 262
    _images(sheet, 38, 40, 76)
    sheet.text(x, 22, "images", weight=700)
    sheet.arrow((x, 140), (x, 176), label="(B, C, H, W)", size=11)
    model = sheet.box(Place(26, 180, 116, 56), "model", "token", 15)
    sheet.arrow((x, 240), (x, 276), label="(B, K)", size=11)
    sheet.bars(x - 26, 330, [8, 14, 44, 6, 18])
    sheet.text(x + 44, 312, "logits", size=12, anchor="start", weight=700)
    sheet.arrow((x, 340), (x, 372))
    loss = sheet.box(Place(22, 376, 124, 56), ["cross-entropy:", "the loss"], "logits", 13)
    sheet.arrow((x, 476), (x, loss.bottom + 4))
    sheet.text(x, 492, "labels", weight=700, size=12)
    sheet.text(x + 12, 458, "(B,)", "soft", 11, "start", mono=True)
    back = dict(colour="mark", width=2.2)
    sheet.arrow((loss.right + 4, loss.cy), (far, loss.cy), (far, 364), **back, dash="7 4")
    sheet.lines(206, loss.cy + 24, ["zero_grad()", "backward()"], 11, colour="mark", mono=True)
    sheet.box(Place(far - 54, 316, 108, 44), "gradients", "norm", 13)
    box = sheet.box(Place(far - 54, 216 - 30, 108, 44), "optimizer", "norm", 13)
    sheet.arrow((far, 312), (far, box.bottom + 4), **back)
    sheet.arrow((box.x - 4, model.cy), (model.right + 4, model.cy), **back)
    sheet.text((box.x + model.right) / 2, model.cy - 14, "step()", "mark", 11, mono=True)
    sheet.arrow((far, box.y - 4), (far, 106))
    sheet.lines(far, 78, ["the next", "batch"], 11.5, colour="soft")
    sheet.arrow((far - 34, 78), (146, 78))
    return sheet


def data_parallel() -> Drawing:
    """Draw one step of data parallel training: shares of a batch, copies of the model, the mean of the gradients."""
    alt = (
        "One step of data parallel training with two processes. A batch is divided into two equal shares. Each process "
        "has its own copy of the model and computes the gradient of its share. The two gradients are averaged, "
        "and both copies take the same step with the mean, so they stay equal."
    )
    return Drawing(alt, lambda wide: _processes_wide() if wide else _processes_narrow())


def _processes_wide() -> Sheet:
    sheet, middle = Sheet(720, 308), 154
    _images(sheet, 22, middle - 48, 80)
    sheet.text(70, middle - 70, "batch", weight=700)
    sheet.text(70, middle + 66, "(B, C, H, W)", "soft", 12, mono=True)
    back = dict(colour="mark", width=2.2)
    for number, y in enumerate((74, 242)):
        process = sheet.rect(Place(232, y - 56, 322, 100), None, "line", rx=8)
        sheet.text(process.right - 12, process.y + 15, f"process {number}", "soft", 12, "end")
        share = ((124, middle - 14 + 28 * number), (160, middle - 14 + 28 * number), (160, y), (250, y))
        sheet.arrow(*share)
        sheet.text(196, y - 14, "(B/2, …)", "soft", 12, mono=True)
        model = sheet.box(Place(254, y - 26, 104, 52), "model", "token", 15)
        sheet.arrow((model.right + 4, y), (426, y))
        sheet.box(Place(430, y - 22, 106, 44), "gradient", "norm", 14)
        toward = 20 if number else -20
        sheet.arrow((540, y), (628, y), (628, middle + toward))
        sheet.arrow((594, middle), (model.cx, middle), (model.cx, y + (-30 if number else 30)), **back)
    sheet.box(Place(598, middle - 16, 60, 32), "mean", "norm", 14)
    sheet.text(446, middle - 14, "the same step", "mark", 12)
    return sheet


def _processes_narrow() -> Sheet:
    sheet, middle = Sheet(344, 440), 172
    _images(sheet, middle - 38, 34, 60)
    sheet.text(middle, 18, "batch (B, C, H, W)", weight=700, size=12)
    back = dict(colour="mark", width=2.2)
    for number, x in enumerate((88, 256)):
        process = sheet.rect(Place(x - 64, 150, 128, 186), None, "line", rx=8)
        sheet.text(process.x + 6, 164, f"process {number}", "soft", 10.5, "start")
        sheet.arrow((middle - 12 + 24 * number, 116), (middle - 12 + 24 * number, 132), (x, 132), (x, 178))
        sheet.text(x - 6 if number == 0 else x + 6, 118, "(B/2, …)", "soft", 11, mono=True)
        model = sheet.box(Place(x - 44, 182, 88, 48), "model", "token", 14)
        sheet.arrow((x, model.bottom + 4), (x, 276))
        sheet.box(Place(x - 46, 280, 92, 40), "gradient", "norm", 13)
        sheet.arrow((x, 324), (x, 386), (middle + (34 if number else -34), 386))
        sheet.arrow((middle, 366), (middle, model.cy), (model.x - 4 if number else model.right + 4, model.cy), **back)
    sheet.box(Place(middle - 30, 370, 60, 32), "mean", "norm", 13)
    sheet.text(middle, 424, "the same step goes back to both", "mark", 11.5)
    return sheet
