"""sympy: polynomials expanded and factored, derivatives, integrals, equations.  algebra.py ROUNDS"""
import sys

from sympy import Matrix, cos, diff, exp, expand, factor, integrate, sin, solve, symbols

x, y, z = symbols("x y z")


def main(rounds):
    for i in range(1, rounds + 1):
        wide = expand((x + i * y + z) ** 9 * (x - y) ** 3)
        print(len(wide.args), factor(expand((x + i) ** 4 * (x**2 - y) ** 2)))
        print(diff(exp(x * y) * sin(x) ** i * cos(y), x, y, x))
        print(integrate(x**i * exp(x) + 1 / (x**2 + 1), x))
        print(solve([x**2 + y - i, x + y**2 - 1], [x, y], dict=True)[0] is not None)
        print(Matrix(4, 4, lambda r, c: x**r + c * i).det())


main(int(sys.argv[1]))
