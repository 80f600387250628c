"""The pictures of docs/papers: the idea of each paper, drawn from a small run.

Each file measures one paper's idea on data that ship with the library, and draws it.
``python -m papers.ideas`` writes all of them into docs/images; every picture has one seed.
"""
