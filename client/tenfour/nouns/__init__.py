"""The nouns of the command line: what `tenfour NOUN VERB` lists, shows and does."""
