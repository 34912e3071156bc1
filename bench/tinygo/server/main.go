// A mixed server: requests with headers and bodies are parsed, routed, looked up in a store that evicts, and answered.
// Most objects die with their request; sessions and stored bodies live on.
package main

import (
	"bytes"
	"strconv"
	"strings"

	"github.com/glebe-alloc/glebe/bench/tinygo/under"
)

type request struct {
	method, path string
	headers      map[string][]string
	body         []byte
}

type session struct {
	user   string
	seen   []string
	counts map[string]int
}

var sessions = map[string]*session{}
var store = map[string][]byte{}
var order []string // of the store's keys, oldest first

func text(random *under.Random, i int) []byte {
	var b bytes.Buffer
	method := "GET"
	if i%3 == 0 {
		method = "POST"
	}
	b.WriteString(method + " /v1/items/" + strconv.Itoa(random.Below(3000)) + "?page=" + strconv.Itoa(i%10) +
		" HTTP/1.1\r\n")
	b.WriteString("Host: example.test\r\nAccept: text/html, application/json\r\nCookie: session=s" +
		strconv.Itoa(random.Below(500)) + "\r\n")
	for k := 0; k < 8; k++ {
		b.WriteString("X-Header-" + strconv.Itoa(k) + ": value " + strconv.Itoa(random.Below(10000)) + "\r\n")
	}
	b.WriteString("\r\n")
	if method == "POST" {
		b.WriteString(strings.Repeat("field="+strconv.Itoa(i)+"&", 1+random.Below(100)))
	}
	return b.Bytes()
}

func parse(raw []byte) *request {
	head, body, _ := bytes.Cut(raw, []byte("\r\n\r\n"))
	lines := strings.Split(string(head), "\r\n")
	first := strings.Fields(lines[0])
	r := &request{method: first[0], path: first[1], headers: map[string][]string{}, body: body}
	for _, line := range lines[1:] {
		name, value, _ := strings.Cut(line, ":")
		name = strings.ToLower(name)
		for _, part := range strings.Split(value, ",") {
			r.headers[name] = append(r.headers[name], strings.TrimSpace(part))
		}
	}
	return r
}

func (r *request) answer() string {
	path, query, _ := strings.Cut(r.path, "?")
	_, id, _ := strings.Cut(r.headers["cookie"][0], "=")
	s := sessions[id]
	if s == nil {
		s = &session{user: "user of " + id, counts: map[string]int{}}
		sessions[id] = s
	}
	s.seen = append(s.seen, path)
	s.counts[query]++
	if len(s.seen) > 20 {
		delete(sessions, id)
	}
	if r.method == "POST" {
		if _, there := store[path]; !there {
			order = append(order, path)
		}
		store[path] = r.body
		if len(store) > 1000 {
			delete(store, order[0])
			order = order[1:]
		}
	}
	var b strings.Builder
	b.WriteString("HTTP/1.1 200 OK\r\nContent-Length: " + strconv.Itoa(len(store[path])) + "\r\n")
	for name, values := range r.headers {
		if strings.HasPrefix(name, "x-") {
			b.WriteString(strings.ToUpper(name) + ": " + strings.Join(values, ";") + "\r\n")
		}
	}
	b.WriteString("\r\n")
	b.Write(store[path])
	return b.String()
}

var last string

func main() {
	random := under.Random(1)
	under.Run(2000, func(i int) int {
		sum := 0
		for k := 0; k < 4; k++ {
			last = parse(text(&random, i+k)).answer()
			sum += len(last)
		}
		return sum
	})
}
