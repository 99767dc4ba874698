"""One run: what it is (spec), what is compiled (plan), who is trained (roster, population), the loop, its folder."""
