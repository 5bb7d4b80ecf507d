"""Designs that tests of the studio share, as the page sends them."""

Z = "0"
FLOW = [[Z, Z, "-1", Z], [Z, Z, Z, "-1"], ["1", Z, Z, Z], [Z, "1", Z, Z]]


def diagonal(*cells):
    return [[cell if i == j else Z for j in range(len(cells))] for i, cell in enumerate(cells)]


def skew(*pairs, size=2):
    """Q with these entries (row, column, text), and their negatives on the other side."""
    rows = [[Z] * size for _ in range(size)]
    for i, j, text in pairs:
        rows[i][j], rows[j][i] = text, f"-({text})"
    return rows


def typed(D, Q, H=None, target="x^4/4 + x*y/3 + y^2", **more):
    size = len(D)
    usual = {2: "U", 4: "U + (p^2 + q^2)/2", 5: "U + (p^2 + q^2)/2 + (s - 1)^2"}[size]
    sampler = {"kind": "typed", "size": size, "D": D, "Q": Q, "H": H or usual}
    return {"target": {"formula": target}, "sampler": sampler, **more}


def drift(f, D, H=None, target="x^4/4 + x*y/3 + y^2", **more):
    data = typed(D, None, H, target, **more)
    data["sampler"] |= {"kind": "drift", "drift": f}
    return data


PAIR_D = diagonal(Z, Z, "1", "1")
THERMOSTAT = ["p", "q", "-Ux - s*p", "-Uy - s*q", "(p^2 + q^2)/2 - 1"]
THERMOSTAT_Q = skew((2, 0, "1"), (3, 1, "1"), (2, 4, "p/2"), (3, 4, "q/2"), size=5)
ROOT = "sqrt(1 + x^2/2)"
BEND = "1 + tanh(x*y)/2"
RIEMANN_D = diagonal(Z, Z, "1 + x^2/2", "1")
RIEMANN_Q = skew((2, 0, ROOT), (3, 1, "1"), size=4)

RIGHT = {
    "langevin": typed(diagonal("1", "1"), skew()),
    "unequal noise": typed(diagonal("0.3", "2"), skew()),
    "dense noise": typed([["1", "0.5"], ["0.5", "1"]], skew()),
    "metric": typed(diagonal("1 + x^2/2", "1 + x^2/2"), skew()),
    "metric by the energy": typed(diagonal("2 + tanh(U)", "1"), skew()),
    "constant curl": typed(diagonal("1", "1"), skew((0, 1, "2"))),
    "curl that varies": typed(diagonal("1", "1"), skew((0, 1, "sin(x) + y"))),
    "both vary": typed(diagonal("1 + x^2/4", "1 + y^2/4"), skew((0, 1, "x*y/4"))),
    "at another temperature": typed(diagonal("1 + x^2/2", "1"), skew(), settings={"temperature": 2}),
    "underdamped": typed(PAIR_D, FLOW),
    "riemannian": typed(RIEMANN_D, RIEMANN_Q),
    "quartic momenta": typed(PAIR_D, FLOW, "U + (p^4 + q^4)/4 + p^2/2 + q^2/2"),
    "thermostat": typed(diagonal(Z, Z, "1", "1", Z), THERMOSTAT_Q),
    "drift of langevin": drift(["-Ux", "-Uy"], diagonal("1", "1")),
    "drift with a curl": drift(["-Ux - Uy", "-Uy + Ux"], diagonal("1", "1")),
    "drift with Γ": drift(["-(1 + x^2/2)*Ux + x", "-Uy"], diagonal("1 + x^2/2", "1")),
    "drift underdamped": drift(["p", "q", "-Ux - p", "-Uy - q"], PAIR_D),
    "drift of a thermostat": drift(THERMOSTAT, diagonal(Z, Z, "1", "1", Z)),
    "dense noise that varies": typed([["2 + sin(y)", "x/(1 + x^2)"], ["x/(1 + x^2)", "2"]], skew()),
    "metric across": typed(diagonal("1 + y^2/2", "1 + x^2/2"), skew()),
    "bent metric and curl": typed(diagonal(BEND, BEND), skew((0, 1, "cos(x - y)"))),
    "noise in x alone, with a curl": typed(diagonal("1", Z), skew((0, 1, "1"))),
    "cold": typed(diagonal("1 + x^2/2", "1"), skew((0, 1, "y")), settings={"temperature": 0.5}),
    "curl by the energy": typed(diagonal("1", "1"), skew((0, 1, "tanh(U)"))),
    "friction that varies": typed(diagonal(Z, Z, BEND, "1"), FLOW),
    "friction by the momenta": typed(diagonal(Z, Z, "1 + p^2/4", "1 + q^2/4"), FLOW),
    "a magnetic field": typed(PAIR_D, skew((2, 0, "1"), (3, 1, "1"), (2, 3, "x"), size=4)),
    "unequal masses": typed(PAIR_D, FLOW, "U + p^2 + q^2/4"),
    "friction in one momentum": typed(diagonal(Z, Z, "1", Z), FLOW),
    "noise on places and momenta": typed(diagonal("1", "1", "1", "1"), FLOW),
}
BROKEN = {
    "Γ dropped": typed(diagonal("1 + x^2/2", "1"), skew(), gamma=0),
    "Γ subtracted": typed(diagonal("1 + x^2/2", "1"), skew(), gamma=-1),
    "∇·Q dropped": typed(diagonal("1", "1"), skew((0, 1, "x*y")), gamma=0),
    "friction forgotten": typed(PAIR_D, FLOW, drag=0),
    "friction twice": typed(PAIR_D, FLOW, drag=2),
    "riemannian without Γ": typed(RIEMANN_D, RIEMANN_Q, gamma=0),
    "Q not skew": typed(diagonal("1", "1"), [[Z, "1"], ["1", Z]]),
    "Q with a diagonal": typed(diagonal("1", "1"), [["0.5", "1"], ["-1", Z]]),
    "D negative": typed(diagonal("-1", "1"), skew()),
    "D not symmetric": typed([["1", "0.5"], [Z, "1"]], skew()),
    "momenta that depend on x": typed(PAIR_D, FLOW, "U + (p^2 + q^2)*(1 + x^2)/2"),
    "no integral": typed(diagonal("1", "1"), skew(), target="log1p(x^2 + y^2)/4"),
    "force turned round": drift(["Ux", "-Uy"], diagonal("1", "1")),
    "force halved": drift(["-Ux/2", "-Uy"], diagonal("1", "1")),
    "drift without Γ": drift(["-(1 + x^2/2)*Ux", "-Uy"], diagonal("1 + x^2/2", "1")),
    "noise doubled": drift(["-Ux", "-Uy"], diagonal("2", "2")),
    "thermostat, printed weight": drift(
        THERMOSTAT, diagonal(Z, Z, "1", "1", Z), "U + (p^2 + q^2)/2 + (s - 1)^2/4"
    ),
    "gradient noise": typed(PAIR_D, FLOW, settings={"noise": 2, "step_size": 0.1}),
    "metric across, Γ dropped": typed(diagonal("1 + x^2/2", "1 + y^2/2"), skew(), gamma=0),
    "dense noise, Γ dropped": typed([["2 + sin(y)", "x/(1 + x^2)"], ["x/(1 + x^2)", "2"]], skew(), gamma=0),
    "curl by the energy, Γ subtracted": typed(diagonal("1", "1"), skew((0, 1, "sin(x)")), gamma=-1),
    "friction by the momenta, Γ dropped": typed(diagonal(Z, Z, "1 + p^2/4", "1 + q^2/4"), FLOW, gamma=0),
    "a magnetic field that is not skew": typed(
        PAIR_D, [[Z, Z, "-1", Z], [Z, Z, Z, "-1"], ["1", Z, Z, "x"], [Z, "1", "x", Z]]
    ),
    "flow with one sign": typed(PAIR_D, [[Z, Z, "1", Z], [Z, Z, Z, "-1"], ["1", Z, Z, Z], [Z, "1", Z, Z]]),
    "noise that is not positive": typed([["1", "2"], ["2", "1"]], skew()),
    "noise negative in places": typed(diagonal("1 - x^2", "1"), skew()),
    "curl with the wrong Γ": drift(["-Ux - x*Uy", "-Uy + x*Ux + 1"], diagonal("1", "1")),
    "friction twice in a drift": drift(["p", "q", "-Ux - 2*p", "-Uy - 2*q"], PAIR_D),
    "velocity doubled": drift(["2*p", "q", "-Ux - p", "-Uy - q"], PAIR_D),
    "thermostat without its friction": drift(
        ["p", "q", "-Ux", "-Uy", "(p^2 + q^2)/2 - 1"], diagonal(Z, Z, "1", "1", Z)
    ),
}
