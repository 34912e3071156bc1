"""Writes the text of a long book, from a fixed seed, for TeX: `generate.py FOLDER CHAPTERS`.

All engines typeset one text, body.tex. book-latex.tex and book-context.tex define its markup, such as \\Chapter and
\\Note. The language is invented: syllables form words, and short words are common, as in real prose, so
that the engines break, hyphenate, kern and index paragraphs as in a real book.
"""

import pathlib
import random
import sys

SEED = 1
ONSETS = "b c d f fi fl g h l m n p r s t v w st tr pr gr ch sh th qu br cl".split()
VOWELS = "a e i o u ea ai ou ie".split()
CODAS = ["", "", "", "n", "r", "s", "t", "l", "nd", "st", "ff", "ck"]
MATHS = [
    r"\int_{0}^{\infty} \frac{x^{%d}}{e^{x} + %d}\,dx = \sum_{k=1}^{n} \frac{\Gamma(k + %d)}{k^{%d}}",
    r"\sqrt{\alpha_{%d}^{2} + \beta_{%d}^{2}} \le \frac{1}{%d}\left(\sum_{i=0}^{%d} |\alpha_{i}| + |\beta_{i}|\right)",
    r"\prod_{p \le %d} \left(1 - \frac{1}{p^{%d}}\right)^{-1} = \sum_{n=1}^{\infty} \frac{1}{n^{%d}} + "
    r"O\left(\frac{\log x}{x^{%d}}\right)",
]


class Writer:
    def __init__(self, seed):
        self.random = random.Random(seed)
        words = {self.invent() for _ in range(6000)}
        self.words = sorted(words, key=lambda word: (len(word), word))
        # Zipf's law: the frequency of the word of rank r is 1/r of the first word's.
        self.weights = [1 / (rank + 2) for rank in range(len(self.words))]
        self.labels = ["preface"]

    def invent(self):
        r = self.random
        return "".join(r.choice(ONSETS) + r.choice(VOWELS) + r.choice(CODAS)
                       for _ in range(r.choice((1, 1, 2, 2, 3, 4))))

    def pick(self, count):
        return self.random.choices(self.words, self.weights, k=count)

    def title(self):
        return " ".join(self.random.sample(self.words[200:], 3)).capitalize()

    def formula(self):
        form = self.random.choice(MATHS)
        return form % tuple(self.random.randint(2, 29) for _ in range(form.count("%d")))

    def sentence(self):
        """Ten to twenty-five words, some emphasised, some in the index, some maths, a comma."""
        r = self.random
        words = self.pick(r.randint(10, 25))
        for at in range(len(words)):
            chance = r.random()
            if chance < 0.02:
                words[at] = rf"\Term{{{words[at]}}}"
            elif chance < 0.04:
                words[at] = rf"\emph{{{words[at]}}}"
            elif chance < 0.06:
                words[at] = rf"${r.choice('abcxyz')}_{{{r.randint(1, 9)}}} + \frac{{{r.randint(1, 9)}}}{{n}}$"
            elif chance < 0.12:
                words[at] += ","
        text = " ".join(words)
        return text[0].upper() + text[1:].rstrip(",") + "."

    def paragraph(self):
        r = self.random
        sentences = [self.sentence() for _ in range(r.randint(3, 7))]
        if r.random() < 0.25:
            sentences[0] += rf"\Note{{{self.sentence()}}}"
        if r.random() < 0.3:
            sentences.append(rf"\See{{{r.choice(self.labels)}}}")
        return "\n".join(sentences) + "\n"

    def rows(self, count):
        r = self.random
        row = lambda: (" ".join(self.pick(2)), r.randint(1, 99999), f"{r.random():.4f}", r.choice(self.words))
        return "\n".join("\\Row" + "".join(f"{{{cell}}}" for cell in row()) for _ in range(count))

    def section(self, label):
        """Paragraphs with displayed formulas between them, and a table or a picture at the end."""
        yield rf"\Section{{{label}}}{{{self.title()}}}"
        self.labels.append(label)
        for number in range(8):
            yield self.paragraph()
            if number % 3 == 1:
                yield rf"\Formula{{{label}f{number}}}{{{self.formula()}}}"
        if self.random.random() < 0.75:
            yield rf"\Table{{{label}t}}{{{self.title()}}}{{{self.rows(8)}}}"
        else:
            yield (rf"\Picture{{{label}p}}{{{self.title()}}}"
                   rf"{{{self.random.randint(5, 9)}}}{{{self.random.randint(2, 3)}}}")

    def book(self, chapters):
        yield rf"\Section{{preface}}{{{self.title()}}}"
        for chapter in range(chapters):
            label = f"c{chapter}"
            yield rf"\Chapter{{{label}}}{{{self.title()}}}"
            self.labels.append(label)
            for number in range(5):
                yield from self.section(f"{label}s{number}")
            yield rf"\LongTable{{{self.rows(60)}}}"


if __name__ == "__main__":
    target = pathlib.Path(sys.argv[1])
    target.mkdir(parents=True, exist_ok=True)
    (target / "body.tex").write_text("\n".join(Writer(SEED).book(int(sys.argv[2]))) + "\n")
