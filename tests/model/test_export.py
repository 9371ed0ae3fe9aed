"""A model that leaves: torch.export and ONNX compute what it does, for any number of images."""

import pytest
import torch

from vitnb import ViT, ViTConfig

KINDS = {
    "the book's": {},
    "post-norm, sincos, mean": dict(norm="post", pos_embed="sincos", global_pool="mean"),
    "conv stem, attention pooling": dict(stem="conv", global_pool="attn", in_chans=3),
    "LayerScale, registers": dict(init_values=0.1, reg_tokens=2, no_embed_class=True),
}
ANY = ({0: torch.export.Dim("images", min=1, max=1024)},)


def built(kind):
    torch.manual_seed(0)
    model = ViT(ViTConfig(depth=2, **KINDS[kind])).eval()
    for parameter in model.parameters():
        parameter.data.add_(0.05 * torch.randn_like(parameter))
    return model, torch.randn(3, model.config.in_chans, 28, 28)


@pytest.mark.parametrize("kind", KINDS)
def test_an_exported_model_takes_any_number_of_images(kind):
    model, images = built(kind)
    exported = torch.export.export(model, (images,), dynamic_shapes=ANY).module()
    for batch in (images[:1], images, images.repeat(5, 1, 1, 1)):
        torch.testing.assert_close(exported(batch), model(batch))


@pytest.mark.filterwarnings("ignore")  # the exporter's own
@pytest.mark.parametrize("kind", KINDS)
def test_its_onnx_file_gives_the_same_logits(kind):
    reference = pytest.importorskip("onnx.reference")
    pytest.importorskip("onnxscript")
    model, images = built(kind)
    program = torch.onnx.export(model, (images,), dynamic_shapes=ANY, dynamo=True, verbose=False).model_proto
    runner, name = reference.ReferenceEvaluator(program), program.graph.input[0].name
    for batch in (images, images[:2]):
        (logits,) = runner.run(None, {name: batch.numpy()})
        torch.testing.assert_close(torch.from_numpy(logits), model(batch).detach(), atol=1e-5, rtol=0)
