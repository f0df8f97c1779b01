"""The teachers: one parallel rewriting step of each task, said in edits.

Every rule looks at a node, its operands and theirs, and edits only those, so a network that sees a few edges far can
learn it. Redexes that fire together never disagree: their edits touch different nodes, or (`annihilate`) what happens
below no longer matters.
"""

from __future__ import annotations

from collections.abc import Callable

from samebits.families.graph.edits import DELETE, Edits, no_edits
from samebits.families.graph.expressions import BIND, Tree, bindings

VARIABLES = ("x", "y", "z")
DIGITS = tuple("0123456789")
FUNCTIONS = ("sin", "cos", "exp")
LEAVES = frozenset((*VARIABLES, *DIGITS, "T", "F"))

Step = Callable[[Tree], Edits]


def drop(edits: Edits, tree: Tree, node: int) -> None:
    """Delete a node and all below it."""
    edits.action[node] = DELETE
    for child in tree.children[node]:
        drop(edits, tree, child)


def fold(edits: Edits, tree: Tree, node: int, result: str) -> None:
    """A binary operator on leaves becomes its result by the fewest edits: an operand equal to it stays."""
    drop(edits, tree, node)
    for kid in tree.children[node]:
        if tree.labels[kid] == result:
            edits.action[kid] = None
            return
    edits.action[node] = result


def annihilate(edits: Edits, tree: Tree, node: int, zero: str) -> bool:
    """(and F …) becomes F, whatever stands there: operands are deleted, operators among them hand theirs up, until F is
    left alone. True where the node has a zero."""
    labels, kids = tree.labels, tree.children[node]
    if all(labels[kid] != zero for kid in kids):
        return False
    leads = labels[kids[0]] == zero
    for kid in kids:
        if labels[kid] != zero or (leads and kid != kids[0]):
            edits.action[kid] = DELETE
    one_stays = leads or sum(labels[kid] == zero for kid in kids) == 1
    if one_stays and all(labels[kid] in LEAVES for kid in kids):
        edits.action[node] = DELETE
    return True


def literal(tree: Tree, node: int, negation: str) -> tuple[str, bool] | None:
    """(symbol, negated) of x or (not x); None for anything else."""
    if tree.labels[node] in VARIABLES:
        return tree.labels[node], False
    if tree.labels[node] == negation and tree.labels[tree.children[node][0]] in VARIABLES:
        return tree.labels[tree.children[node][0]], True
    return None


def boolean(tree: Tree) -> Edits:
    """T, F, double negation, x and x, x and not x, absorption."""
    edits, labels, children = no_edits(tree), tree.labels, tree.children
    action = edits.action
    for node, label in enumerate(labels):
        kids = children[node]
        if label == "simplify":
            action[node] = DELETE
        elif label == "not":
            below = labels[kids[0]]
            if below in "TF":
                action[node], action[kids[0]] = DELETE, "F" if below == "T" else "T"
            elif below == "not" and labels[children[kids[0]][0]] not in ("not", "T", "F"):
                action[node] = action[kids[0]] = DELETE
        elif label in ("and", "or"):
            zero, one = ("F", "T") if label == "and" else ("T", "F")
            if not any(labels[kid] == zero for kid in kids):
                _boolean_pair(edits, tree, node, zero, one)
    for node, label in enumerate(labels):  # last: what stands below a zero goes, whatever it wanted
        if label in ("and", "or"):
            annihilate(edits, tree, node, "F" if label == "and" else "T")
    return edits


def _boolean_pair(edits: Edits, tree: Tree, node: int, zero: str, one: str) -> None:
    labels, children, action = tree.labels, tree.children, edits.action
    kids = children[node]
    ones = [kid for kid in kids if labels[kid] == one]
    if ones:
        action[node] = DELETE
        for kid in ones if len(ones) < len(kids) else ones[1:]:
            action[kid] = DELETE
        return
    left, right = (literal(tree, kid, "not") for kid in kids)
    if left and right and left[0] == right[0]:
        if left == right:
            action[node] = DELETE
            drop(edits, tree, kids[1])
        else:
            drop(edits, tree, node)
            action[node] = zero
        return
    dual = "or" if labels[node] == "and" else "and"
    for kept, other in (kids, kids[::-1]):
        below = [labels[kid] for kid in children[other]]
        atoms = len(set(below)) == 2 and all(name in VARIABLES for name in below)
        if labels[kept] in VARIABLES and labels[other] == dual and atoms and labels[kept] in below:
            action[node] = DELETE
            drop(edits, tree, other)
            return


def peano(tree: Tree) -> Edits:
    """(add a (S b)) becomes (S (add a b)); (add a 0) becomes a."""
    edits = no_edits(tree)
    for node, label in enumerate(tree.labels):
        if label == "peano":
            edits.action[node] = DELETE
        elif label == "add":
            second = tree.children[node][1]
            if tree.labels[second] == "S":
                edits.action[second] = DELETE
                edits.above[node] = "S"
            elif tree.labels[second] == "0":
                edits.action[node] = edits.action[second] = DELETE
    return edits


def arithmetic(tree: Tree, modulus: int) -> Edits:
    """Bound symbols take their values and the bindings go; operators on two numbers become their result mod m."""
    edits, labels, children = no_edits(tree), tree.labels, tree.children
    for node, label in enumerate(labels):
        if label == "eval":
            edits.action[node] = DELETE
        elif label == BIND:
            drop(edits, tree, node)
        elif label in ("add", "sub", "mul") and all(labels[kid] in DIGITS for kid in children[node]):
            a, b = (int(labels[kid]) for kid in children[node])
            fold(edits, tree, node, str({"add": a + b, "sub": a - b, "mul": a * b}[label] % modulus))
    for occurrence, value in bindings(tree):
        edits.action[occurrence] = labels[value]
    return edits


def algebra(tree: Tree) -> Edits:
    """Neutral elements, zeros, x+x, x·x, x−x, signs, powers 0 and 1, and numbers folded while they stay below 10."""
    edits, labels, children = no_edits(tree), tree.labels, tree.children
    action = edits.action
    for node, label in enumerate(labels):
        kids = children[node]
        if label == "simplify":
            action[node] = DELETE
        elif label == "neg":
            below = labels[kids[0]]
            if below == "0":
                action[node] = DELETE
            elif below == "neg" and labels[children[kids[0]][0]] not in ("neg", "0"):
                action[node] = action[kids[0]] = DELETE
        elif label in ("add", "sub", "mul", "pow") and not (label == "mul" and "0" in [labels[kid] for kid in kids]):
            _algebra_pair(edits, tree, node)
    for node, label in enumerate(labels):
        if label == "mul":
            annihilate(edits, tree, node, "0")
    return edits


def _algebra_pair(edits: Edits, tree: Tree, node: int) -> None:
    labels, action = tree.labels, edits.action
    label, (left, right) = labels[node], tree.children[node]
    a, b = labels[left], labels[right]
    if a in DIGITS and b in DIGITS:
        if label == "sub" and int(a) < int(b):
            rest = str(int(b) - int(a))
            action[node] = "neg"
            action[left], action[right] = (None, DELETE) if a == rest else (DELETE, None if b == rest else rest)
            return
        value = {"add": int(a) + int(b), "sub": int(a) - int(b), "mul": int(a) * int(b), "pow": int(a) ** int(b)}[label]
        if value <= 9:
            fold(edits, tree, node, str(value))
        elif label in ("mul", "pow") and b == "1":
            action[node] = action[right] = DELETE
        return
    same = literal(tree, left, "neg"), literal(tree, right, "neg")
    if label == "pow":
        if b == "1":
            action[node] = action[right] = DELETE
        elif b == "0" and a in VARIABLES:
            drop(edits, tree, node)
            action[node] = "1"
    elif label == "mul":
        for kid in (left, right):
            if labels[kid] == "1":
                action[node] = action[kid] = DELETE
                return
        if a == b and a in VARIABLES:
            action[node], action[right] = "pow", "2"
    elif b == "0":
        action[node] = action[right] = DELETE
    elif a == "0":
        action[node], action[left] = DELETE if label == "add" else "neg", DELETE
    elif label == "add" and a == b and a in VARIABLES:
        action[node], action[left] = "mul", "2"
    elif same[0] and same[1] and same[0][0] == same[1][0] and (same[0] == same[1]) == (label == "sub"):
        drop(edits, tree, node)
        action[node] = "0"


def derivative(tree: Tree) -> Edits:
    """d moves down through sums and constant factors and meets powers and functions of x or of (mul c x)."""
    edits, labels, children = no_edits(tree), tree.labels, tree.children
    for node, label in enumerate(labels):
        if label in FUNCTIONS and not children[node]:
            edits.first[node] = "x"  # the copy that a product has just made gets its operand
        elif label == "d":
            _differentiate(edits, tree, node, children[node][0])
    return edits


def _differentiate(edits: Edits, tree: Tree, d: int, node: int) -> None:
    labels, children, action = tree.labels, tree.children, edits.action
    label, kids = labels[node], children[node]
    if label in DIGITS or label == "x":
        action[d], action[node] = DELETE, "1" if label == "x" else "0"
    elif label in ("add", "sub", "neg"):
        action[d] = DELETE
        for kid in kids:
            edits.above[kid] = "d"
    elif label == "pow":
        n = kids[1]
        action[d], edits.first[d] = "mul", labels[n]
        if labels[n] == "2":
            action[node] = action[n] = DELETE
        else:
            action[n] = str(int(labels[n]) - 1)
    elif label == "log":
        action[d], action[node], edits.first[node] = DELETE, "div", "1"
    elif label == "mul" and labels[kids[0]] in DIGITS:
        action[d], edits.above[kids[1]] = DELETE, "d"
    elif label == "mul":  # x·g: g + x·g′
        g = labels[kids[1]]
        action[d], edits.first[d] = "sub" if g == "cos" else "add", g
        _turn(edits, kids[1], g)
    else:  # sin, cos, exp of x or of (mul c x)
        _turn(edits, node, label)
        if labels[kids[0]] == "mul":
            action[d], edits.first[d] = "mul", labels[children[kids[0]][0]]
            edits.above[d] = "neg" if label == "cos" else None
        else:
            action[d] = "neg" if label == "cos" else DELETE


def _turn(edits: Edits, node: int, function: str) -> None:
    """sin′ = cos, cos′ = −sin (the sign is the caller's), exp′ = exp."""
    if function in ("sin", "cos"):
        edits.action[node] = "cos" if function == "sin" else "sin"
