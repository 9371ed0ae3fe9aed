"""The exercises of chapter 6: right answers however they are written, and wrong ones that no check declares."""

from answers import right, wrong

# 6.1 ------------------------------------------------------------------------------------------------------


right("6.1")(lambda: "BC")
right("6.1")(lambda: "c, b")
wrong("6.1", "draw the borders of the blocks elsewhere")(lambda: "ABC")
wrong("6.1", "which boxes stand on its stream")(lambda: "B")
wrong("6.1", "what is left of a block when its branches")(lambda: "C")
wrong("6.1", "3 of your 4 predictions")(lambda: "BCD")
wrong("6.1", "what does a gain of 1 change")(lambda: "BCD")
wrong("6.1", "0 of your 4 predictions")(lambda: "A D")
wrong("6.1", "only the stacks A, B, C and D: you name E")(lambda: "BCE")
wrong("6.1", "a string such as 'ABCD' is wanted")(lambda: ["B", "C"])
