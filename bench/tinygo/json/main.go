// JSON trees: documents of some 2 KB are parsed into maps, slices, strings and numbers, and written again; the last
// hundred live. The parser is hand-written, since encoding/json does not build without a scheduler, and its reflection
// would take most of the time.
package main

import (
	"sort"
	"strconv"

	"github.com/glebe-alloc/glebe/bench/tinygo/under"
)

type parser struct {
	text string
	at   int
}

func (p *parser) value() any {
	switch c := p.text[p.at]; c {
	case '{':
		m := map[string]any{}
		for p.at++; p.text[p.at] != '}'; {
			key := p.word()
			p.at++ // the colon
			m[key] = p.value()
			p.comma()
		}
		p.at++
		return m
	case '[':
		var a []any
		for p.at++; p.text[p.at] != ']'; {
			a = append(a, p.value())
			p.comma()
		}
		p.at++
		return a
	case '"':
		return p.word()
	case 't':
		p.at += 4
		return true
	case 'n':
		p.at += 4
		return nil
	}
	start := p.at
	for p.text[p.at] == '-' || p.text[p.at] == '.' || p.text[p.at] >= '0' && p.text[p.at] <= '9' {
		p.at++
	}
	number, err := strconv.ParseFloat(p.text[start:p.at], 64)
	if err != nil {
		panic(err)
	}
	return number
}

func (p *parser) comma() {
	if p.text[p.at] == ',' {
		p.at++
	}
}

// A copy of the text between two quotes; a backslash takes the next byte as it is.
func (p *parser) word() string {
	var out []byte
	for p.at++; p.text[p.at] != '"'; p.at++ {
		if p.text[p.at] == '\\' {
			p.at++
		}
		out = append(out, p.text[p.at])
	}
	p.at++
	return string(out)
}

func write(out []byte, v any) []byte {
	switch v := v.(type) {
	case map[string]any:
		keys := make([]string, 0, len(v))
		for key := range v {
			keys = append(keys, key)
		}
		sort.Strings(keys)
		out = append(out, '{')
		for i, key := range keys {
			if i > 0 {
				out = append(out, ',')
			}
			out = append(write(out, key), ':')
			out = write(out, v[key])
		}
		return append(out, '}')
	case []any:
		out = append(out, '[')
		for i, e := range v {
			if i > 0 {
				out = append(out, ',')
			}
			out = write(out, e)
		}
		return append(out, ']')
	case string:
		out = append(out, '"')
		for i := 0; i < len(v); i++ {
			if v[i] == '"' || v[i] == '\\' {
				out = append(out, '\\')
			}
			out = append(out, v[i])
		}
		return append(out, '"')
	case float64:
		return strconv.AppendFloat(out, v, 'f', -1, 64)
	case bool:
		return append(out, "true"...)
	}
	return append(out, "null"...)
}

func document(random *under.Random) any {
	items := make([]any, 8+random.Below(8))
	for i := range items {
		items[i] = map[string]any{
			"id":    float64(random.Below(1000000)),
			"name":  "item \"" + strconv.Itoa(random.Below(1000)) + "\"",
			"price": float64(random.Below(100000)) / 4,
			"tags":  []any{"red", "green", strconv.Itoa(i), nil, true},
			"size":  map[string]any{"width": float64(i), "height": float64(random.Below(50))},
		}
	}
	return map[string]any{"items": items, "version": "1.0", "total": float64(len(items))}
}

var kept [100]any

func main() {
	random := under.Random(1)
	var texts [16]string
	for i := range texts {
		texts[i] = string(write(nil, document(&random)))
	}
	under.Run(1500, func(i int) int {
		text := texts[i%len(texts)]
		tree := (&parser{text: text}).value()
		kept[random.Below(len(kept))] = tree
		if string(write(nil, tree)) != text {
			panic("not the same")
		}
		return len(text)
	})
}
