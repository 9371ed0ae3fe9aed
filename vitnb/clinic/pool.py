"""Wrong ends of a ViT: what joins the tokens, what is read from them, and whole models that are not wired through."""
