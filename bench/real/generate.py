"""Writes the inputs of the real programs into a directory.

    generate.py DIRECTORY

Everything is computed from fixed seeds, so the inputs are the same on every
machine, byte for byte. Nothing here is measured.
"""
import random
import sys
from pathlib import Path


def sqlite(r):
    """Tables with indexes: bulk insert, joins, updates, deletes, sorting."""
    yield "PRAGMA journal_mode=OFF; PRAGMA temp_store=MEMORY; BEGIN;"
    yield "CREATE TABLE item(id INTEGER PRIMARY KEY, name TEXT, grp INT, price REAL);"
    yield "CREATE TABLE sale(id INTEGER PRIMARY KEY, item INT, day INT, count INT, note TEXT);"
    yield "CREATE INDEX item_name ON item(name); CREATE INDEX sale_item ON sale(item, day);"
    for i in range(4000):
        yield f"INSERT INTO item VALUES({i},'item {r.randrange(10**9)}',{i % 97},{r.randrange(10000) / 100});"
    for i in range(40000):
        note = "x" * r.randrange(120)
        yield f"INSERT INTO sale VALUES({i},{r.randrange(4000)},{r.randrange(365)},{r.randrange(20)},'{note}');"
    yield "COMMIT;"
    for k in range(6):
        yield (f"SELECT grp, count(*), sum(price * count) FROM item JOIN sale ON sale.item = item.id "
               f"WHERE day % 7 = {k} GROUP BY grp ORDER BY 3 DESC LIMIT 5;")
        yield ("SELECT substr(note, 1, 9) || name AS s, sum(count) FROM item JOIN sale ON sale.item = item.id GROUP "
               "BY s ORDER BY s LIMIT 3;")
        yield f"UPDATE sale SET note = note || note || 'changed' WHERE item % 11 = {k};"
        yield f"DELETE FROM sale WHERE day % 29 = {k};"
        yield "SELECT group_concat(name, '|') FROM (SELECT name FROM item ORDER BY price, name) LIMIT 1;"
    yield "SELECT count(*), sum(length(note)) FROM sale;"


def large_c(r, functions=45):
    """A C file of many middling functions, as a generated parser has them."""
    yield "typedef struct node { struct node *next; int kind; long value; char name[32]; } node;"
    yield "extern int report(const char *format, ...);"
    for i in range(functions):
        yield f"static long step_{i}(node *n, long a, long b, int mode) {{"
        yield "  long sum = 0, i, j; long table[16] = {0};"
        yield "  switch (mode) {"
        for c in range(6):
            k = r.randrange(1, 1000)
            yield (f"  case {c * 3 + i % 3}: for (i = 0; i < a; i++) {{ table[i & 15] += n->value * {k} + (b >> "
                   f"{k % 13}); "
                   f"if (table[i & 15] > {k * 100}) {{ sum += table[(i + {k}) & 15]; n = n->next ? n->next : n; }} }} "
                   "break;")
        yield "  default: for (i = 0; i < a; i++) for (j = i; j < b; j++) sum ^= (i * j) + table[(i ^ j) & 15]; }"
        if i:
            yield f"  if (sum & {1 << (i % 20)}) sum += step_{r.randrange(i)}(n, b, a, mode + 1);"
        yield f'  if (sum == {i}) report("%ld in {i}: %s", sum, n->name);'
        yield "  return sum; }"
    yield "long run(node *n, int mode) { long sum = 0;"
    for i in range(functions):
        yield f"  sum += step_{i}(n, sum, {i}, mode);"
    yield "  return sum; }"


def heavy_cc(r, types=3):
    """A C++ file that instantiates much of the standard library."""
    for header in ("algorithm", "functional", "map", "memory", "numeric", "regex", "set", "sstream", "string",
                   "tuple", "unordered_map", "variant", "vector"):
        yield f"#include <{header}>"
    for i in range(types):
        fields = " ".join(f"int f{k} = {r.randrange(100)};" for k in range(4))
        yield (f"struct T{i} {{ {fields} std::string name; bool operator<(const T{i} &o) const {{ return f{i % 4} < "
               f"o.f{i % 4}; }} }};")
        yield (f"int use{i}(std::istream &in) {{ std::map<std::string, std::vector<T{i}>> m; std::set<T{i}> s; "
               f"std::unordered_map<int, std::shared_ptr<T{i}>> u; std::variant<int, T{i}, std::string> v; T{i} t; "
               f"while (in >> t.f0 >> t.name) {{ m[t.name].push_back(t); s.insert(t); u[t.f0] = "
               f"std::make_shared<T{i}>(t); v = t; }} "
               f"std::vector<T{i}> all; for (auto &[k, w] : m) all.insert(all.end(), w.begin(), w.end()); "
               f"std::sort(all.begin(), all.end(), [](auto &a, auto &b) {{ return std::tie(a.name, a.f1) < "
               f"std::tie(b.name, b.f1); }}); "
               f"std::function<int(const T{i} &)> f = [&](const T{i} &x) {{ return x.f{i % 4} + (int)s.size(); }}; "
               f"std::ostringstream o; for (auto &x : all) o << f(x) << x.name; "
               f"return std::accumulate(all.begin(), all.end(), 0, [&](int n, auto &x) {{ return n + f(x); }}) + "
               f"(int)o.str().size() + (int)v.index(); }}")


def smt2(r, machines=11, jobs=11):
    """Job-shop scheduling with linear arithmetic: z3 searches and backtracks."""
    yield "(set-logic QF_IDL)"
    length = [[r.randrange(1, 30) for _ in range(machines)] for _ in range(jobs)]
    order = [r.sample(range(machines), machines) for _ in range(jobs)]
    for j in range(jobs):
        for m in range(machines):
            yield f"(declare-fun s_{j}_{m} () Int) (assert (>= s_{j}_{m} 0))"
    for j in range(jobs):
        for a, b in zip(order[j], order[j][1:]):
            yield f"(assert (>= (- s_{j}_{b} s_{j}_{a}) {length[j][a]}))"
    for m in range(machines):
        for a in range(jobs):
            for b in range(a):
                yield (f"(assert (or (>= (- s_{a}_{m} s_{b}_{m}) {length[b][m]}) "
                       f"(>= (- s_{b}_{m} s_{a}_{m}) {length[a][m]})))")
    least = max(max(sum(row) for row in length), max(sum(row[m] for row in length) for m in range(machines)))
    for percent in (125, 112):
        bound = least * percent // 100
        yield "(push)"
        for j in range(jobs):
            last = order[j][-1]
            yield f"(assert (<= s_{j}_{last} {bound - length[j][last]}))"
        yield "(check-sat)"
        yield "(pop)"


def postscript(r, pages=10):
    """Pages of text, curves, shadings and clipped patterns."""
    yield "%!PS-Adobe-3.0"
    for page in range(pages):
        for _ in range(60):
            words = " ".join("".join(r.choices("etaoinshrdlu", k=r.randrange(2, 9))) for _ in range(9))
            face = r.choice(["Times-Roman", "Helvetica", "Courier", "Times-Italic"])
            yield (f"/{face} findfont {r.randrange(7, 19)} scalefont setfont {r.randrange(30, 200)} "
                   f"{r.randrange(30, 760)} moveto ({words}) show")
        for _ in range(250):
            c = " ".join(str(r.randrange(0, 780)) for _ in range(8))
            yield (f"{r.random():.3f} {r.random():.3f} {r.random():.3f} setrgbcolor newpath {c.rsplit(' ', 6)[0]} "
                   f"moveto {' '.join(c.split()[2:])} curveto stroke")
        for _ in range(12):
            x, y = r.randrange(500), r.randrange(700)
            yield (f"gsave {x} {y} 90 90 rectclip << /ShadingType 3 /ColorSpace /DeviceRGB /Coords [{x + 40} {y + 40} "
                   f"5 {x + 40} {y + 40} 60] "
                   f"/Function << /FunctionType 2 /Domain [0 1] /C0 [{r.random():.2f} 0 1] /C1 [1 {r.random():.2f} 0] "
                   "/N 1 >> >> shfill grestore")
        yield "showpage"


def words(r, count):
    return " ".join("".join(r.choices("etaoinshrdlucmfwyp", k=r.randrange(2, 11))) for _ in range(count))


def orders_xml(r, orders=6000):
    """Orders with attributes, items and text: lxml reads them."""
    yield '<?xml version="1.0"?><orders>'
    for i in range(orders):
        yield f'<order id="o{i}" state="{r.choice(["open", "sent", "closed"])}"><customer>{words(r, 2)}</customer>'
        for _ in range(r.randrange(1, 7)):
            yield (f'  <item price="{r.randrange(10000) / 100}" '
                   f'count="{r.randrange(1, 6)}"><name>{words(r, 3)}</name></item>')
        yield f"  <note>{words(r, r.randrange(30))}</note></order>"
    yield "</orders>"


def book_tex(r, sections=180):
    """Plain TeX: paragraphs, mathematics, tables."""
    yield r"\pdfvariable suppressoptionalinfo 511 \font\big=cmr17"
    for i in range(sections):
        yield rf"\bigskip\noindent{{\big {i}. {words(r, 4)}}}\par"
        for _ in range(6):
            yield words(r, r.randrange(60, 160)) + r".\par"
            yield (rf"$$\sum_{{k=0}}^{{{r.randrange(99)}}} {{x^k\over k+{r.randrange(9)}}} = \int_0^{r.randrange(9)} "
                   rf"f(t)\,dt$$")
        yield r"$$\vbox{\halign{\hfil#\quad&#\hfil\cr"
        for _ in range(20):
            yield rf"{r.randrange(10**6)}&{words(r, 5)}\cr"
        yield "}}$$"
    yield r"\bye"


def scene_pov(r, spheres=900):
    """Spheres and unions under two lights."""
    yield '#version 3.7; global_settings { assumed_gamma 1 } camera { location <0,12,-24> look_at <0,0,0> }'
    yield "light_source { <30,40,-30> rgb 1 } light_source { <-20,30,-10> rgb <0.4,0.4,0.6> }"
    yield "plane { y,-3 pigment { checker rgb 0.9 rgb 0.2 } finish { reflection 0.2 } }"
    for _ in range(spheres):
        x, y, z = (r.uniform(-10, 10) for _ in range(3))
        colour = ",".join(f"{r.random():.2f}" for _ in range(3))
        yield (f"union {{ sphere {{ <{x:.3f},{y / 3:.3f},{z:.3f}>,{r.uniform(0.1, 0.7):.3f} }} "
               f"cone {{ <{x:.3f},{y / 3:.3f},{z:.3f}>,0.2,<{x:.3f},{y / 3 + 1:.3f},{z:.3f}>,0 }} "
               f"texture {{ pigment {{ rgb <{colour}> }} normal {{ bumps 0.3 scale 0.2 }} finish {{ phong 0.6 }} }} }}")


def picture_ppm(r, width=480, height=320):
    """A picture of gradients with noise, as text."""
    yield f"P3 {width} {height} 255"
    for y in range(height):
        yield " ".join(f"{x * 255 // width} {(x + y) % 256 // 2 + r.randrange(64)} {y * 255 // height}"
                       for x in range(width))


def large_rs(r, modules=4):
    """A Rust library of traits, generics, closures and maps."""
    yield "#![allow(dead_code)] use std::collections::{BTreeMap, HashMap}; use std::fmt::Debug;"
    yield "pub trait Step: Debug + Clone { type Out: Debug + Ord + Clone; fn step(&self, n: usize) -> Vec<Self::Out>; }"
    for i in range(modules):
        fields = ", ".join(f"pub f{k}: {r.choice(['u32', 'String', 'Vec<u64>', 'Option<Box<str>>', 'i64'])}"
                           for k in range(6))
        yield f"pub mod m{i} {{ use super::*;"
        yield f"#[derive(Debug, Clone, PartialEq, PartialOrd, Default)] pub struct S {{ {fields} }}"
        yield ("#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)] pub enum E { A(u32), B { name: String "
               "}, C(Vec<E>) }")
        yield (f"impl Step for S {{ type Out = E; fn step(&self, n: usize) -> Vec<E> {{ let mut m: BTreeMap<String, "
               "Vec<E>> = BTreeMap::new(); "
               f"for k in 0..n {{ m.entry(format!(\"{{}}\", k % {r.randrange(3, 99)})).or_default().push(if k % 2 == "
               f"0 {{ E::A(k as u32) }} "
               f"else {{ E::B {{ name: format!(\"{{:?}} {{k}}\", self) }} }}); }} "
               "let mut all: Vec<E> = m.into_values().flatten().filter(|e| !matches!(e, "
               f"E::A({r.randrange(50)}))).collect(); all.sort(); all.dedup(); all }} }}")
        yield (f"pub fn run(v: &[S]) -> HashMap<String, usize> {{ v.iter().flat_map(|s| "
               f"s.step({r.randrange(5, 50)})).map(|e| match e {{ "
               f"E::A(n) => (n.to_string(), n as usize), E::B {{ name }} => {{ let n = name.len(); (name, n) }}, "
               f"E::C(v) => (format!(\"{{v:?}}\"), v.len()) }})"
               f".fold(HashMap::new(), |mut m, (k, n)| {{ *m.entry(k).or_insert(0) += n; m }}) }} }}")


def history(r, commits=700, files=60):
    """What git fast-import reads: commits that each change some lines of some files."""
    content = {f"src/part{i % 7}/file{i}.txt": [words(r, 9) for _ in range(300)] for i in range(files)}
    for commit in range(commits):
        yield (f"commit refs/heads/main\nmark :{commit + 1}\ncommitter A <a@example.org> {1600000000 + commit * 600} "
               "+0000")
        yield f"data {len(str(commit))}\n{commit}"
        if commit:
            yield f"from :{commit}"
        for name in content if not commit else r.sample(sorted(content), 4):
            lines = content[name]
            for _ in range(8):
                lines[r.randrange(len(lines))] = words(r, 9)
            lines.insert(r.randrange(len(lines)), words(r, 5))
            text = "\n".join(lines)
            yield f"M 100644 inline {name}\ndata {len(text)}\n{text}"


def page_html(r, parts=40):
    """A page that includes another, for nginx."""
    yield "<!doctype html><title>page</title>"
    for _ in range(parts):
        yield f"<h2>{words(r, 4)}</h2><p>{words(r, 60)}</p><!--#include virtual=\"/part.html\" -->"


def part_html(r):
    yield (f"<ul><li>{words(r, 20)}</li><!--# if expr=\"$arg_n\" --><li><!--# echo var=\"arg_n\" --></li><!--# endif "
           "--></ul>")


INPUTS = {"sqlite.sql": sqlite, "large.c": large_c, "heavy.cc": heavy_cc, "schedule.smt2": smt2, "pages.ps": postscript,
          "orders.xml": orders_xml, "book.tex": book_tex, "scene.pov": scene_pov, "picture.ppm": picture_ppm,
          "large.rs": large_rs, "history.fi": history, "pages/page.html": page_html, "pages/part.html": part_html}


def main(directory):
    directory.mkdir(parents=True, exist_ok=True)
    for name, lines in INPUTS.items():
        (directory / name).parent.mkdir(exist_ok=True)
        (directory / name).write_text("".join(line + "\n" for line in lines(random.Random(name))))


main(Path(sys.argv[1]))
