"""The questions at the end of each chapter, at what people get wrong.

To change one, edit it here and store the chapter again: python -m pages.notebooks NAME.
Each answer's feedback names in “quotes” the section that shows it.
"""

from vitbook.figures.quiz import Question, Quiz
from vitnb._validate import choice

QUIZZES = {
    "00": [
        Question(
            "You mend a bug in your model, and in five runs with five seeds the accuracy falls by several points. What "
            "do you do?",
            {
                "I take the change back: the model was better before.": (
                    "Better at the task, yes. Whether it was the model that you meant is another question. In “Why is "
                    "the wrong model ahead?” a bug leads, because it gives away where each patch was."
                ),
                "I keep the change if a test of the property that the bug broke passes now and failed before.": (
                    "That test decides whether the code is right. Then look for what the bug did for the accuracy: it "
                    "may be something that you can have without the bug, as in “Why is the wrong model ahead?”."
                ),
                "I train with more seeds until the difference goes away.": (
                    "It may well be real. Split heads are ahead with five seeds and with twenty, see “Three races”: "
                    "more seeds only make the interval of such a lead narrower."
                ),
            },
            right="I keep the change if a test of the property that the bug broke passes now and failed before.",
        ),
        Question(
            "Every tensor in your model has the right shape, and no line raises an error. Which bugs are ruled out?",
            {
                "All that exchange entries of different tokens.": (
                    "Those leave every shape as it is. “Why is the wrong model ahead?” prints two tensors of the same "
                    "shape, one with the right entries in its first head and one with wrong ones."
                ),
                "All that would keep it from learning.": (
                    "A model can learn nothing at all with right shapes, and it can learn well with a bug. See the six "
                    "models in “Every shape is right”."
                ),
                "Those alone that change how many numbers there are, or along how many axes.": (
                    "A shape is a count for each axis and no more. Which number stands where has to be asked in "
                    "another way, as in “Six tests that need no training”."
                ),
            },
            right="Those alone that change how many numbers there are, or along how many axes.",
        ),
        Question(
            "A property test passes for your model. When does that say something?",
            {
                "When you have seen the same test fail for a model in which that property is broken.": (
                    "Otherwise it may be a test that cannot fail, because of a tolerance that is too large, an input "
                    "of zeros, or a weight that starts at one. “What strong evidence looks like” has it as a rule."
                ),
                "Always, because a property holds or it does not.": (
                    "The property does, but your test may not ask for it. A test that looks at the first image only, "
                    "or at a batch of equal images, passes for many wrong models: try it in exercise 0.3, and see "
                    "“What strong evidence looks like”."
                ),
                "When the model was trained before, so that its weights are realistic.": (
                    "A property holds for any weights, so training adds nothing. What helps is the opposite of a "
                    "special start, random numbers everywhere; see “What strong evidence looks like”."
                ),
            },
            right="When you have seen the same test fail for a model in which that property is broken.",
        ),
    ],
    "01": [
        Question(
            "You halve the patch side from 16 to 8 and keep the model's width D. What becomes of the tokens?",
            {
                "There are still 16 × 16 of them, each made from fewer pixels.": (
                    "16 × 16 is the size of a patch, not the number of patches. The number depends on the image: an "
                    "image of 224 × 224 pixels has 14 × 14 patches of side 16. The formula is in “Second attempt: one "
                    "token per square”."
                ),
                "There are four times as many, and each is as wide as before.": (
                    "Twice as many patches fit along each side of the image, and D is chosen independently of the "
                    "patch side, because E projects patches of any size to width D."
                ),
                "There are four times as many, and each is a quarter as wide.": (
                    "The patches hold a quarter of the numbers, but the matrix E maps them to width D, whatever "
                    "their size. That both are 768 in ViT-B/16 is a coincidence; see “From patches to tokens”."
                ),
                "There are twice as many, and each is as wide as before.": (
                    "That counts along one side only. Rows and columns both double, so there are four times as many. "
                    "The table in “First attempt: one token per pixel” shows the same for an image of twice the side."
                ),
            },
            right="There are four times as many, and each is as wide as before.",
        ),
        Question(
            "An image is several patches wide. `images.reshape(B, N, C*p*p)` has the shape of the patches, and "
            "reshaping back restores the image exactly. What do you know about the patches in it?",
            {
                "They are right: shape and round trip leave no room for a mistake.": (
                    "A reshape always has an exact inverse, namely another reshape, so the round trip proves nothing "
                    "here. “And back again” shows both, the exact round trip and the wrong patches."
                ),
                "They are the right squares in the wrong order.": (
                    "They are no squares at all. `reshape` keeps the order of reading and only draws new borders. "
                    "Look at the first row in “By hand, on 24 pixels”: 0, 1, 2, 3 are neighbours on one line."
                ),
                "They are wrong, and a training run would show it.": (
                    "They are wrong, but a model learns from them as well. In “What if the boot moves?” one arm was "
                    "trained on such patches; compare its accuracy with that of the right ViT."
                ),
                "They are wrong, and only a comparison of their content shows it.": (
                    "Each row is a run of numbers in reading order. Shape and round trip are as they should be, and in "
                    "“What if the boot moves?” the accuracy was no help either, so compare every patch with its square "
                    "of an image whose pixels are all different."
                ),
            },
            right="They are wrong, and only a comparison of their content shows it.",
        ),
        Question(
            "The paper multiplies flattened patches by a matrix E. Its code runs a convolution whose kernel and "
            "stride are the patch side. How are the two related?",
            {
                "They are one map: reshape the weights, and both give the same tokens.": (
                    "One kernel is one column of E, and a stride as long as the kernel makes the windows the patches. "
                    "“From patches to tokens” copies the weights and finds the same tokens to 1e-5."
                ),
                "They are two models: a convolution mixes neighbouring patches.": (
                    "A convolution mixes patches only where its windows overlap. Here the stride is as long as the "
                    "kernel, so each window is exactly one patch; see “From patches to tokens”."
                ),
                "They are two models: only the convolution uses the same weights at every place.": (
                    "The matrix does so too: all patches share one E. See the equation in “From patches to tokens”, "
                    "in which E has no index n."
                ),
            },
            right="They are one map: reshape the weights, and both give the same tokens.",
        ),
    ],
    "02": [
        Question(
            "A ViT adds no positions and averages its tokens at the end. You shuffle the patches of an image. What "
            "happens?",
            {
                "The logits change, because the tokens arrive in another order.": (
                    "The order of the rows tells the model nothing: its layers treat every row alike. In “Second "
                    "attempt: a whole ViT” the logits stay the same."
                ),
                "Every token after the last block stays as it was, and so do the logits.": (
                    "That would be invariance. The blocks are equivariant: the tokens that come out are shuffled "
                    "like those that went in, and only the mean at the end makes the logits invariant. See "
                    "“Equivariant and invariant”."
                ),
                "The tokens after the last block are shuffled too, and the logits stay.": (
                    "The blocks are equivariant, so the tokens move along; the mean does not depend on their order, "
                    "so the logits are invariant."
                ),
                "The logits stay in an untrained model, and training changes that.": (
                    "Training cannot change it, because the argument never mentions the weights. In “Does the model "
                    "use its positions?” the trained models without positions lose nothing on shuffled patches."
                ),
            },
            right="The tokens after the last block are shuffled too, and the logits stay.",
        ),
        Question(
            "A position embedding is added to a token that holds the content of its patch. Can the two still be told "
            "apart afterwards?",
            {
                "Yes: the embedding can keep some of the D features free for the positions.": (
                    "D features leave a lot of room. Exercise 2.3 builds a table that every token can read exactly "
                    "while its content stays untouched."
                ),
                "No: a sum mixes them, so the positions should be appended.": (
                    "Appending is a sum as well: one-hot places, appended before a linear embedding, give exactly an "
                    "embedding plus a table of rows. “Optional: does adding spoil the content?” has it in code."
                ),
                "Only as long as the positions are small, such as 0.02.": (
                    "Small ones are used less. In “Does the model use its positions?” a table that starts with "
                    "standard deviation 1 gains about five points over no positions, [3.8, 6.1] in five seeds, one "
                    "that starts with 0.02 about two, [0.9, 2.7]."
                ),
            },
            right="Yes: the embedding can keep some of the D features free for the positions.",
        ),
        Question(
            "You resize a trained position table for larger images. The weights load without an error, and the "
            "accuracy at the new size is about 20 points lower than before. Was the table resized correctly?",
            {
                "Yes: a wrong table would not have the shape that the model expects.": (
                    "The wrong ways return the right shape too, stretched as one line or with rows and columns "
                    "swapped. See “Images of another resolution”."
                ),
                "Neither shape nor accuracy can tell: test what a correct resizing must keep.": (
                    "Both fit a correct table and a wrong one. A test can tell: the cls row stays, and a table that "
                    "holds column numbers still has equal numbers down each column and growing ones along each row."
                ),
                "No: with a correct table the accuracy would have stayed.": (
                    "The new size costs accuracy by itself, about 18 to 22 points at 35 pixels for our three kinds of "
                    "positions with a correct table, because each patch now shows a smaller piece. See the last figure "
                    "of “Images of another resolution”."
                ),
            },
            right="Neither shape nor accuracy can tell: test what a correct resizing must keep.",
        ),
    ],
    "03": [
        Question(
            "Row i of the scores holds the products of query i with all keys. Somebody writes `softmax(dim=-2)` "
            "instead of `dim=-1`. What is the effect?",
            {
                "None, because the matrix of scores is symmetric.": (
                    "It is not: queries and keys are different vectors, so token 0 scores token 1 differently from how "
                    "token 1 scores token 0. Compare the two in “Third attempt: queries, keys and values”."
                ),
                "The shapes no longer fit, and the next product raises an error.": (
                    "A softmax over either axis keeps the shape, so everything runs. “Over which axis does the "
                    "softmax run?” tries it."
                ),
                "The model learns nothing, which the training shows at once.": (
                    "It trains, in five runs about 1.9 points [0.9, 2.8] below the correct model, which looks ordinary "
                    "unless that model stands beside it. See the "
                    "plot in “Does attention matter? Predict, then run”."
                ),
                "Columns sum to 1 and rows do not, so the output is no longer an average of the values.": (
                    "Some outputs come out too large, others too small, and one line tests it: does every row sum to 1?"
                ),
            },
            right="Columns sum to 1 and rows do not, so the output is no longer an average of the values.",
        ),
        Question(
            "Tokens have D = 768 features, queries and keys have d = 64. By what are the scores divided, and why?",
            {
                "By √768, because a token has 768 features.": (
                    "A score is the dot product of a query and a key, and those have 64 numbers. How wide the token is "
                    "from which they were made does not matter for it."
                ),
                "By √64, because a score is a sum of 64 products.": (
                    "64 independent products of variance 1 have a sum with standard deviation √64. Divided by it, the "
                    "scores do not grow with the width of the queries."
                ),
                "By anything, since the softmax makes each row sum to 1 again.": (
                    "The rows always sum to 1, but the divisor decides how even they are. The section after “Over "
                    "which axis does the softmax run?” counts the rows in which one weight is above 0.95."
                ),
            },
            right="By √64, because a score is a sum of 64 products.",
        ),
        Question(
            "A token of the shaft has a vertical edge and should attend to tokens with a horizontal edge. Why can "
            "attention by similarity, `softmax(x @ x.T) @ x`, not do that?",
            {
                "It has no softmax over the right axis.": (
                    "It has one. The trouble is with the scores, before any softmax: see “Second attempt: attend to "
                    "similar tokens”."
                ),
                "A token can only look for what it is itself, because its query is its key.": (
                    "With W_Q and W_K of their own, a token can look for something that it does not have, and it need "
                    "not attend most to itself."
                ),
                "It gives every token the same vector.": (
                    "That is what the plain average does, in “First attempt: the average”. Similarity gives each token "
                    "weights of its own."
                ),
            },
            right="A token can only look for what it is itself, because its query is its key.",
        ),
    ],
    "04": [
        Question(
            "Queries q have the shape (B, T, D). What does `q.view(B, h, T, D // h)` give to head 0 of an image?",
            {
                "The first D / h features of every token.": (
                    "That is what it should get, and what `q.view(B, T, h, D // h).transpose(1, 2)` gives it. `view` "
                    "alone never moves a number."
                ),
                "All D features of the first tokens, cut into pieces.": (
                    "`view` goes through memory in order, and there all features of token 0 come first. So with two "
                    "heads, head 0 gets the first half of the tokens, and each of its rows is only a piece of one."
                ),
                "Every h-th feature of every token.": (
                    "For that, features would have to move. `view` only draws new borders through memory: print the "
                    "twelve numbers of “Without the loop: split and merge” again."
                ),
            },
            right="All D features of the first tokens, cut into pieces.",
        ),
        Question(
            "`nn.MultiheadAttention(D, h)` gets tokens of shape (B, T, D), so it attends over the batch. Which test "
            "notices?",
            {
                "Give the layer two images and change image 1: the output for image 0 must stay.": (
                    "The tokens of image 0 change with image 1 only if images attend to each other, so this test can "
                    "fail."
                ),
                "One image goes in, and the output has the right shape.": (
                    "Shapes are right for any sizes. One image is enough to see that its own tokens do not reach each "
                    "other, but then you must look at the numbers. See “What mixes, and what must not”."
                ),
                "Shuffle the tokens: the outputs must be shuffled alike.": (
                    "The crossed layer treats all places alike, only each for itself, so it passes. “What mixes, and "
                    "what must not” runs this test on it."
                ),
                "Shuffle the images of a batch: the outputs must be shuffled alike.": (
                    "Attention over the batch passes, because it is equivariant under a shuffle of the batch, just as "
                    "the right layer is under a shuffle of the tokens."
                ),
            },
            right="Give the layer two images and change image 1: the output for image 0 must stay.",
        ),
        Question(
            "Twice as many heads, the same width D: what happens to the operations of the matrix products?",
            {
                "They double, because each head computes attention weights of its own.": (
                    "There are twice as many maps of weights, and each entry of them is a product of half as many "
                    "features. PyTorch's counter finds the same number for 1, 4 and 12 heads; see “What does it cost?”."
                ),
                "Nothing, because the heads divide the D features among them.": (
                    "The number of heads is not in the formula. What grows is the softmax, over h · T² numbers, and "
                    "the memory for the maps, where they are kept."
                ),
                "They halve, because each head is half as wide.": (
                    "Each head is half as wide, but there are twice as many of them, so the operations stay the same; "
                    "see “What does it cost?”."
                ),
            },
            right="Nothing, because the heads divide the D features among them.",
        ),
    ],
    "05": [
        Question(
            "Tokens (B, T, D) go through `nn.LayerNorm(D)`. You change token 1 of image 0. Which outputs move?",
            {
                "All tokens of image 0, because a layer norm takes the whole layer.": (
                    "The name suggests it. That would be `nn.LayerNorm([T, D])`, the bug in “Per token, never over "
                    "tokens”, with which tokens influence each other without attention."
                ),
                "Token 1 of every image, because statistics are taken over the batch.": (
                    "A layer norm takes no statistics over the batch: there is one mean and one variance for each of "
                    "the B · T tokens, over its own D numbers. See “Why normalise? LayerNorm by hand”."
                ),
                "Token 1 of image 0, and nothing else.": (
                    "Mean and variance belong to one token and run over its D features, so no token depends on another."
                ),
            },
            right="Token 1 of image 0, and nothing else.",
        ),
        Question(
            "A model stacks blocks that read `x = norm1(x)`, `x = x + attention(x)`, `x = norm2(x)`, `x = x + mlp(x)`, "
            "and ends in a final norm. Which kind of stack is it?",
            {
                "Pre-norm: each norm stands before attention or before the MLP.": (
                    "The order of the lines suggests it, but x was overwritten, so what is added to is the normalised "
                    "token. Set both branches to zero: a pre-norm block is then the identity, and this one is not. "
                    "See “Normalise, then add”."
                ),
                "Post-norm behind one more norm: each norm but the first follows a sum on the stream.": (
                    "Draw the borders elsewhere and every other norm follows a sum. “Normalise, then add” proves it: "
                    "six of these blocks and the final norm are one norm and six post-norm blocks."
                ),
                "Neither: it is broken, and no stack of it can learn.": (
                    "It computes exactly what post-norm blocks compute behind one more norm, and the post-norm stack "
                    "of 6 blocks learns in chapter 6."
                ),
            },
            right="Post-norm behind one more norm: each norm but the first follows a sum on the stream.",
        ),
        Question(
            "With both branches at zero, a block returns exactly its input. What do you know about it?",
            {
                "It is a right pre-norm block.": (
                    "The test is silent about the branches, because it switches them off. Swapped norms pass it, and "
                    "so does a block without any norm. See “A test that tells them apart”."
                ),
                "No norm stands on its residual stream.": (
                    "A norm on the stream would have changed the tokens. More the test does not see: `x * (1 + f(x))` "
                    "passes it as well, and what the branches read and compute has to be tested in other ways."
                ),
                "It has learned nothing, since its output is its input.": (
                    "We set the last layers of the branches to zero for the test. What the block computes with its own "
                    "weights, the test does not ask. See “A test that tells them apart”."
                ),
            },
            right="No norm stands on its residual stream.",
        ),
    ],
    "06": [
        Question(
            "Without a warm-up, this chapter's stacks of 36 post-norm blocks learn next to nothing. What did we see "
            "when we looked inside?",
            {
                "All images get nearly the same vector, so the head has nothing to tell apart.": (
                    "In nearly all of the twenty runs the share between images falls to nearly zero at some step. In "
                    "pre-norm it never does."
                ),
                "Before training, no gradient reaches the first blocks.": (
                    "In most fresh stacks, block 1 gets a larger gradient than block 36; see “The usual suspect: "
                    "gradients”. The gradient is lost afterwards."
                ),
                "Only the warm-up was missing: with it, the stacks learn.": (
                    "At 36 blocks the warm-up does not prevent the failure: thirteen of twenty runs with it collapse "
                    "later, and the others fail as well. See “First remedy: a warm-up”."
                ),
            },
            right="All images get nearly the same vector, so the head has nothing to tell apart.",
        ),
        Question(
            "All branches of 6 post-norm blocks push all images the same way, and a quarter of the distance between "
            "two images is left. With 24 such blocks, how much is left?",
            {
                "A sixteenth: four times as many blocks leave a quarter of what 6 blocks left.": (
                    "Each group of 6 blocks leaves a quarter of what reaches it, and there are four groups in a row; "
                    "see “Where do the images merge?”."
                ),
                "1/256: a quarter of a quarter of a quarter of a quarter.": (
                    "Post-norm divides after every sum, so depth is an exponent. In pre-norm the distance stays, and "
                    "only the final norm divides, once."
                ),
                "A quarter: the norms keep the size of the tokens at 1.": (
                    "They do, and that is the trouble. The push takes room, and what differs between the images "
                    "has to shrink for it; see “Where do the images merge?”."
                ),
            },
            right="1/256: a quarter of a quarter of a quarter of a quarter.",
        ),
        Question(
            "A fresh stack of 36 pre-norm blocks. By what share do its blocks change their tokens?",
            {
                "All by the same share, because every branch reads normalised tokens.": (
                    "That is why the branches add about equally much. But they add it to a residual stream that has "
                    "grown on its way; see “What pre-norm pays: the stream grows”."
                ),
                "Late blocks by more, because the residual stream is larger there.": (
                    "The size of the residual stream does not reach a branch, which reads normalised tokens. The same "
                    "addition to a larger stream is a smaller share; see “What pre-norm pays: the stream grows”."
                ),
                "Late blocks by less, because they add to a residual stream that has grown.": (
                    "In a pre-norm stack every branch adds and nothing divides, so what an early block adds weighs "
                    "more than what a late one adds."
                ),
            },
            right="Late blocks by less, because they add to a residual stream that has grown.",
        ),
    ],
    "07": [
        Question(
            "In a model with a cls token, what does `x[:, 0]` know about the image before the first block?",
            {
                "What is in the top-left patch.": (
                    "The top-left patch is token 1, and the cls token stands in front of it; see “What does it know, "
                    "and when?”."
                ),
                "Nothing: it is the same vector for every image.": (
                    "It has met no pixel yet. One block later it differs from image to image, and all that it then "
                    "knows of the image has come through attention."
                ),
                "A summary of the whole image, from which it was projected.": (
                    "The cls token is never projected from pixels. It is a parameter of D numbers, and in the equation "
                    "of “The code” no E stands behind it."
                ),
            },
            right="Nothing: it is the same vector for every image.",
        ),
        Question(
            "After the last block of a cls model you replace the other 49 tokens by noise. What do the logits do, and "
            "what does that say about training?",
            {
                "They stay, and those 49 tokens get no gradient there either.": (
                    "After the last block nothing attends to the patches and the head does not read them, so the "
                    "gradient there is exactly zero. Before it the noise would matter, because the cls token would "
                    "still attend to them."
                ),
                "They move, because the head reads all tokens.": (
                    "The head reads one vector, and in a cls model that is row 0. In “What the head never reads” the "
                    "logits are exactly the same after the replacement."
                ),
                "They stay, but the loss pulls on those 49 tokens there all the same.": (
                    "No loss depends on them after the last block: in “What the head never reads” their gradient is "
                    "exactly zero. Training has shaped them only indirectly, through the weights that they share "
                    "with the cls token and through what the earlier blocks made of them."
                ),
            },
            right="They stay, and those 49 tokens get no gradient there either.",
        ),
        Question(
            "At learning rate 0.001, with ten seeds each, cls leads the mean by several points, and the 95 % interval "
            "of the lead lies far above 0. What follows?",
            {
                "A cls token is the better way to pool.": (
                    "At 0.01, where both do best, no difference is shown. A comparison at one learning rate compares "
                    "how well it suits each of them; see “Is a cls token needed? Predict, then run”."
                ),
                "Nothing: a difference of a few points is within the luck of the seeds.": (
                    "Luck of that size would reach across 0, and this interval does not. What the seeds cannot tell "
                    "you is whether the lead survives another learning rate; see “Is a cls token needed? Predict, "
                    "then run”."
                ),
                "It leads at this learning rate. To compare the two, give each its own best one.": (
                    "The lead is shown at 0.001, and at 0.01 none is. The paper tells the same story: its mean looked "
                    "poor until its learning rate was chosen for it."
                ),
            },
            right="It leads at this learning rate. To compare the two, give each its own best one.",
        ),
    ],
    "08": [
        Question(
            "You change ViT-B/16 to patches of 32 × 32 pixels. What happens to its parameters and its work?",
            {
                "More parameters and less work.": (
                    "A quarter of the patches means about a quarter of the work, while the projection of a patch has "
                    "four times as many weights. Size and cost are two different things."
                ),
                "Fewer parameters and less work: larger patches make a smaller model.": (
                    "Only the work shrinks, with the tokens. Each kernel of the projection has four times as many "
                    "weights, and the shorter position table does not make up for it: 1.7 million more in “Large, or "
                    "slow?”."
                ),
                "The same parameters and less work: no weight depends on the tokens.": (
                    "That is true of the blocks. The projection depends on the patch and the position table on the "
                    "number of tokens; see “Table 1, parameter by parameter”."
                ),
            },
            right="More parameters and less work.",
        ),
        Question(
            "Your ViT-B/16 has 86,567,656 parameters, exactly as many as torchvision's. What does that prove?",
            {
                "That the two are the same model.": (
                    "With twice the heads the count would be the same, and the model another one; see “Large, or "
                    "slow?”."
                ),
                "That every part has the right size.": (
                    "Two mistakes can cancel in a sum, so compare term by term, as “Table 1, parameter by parameter” "
                    "does."
                ),
                "Little, while another count would have proved them different.": (
                    "Equal counts are necessary and not enough. An unequal one is proof, and “Optional: one layer too "
                    "many” reads off the difference which part is wrong."
                ),
            },
            right="Little, while another count would have proved them different.",
        ),
        Question(
            "Weights from another library load with “All keys matched successfully”. What shows that your model now "
            "computes what theirs does?",
            {
                "The message does: all names and shapes agree.": (
                    "Names and shapes are all that it compares. In “Other people's weights” two norms of every block "
                    "are swapped, the same message appears, and the logits are wrong."
                ),
                "The probabilities for an image sum to 1.": (
                    "A softmax cannot do otherwise. In “Optional: four tests that shapes do not replace” a model that "
                    "ignores its images passes this test."
                ),
                "Both freshly built models give the same logits.": (
                    "torchvision starts its head at zero, and behind such a head any model gives these logits, as "
                    "“Other people's weights” shows."
                ),
                "Both give the same logits with random values in every parameter.": (
                    "Random values everywhere leave no zero or one behind which a mistake could hide, and the logits "
                    "also see what no state dict holds: the heads, eps and the kind of GELU."
                ),
            },
            right="Both give the same logits with random values in every parameter.",
        ),
    ],
    "09": [
        Question(
            "A model ends in a softmax, and its output goes to `F.cross_entropy`. What happens?",
            {
                "PyTorch raises an error.": (
                    "Probabilities are numbers like any others, and `cross_entropy` takes them for logits. See “A "
                    "mistake that raises no error”."
                ),
                "It trains, but the loss never falls below 1.46, however certain the model is.": (
                    "Even a model that gives 1 to the right class and 0 to the others has this loss with ten classes. "
                    "Overfitting sixteen images shows it within seconds, if you look at the loss and not only at the "
                    "accuracy."
                ),
                "Nothing changes, because the softmax keeps the order of the classes.": (
                    "The accuracy of a given model stays the same, but the loss is computed from the softmax of a "
                    "softmax, so the model is trained on another quantity. See “A mistake that raises no error”."
                ),
            },
            right="It trains, but the loss never falls below 1.46, however certain the model is.",
        ),
        Question(
            "Your model fits sixteen images perfectly after 100 steps. What do you know now?",
            {
                "That the model is implemented correctly.": (
                    "Wrong models pass too: the one with a second softmax in “First overfit sixteen images” has all "
                    "sixteen right, and so would one with scrambled patches."
                ),
                "Nothing: sixteen images say nothing about sixty thousand.": (
                    "Failing would have told you a lot, because a model that cannot fit sixteen images will not learn "
                    "from sixty thousand. See “First overfit sixteen images”."
                ),
                "That the loop reaches the parameters and the model can learn; other bugs are not excluded.": (
                    "The test is worth its seconds because of what it rejects. Passing it is no proof."
                ),
            },
            right="That the loop reaches the parameters and the model can learn; other bugs are not excluded.",
        ),
        Question(
            "Two recipes ran with the same five seeds. Both accuracies have a standard deviation of 0.5 points; the "
            "differences, seed by seed, are 0.3, 0.2, 0.4, 0.3 and 0.3 points. Is one recipe better?",
            {
                "That cannot be said, because 0.3 is less than 0.5.": (
                    "What a seed does to both recipes cancels in the difference. “Would it happen again?” computes "
                    "the error of the differences themselves."
                ),
                "Yes in this setting: the differences agree far better than the accuracies do.": (
                    "The 95 % interval of their mean lies well above 0. It speaks for this model, this data and this "
                    "length of training."
                ),
                "Yes, and it will be better for every model and data set.": (
                    "The paired error says how well five seeds agree in one setting. It says nothing about another "
                    "model; see the box in “Would it happen again?”."
                ),
            },
            right="Yes in this setting: the differences agree far better than the accuracies do.",
        ),
    ],
    "10": [
        Question(
            "Recipe A reaches 85.2 % on the test set in its best epoch, recipe B 84.9 % in its best. One seed each. "
            "Which is better?",
            {
                "That is open: choose on validation images, then compare the last epochs of several seeds.": (
                    "The validation set may be looked at as often as you like, the test set once, at the end. Paired "
                    "seeds give the difference a confidence interval, which shows whether it may be 0."
                ),
                "A, by 0.3 points.": (
                    "With one seed nobody knows how far seeds lie apart. In “One change at a time” five runs of the "
                    "same recipe lie further apart than that. And the best epoch was chosen on the test set."
                ),
                "A, since both were treated alike: each was given its best epoch.": (
                    "Being equally wrong is not being right. Whoever picks the epoch by its test accuracy has used "
                    "the test set for choosing, and both numbers are too good; chapter 9 says more."
                ),
            },
            right="That is open: choose on validation images, then compare the last epochs of several seeds.",
        ),
        Question(
            "In a minute of one core the textbook's recipe stays far below ours. What follows?",
            {
                "In one minute ours is better. What more time brings has to be measured.": (
                    "Given its ten epochs, the textbook's recipe becomes a good model, too, only much later."
                ),
                "The textbook's recipe does not work.": (
                    "It has hardly begun when the minute is over. “The textbook to its end” gives it its ten "
                    "epochs, and it becomes a good model."
                ),
                "A small model is better than a large one.": (
                    "In the same time, a small one gets through many more images. What it is worth in a longer "
                    "training, the ladder cannot show."
                ),
            },
            right="In one minute ours is better. What more time brings has to be measured.",
        ),
    ],
    "11": [
        Question(
            "In the last layer the cls token attends more to one patch of the boot than to any other. What has been "
            "measured?",
            {
                "That the answer depends on this patch more than on any other.": (
                    "That is a claim about cause, and it needs a deletion. In “The test: delete a patch”, the patch "
                    "with the most attention was not the one whose removal lowered the logit most."
                ),
                "What cls reads there, from a token that already contains what other patches gave it.": (
                    "The weight is a fact about reading, in one layer. By the last layer every token has taken in "
                    "others, and whether the answer needs this one is another question."
                ),
                "Nothing: the attention maps of a trained network are as good as random.": (
                    "They differ from those of the random networks: the trained heads are selective, and rollout of "
                    "the trained network agrees with the deletions. See “Which map predicts the deletions?”."
                ),
            },
            right="What cls reads there, from a token that already contains what other patches gave it.",
        ),
        Question(
            "A map agrees well with the effects of painting patches black. Does it tell you something about what the "
            "network has learned?",
            {
                "Yes: a map that knew nothing of the network would have a rank correlation of 0.": (
                    "Brightness knows nothing of the network, and here it agreed best, because painting a black patch "
                    "black deletes nothing. See “Which map predicts the deletions?”."
                ),
                "No: attention has nothing to do with what deletions do.": (
                    "For removed tokens, the trained network's rollout agrees with the effects, far more than those "
                    "of random networks do. See “Which map predicts the deletions?”."
                ),
                "That is open until brightness, place and the maps of many random networks have been tried.": (
                    "Each of these controls can agree with deletions for a dull reason. A correlation means something "
                    "only beside its controls."
                ),
            },
            right="That is open until brightness, place and the maps of many random networks have been tried.",
        ),
        Question(
            "In the trained network's position table, neighbouring places are hardly more alike than distant ones. "
            "What does that mean for the model?",
            {
                "By itself, nothing: vectors need not resemble each other to be used.": (
                    "Nearly orthogonal vectors are names that nobody can mix up. To see whether the model uses them, "
                    "exchange them and watch the accuracy."
                ),
                "It has learned nothing about positions.": (
                    "Exchange the rows of the table, and most of the accuracy is lost: see “The test again: ablate”. "
                    "What cannot be seen in the table is in the matrices that read it."
                ),
                "The table can be left out, or its rows exchanged, at little cost.": (
                    "Both cost far more than all heads of any one layer did, as “The test again: ablate” measures."
                ),
            },
            right="By itself, nothing: vectors need not resemble each other to be used.",
        ),
    ],
    "12": [
        Question(
            "Two pre-norm blocks, written by two people. With the last layers of both branches set to zero, A returns "
            "its input and B does not. Trained on the same images with five seeds each, B scores higher. What do you "
            "know?",
            {
                "B's block is right: five seeds outvote a test on random numbers.": (
                    "Seeds say how sure the score is, not what was scored. Training makes the best of whatever is "
                    "wired, and “Attend: heads merged without the transpose” is a bug that scores higher than the "
                    "right model."
                ),
                "Nothing yet: train both for longer, and the right one will win.": (
                    "The property holds for any weights of a pre-norm block, before training and after. No amount of "
                    "training decides it; see “Move 2: zero out a branch”."
                ),
                "B is no pre-norm block, whatever it scores.": (
                    "A pre-norm block only adds to its input, so with silent branches it is the identity. B does "
                    "something else with its tokens. That may be worth a study, under another name."
                ),
            },
            right="B is no pre-norm block, whatever it scores.",
        ),
        Question(
            "You permute the images of a batch, and the logits come out permuted in the same way. Which of these bugs "
            "can your model not have?",
            {
                "A cls token that is drawn anew in each call.": (
                    "Two calls then give two different answers, so no permutation can line them up. It is one of few "
                    "bugs that this test excludes."
                ),
                "Attention over the batch instead of over the tokens.": (
                    "Such a layer treats all images alike and follows any permutation of them. “Move 4: permute” runs "
                    "it: it passes. Change one image, and see whether another moves."
                ),
                "A position table that is never added.": (
                    "That table tells the places within an image apart. Permuting whole images leaves them where they "
                    "are; permute the patches, as “Move 4: permute” does."
                ),
            },
            right="A cls token that is drawn anew in each call.",
        ),
        Question(
            "You write a test for a bug that you fear, and your model passes. What is missing before the pass means "
            "something?",
            {
                "The same test on the trained model, because fresh weights prove little.": (
                    "Fresh weights do hide mistakes, but so can trained ones, and random weights everywhere are "
                    "enough. The habits stand in “A room to examine in”."
                ),
                "A model that has the bug, and fails.": (
                    "Without it you do not know whether the test can fail at all. Put the bug in, see the test refuse "
                    "it, and only then believe the pass."
                ),
                "Larger images and a larger batch.": (
                    "Size is not what lets a bug hide, equal sizes are: a batch as large as the number of heads, a "
                    "square image. See “A room to examine in”."
                ),
            },
            right="A model that has the bug, and fails.",
        ),
    ],
    "13": [
        Question(
            "ViT-B/16 reads an image of 224 × 224 pixels. Which part of the multiplications in its blocks grows with "
            "the square of the tokens?",
            {
                "About 4 %.": (
                    "Only the scores and the mixing of the values are quadratic, and at 197 tokens of width 768 they "
                    "are small beside the matrices of attention and of the MLP."
                ),
                "Most of it, because attention is quadratic.": (
                    "The square wins only when there are more than six times as many tokens as features, and here "
                    "197 tokens stand against a width of 768. “How much work is it?” does the sum."
                ),
                "About a third, which is the share of attention.": (
                    "Attention as a whole is about a third, but most of that are its four matrices, and their work "
                    "grows with the tokens, not with their square. See “How much work is it?”."
                ),
            },
            right="About 4 %.",
        ),
        Question(
            "Each model gets half a minute of one core. With patches of 14 it reaches 87 %, with patches of 4 only "
            "80 %. How do you read that?",
            {
                "There is a mistake: smaller patches show more detail and must win.": (
                    "They show more detail, but a step costs more, so the model saw about a seventh as many images. "
                    "See “Optional: smaller patches or larger images?”."
                ),
                "In half a minute the cheaper model is ahead. What more time brings has to be measured.": (
                    "Four patches make a cheap step, and 140,000 images stand against 21,000, 46,912 different ones "
                    "against 20,800. With more time the order may change."
                ),
                "Patches of 14 are the better choice for this data.": (
                    "This was a race of half a minute. The full run of chapter 9, with patches of 7, goes beyond "
                    "87 %, and what patches of 14 would reach in its time was not tried. See “Optional: "
                    "smaller patches or larger images?”."
                ),
            },
            right="In half a minute the cheaper model is ahead. What more time brings has to be measured.",
        ),
        Question(
            "A batch of 12 images is split over two processes, 8 and 4, and their gradients are averaged. What comes "
            "out?",
            {
                "The gradient of the whole batch, since a gradient is linear.": (
                    "Each loss is already a mean over its own share, and the mean of two means is the mean of all "
                    "only if the shares are equal. “More than one device” tries both."
                ),
                "The gradient of the whole batch, up to rounding.": (
                    "The last digits differ even with equal shares. With 8 and 4 the difference is much larger than "
                    "rounding, because the images count differently; see “More than one device”."
                ),
                "Another gradient: an image of the smaller share counts twice as much.": (
                    "An image counts 1/8 of one mean or 1/4 of the other. That is why `fit` refuses a batch that "
                    "the processes cannot share equally."
                ),
            },
            right="Another gradient: an image of the smaller share counts twice as much.",
        ),
    ],
    "14": [
        Question(
            "In attention without QK-norm or rotary positions, you add the same vector to all keys. "
            "What happens to the output?",
            {
                "It is shifted by the same vector.": (
                    "That would be so for the values, whose average passes the vector on. Keys only enter the scores. "
                    "“No bias in queries, keys and values” tries all three."
                ),
                "Nothing.": (
                    "Every score of a row grows by the same number, the dot product of the query and the vector, and a "
                    "softmax does not notice that. So in such a layer a bias of the keys has no effect."
                ),
                "The attention weights become sharper.": (
                    "They would if the scores were multiplied. Here every score of a row grows by the same number, and "
                    "only differences of scores count. See “No bias in queries, keys and values”."
                ),
            },
            right="Nothing.",
        ),
        Question(
            "A colleague builds rotary positions and rotates the queries, the keys and the values. The loss falls. "
            "What is wrong?",
            {
                "What a token passes on now depends on where it stands, not only how much of it is taken.": (
                    "The scores are still relative, so the attention weights are right. But the average is taken over "
                    "rotated values, so the same image a few patches further right gives other outputs. “Positions: "
                    "rotate instead of add” rotates two of the three."
                ),
                "Nothing, because a rotation keeps all lengths.": (
                    "It keeps lengths, but not directions, and a value is read by its direction. See “Positions: "
                    "rotate instead of add”, and exercise 14.3, whose check tries this mistake."
                ),
                "The scores now depend on the absolute places.": (
                    "The values do not enter the scores at all. Those would depend on the absolute places if only one "
                    "of queries and keys were rotated. See “Positions: rotate instead of add”."
                ),
            },
            right="What a token passes on now depends on where it stands, not only how much of it is taken.",
        ),
        Question(
            "In DINO you leave out centering and keep a low temperature. After some hundred steps student and teacher "
            "agree nearly always. What has probably happened?",
            {
                "The student has learned everything that there is to learn.": (
                    "Agreement alone is no evidence, because they also agree if they say the same of all images. "
                    "“DINO: be your own teacher” measures how much an answer tells about its image."
                ),
                "The teacher's answers have become even, every output as likely as every other.": (
                    "That is the collapse without sharpening. A low temperature pushes the other way, towards sure "
                    "answers. The two entropies in “DINO: be your own teacher” tell the two apart."
                ),
                "A few outputs win for nearly all images, so agreeing is easy.": (
                    "Sharpening makes each answer sure, and without centering nothing keeps the same few outputs from "
                    "winning again and again. In “DINO: be your own teacher” the entropy of the mean answer shows it."
                ),
            },
            right="A few outputs win for nearly all images, so agreeing is easy.",
        ),
    ],
}

# Which of the models of book/results/six_curves.json is behind which letter of chapter 0's first figure.
SIX_CURVES = {
    "A": "last read first",
    "B": "listed blocks",
    "C": "split by view",
    "D": "softmax inside",
    "E": "right",
    "F": "reshape alone",
}
BET = Question(
    "Which of the six curves belongs to the right model?",
    {
        "Curve A": (
            "A puts its answer into one token and reads another one. "
            "Its curve can hardly be told from that of the right model."
        ),
        "Curve B": (
            "B hides most of its layers from the optimizer, so they stay "
            "as random as they were. It learns all the same, only less."
        ),
        "Curve C": (
            "C is the best of all six, and it mixes up which features "
            "belong to which token. The rest of this chapter shows how "
            "that can help."
        ),
        "Curve D": ("D has one softmax too many. A curve that rises more slowly does not reveal that."),
        "Curve E": (
            "E is right, and it is third. One bug makes no difference "
            "that we can see, two cost accuracy, and two raise it."
        ),
        "Curve F": ("F divides the image into strips of pixels, not into squares. On these images that even helps."),
    },
    right="Curve E",
)


def quiz(chapter: str) -> Quiz:
    """Return the questions of a chapter, named by its number: quiz("07"); "00 bet" is the one that opens chapter 0.

    Raises: ValueError if this chapter has none.
    """
    quizzes = QUIZZES | {"00 bet": [BET]}
    return Quiz(quizzes[choice("chapter", chapter, quizzes)])
