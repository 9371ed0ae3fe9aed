"""How the pages are made: the Sphinx extension, and the tools that store, build and print them."""
