let mk = n: if n == 0 then { v = 0; } else { a = mk (n - 1); b = mk (n - 1); v = n; };
    sum = t: t.v + (if t ? a then sum t.a + sum t.b else 0);
in { s = sum (mk 14); l = builtins.length (builtins.genList (i: { x = toString i; }) 100000); t = builtins.foldl' (a: b: a + b.x) 0 (map (i: { x = i; }) (builtins.genList (i: i) 100000)); }
