\version "2.24.0"
\repeat unfold 40 { c'4 d' e' f' g' a' b' c'' }
