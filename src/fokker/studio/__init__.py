"""`fokker studio`: design a sampler in the browser, watch it run, and learn whether it is right.

formulas/    what is typed: a grammar, into JAX, Python and MathML
design       what the page asks for, validated: a target, a sampler, mistakes, settings
program      the design as calls of the library, which are run here and printed as Python
simulation   a run in blocks of steps; histogram, divergence from the truth, effective draws
analysis     the checker's verdict, Γ and the residual, the completion of a drift
gallery      runs of the stories, recorded on a page that needs no server
guard, server, session    the page and its WebSocket, for this machine alone
page/        the built page, from `studio/` at the root of the repository
"""
