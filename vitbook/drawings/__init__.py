"""The book's drawings: one visual language, static, crisp at any size, in light and in dark.

A cell calls one function and shows what it returns; the cell's input is taken
out of the page by the tag "remove-input" (or folded by "hide-input"):

    from vitnb import drawings
    drawings.attention(q, k, v)

Each function returns a Drawing: .alt says what to see, .svg is a file that
shows anywhere. The page of the book gets it inline (pages/drawings_inline.py), so it
follows the page's theme and, on a phone, is laid out anew. A cell's metadata
may give it a number and a caption as for any figure: mystnb.figure.caption,
mystnb.figure.name.

The drawings, with what they need:

    legend()                        what each colour, edge and mark means
    whole_model(here=None)          the book's map; here="attention", or another of PARTS, says "you are here";
                                    whole_model(config=ViTConfig.vit_b_16()) has the numbers of a model
    overview()                      image -> patches -> tokens -> transformer -> answer, of the book's own network
    patch_order(image)              the four axes of a tiny image, and the order of reading with and without permute
    patch_projection(patches, E)    patches times a matrix = tokens, with every number
    patch_to_token()                image -> patch -> vector -> projection -> token
    position_heatmap(table=None)    token + position = sum, as heat maps
    two_orders(tokens, order, table, names)
                                    the same tokens in two orders: their means, with positions, after a ReLU
    attention(q, k, v, row=1)       q k^T, scaled, softmax, mix of v, with every number
    simple_attention(x, row=1)      the same with nothing learned: x x^T, softmax, mix of x
    heads()                         split D into h heads, attend, merge
    split(by_hand=False)            the right split of the heads beside the wrong one; by hand with each head's mean
    layer_norm(x, row=0)            which numbers a LayerNorm takes together, beside the bug that takes all
    block()                         the pre-norm block, and what each of its parts is for
    blocks()                        pre-norm and post-norm, the residual stream as a thick line
    cls_way()                       where the cls token goes
    windows()                       Swin's windows, their shift, the rolled image
    training_loop()                 batch, logits, loss, gradients, step
    data_parallel()                 shares of a batch, copies of the model, the mean of their gradients

The language. A kind of thing has its colour, and an edge or a mark besides:

    patch      gray, square, holds pixels     query      pink, solid edge
    token      blue, a column of features     key        ochre, dashed edge
    cls        orange, under a diamond        value      green, dash-dotted edge
    position   teal, dotted edge              weights    violet, a square of T x T
    norm       gray, a pill                   MLP        brown, a box that widens
    residual stream: a thick blue line, for tokens flow in it; logits: black bars

Arrows carry shapes in the letters of vitnb. To draw something new: a function
draw(wide) that fills a Sheet (vector, matrix, tokens, image_patches, box,
arrow, ...), 720 units wide if wide and else 344; no text below 10 units.
The boot in them is images.boot().
"""

from vitbook.drawings._sheet import Drawing, Sheet, in_page
from vitbook.drawings.attending import attention, simple_attention
from vitbook.drawings.cutting import patch_order, patch_projection
from vitbook.drawings.embedding import patch_to_token, position_heatmap
from vitbook.drawings.heads import heads, split
from vitbook.drawings.language import legend
from vitbook.drawings.map import PARTS, whole_model
from vitbook.drawings.norms import layer_norm
from vitbook.drawings.orders import two_orders
from vitbook.drawings.overview import overview
from vitbook.drawings.windows import windows
from vitbook.drawings.wiring import block, blocks, cls_way, data_parallel, training_loop

__all__ = [
    "PARTS",
    "Drawing",
    "Sheet",
    "attention",
    "block",
    "blocks",
    "cls_way",
    "data_parallel",
    "heads",
    "in_page",
    "layer_norm",
    "legend",
    "overview",
    "patch_order",
    "patch_projection",
    "patch_to_token",
    "position_heatmap",
    "simple_attention",
    "split",
    "training_loop",
    "two_orders",
    "whole_model",
    "windows",
]
