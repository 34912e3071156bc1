//go:build tinygo

// A guest for hosts of http-wasm: reads and rewrites headers and bodies in both directions.
//
//	request   each header X-In-NAME gets a twin X-Out-NAME in capitals; the body is put into capitals
//	response  the body is reversed; X-Pages is memory.size, X-Collections how often this instance collected,
//	          X-Requests how many requests it had
//
// Its configuration is a number n: it collects at every n-th allocation; 0: only when due.
package main

// static int pages(void) { return (int)__builtin_wasm_memory_size(0); }
import "C"

import (
	"bytes"
	"slices"
	"strconv"
	"strings"

	glebe "github.com/glebe-alloc/glebe/bindings/tinygo"
	"github.com/http-wasm/http-wasm-guest-tinygo/handler"
	"github.com/http-wasm/http-wasm-guest-tinygo/handler/api"
)

// The module is a reactor: inits run, main does not.
func init() {
	every, err := strconv.Atoi(string(handler.Host.GetConfig()))
	if err != nil {
		panic(err)
	}
	glebe.SetStress(every)
	handler.Host.EnableFeatures(api.FeatureBufferRequest | api.FeatureBufferResponse)
	handler.HandleRequestFn, handler.HandleResponseFn = request, response
}

func main() {}

func read(body api.Body) []byte {
	var all bytes.Buffer
	if _, err := body.WriteTo(&all); err != nil {
		panic(err)
	}
	return all.Bytes()
}

var requests int

func request(r api.Request, _ api.Response) (next bool, context uint32) {
	requests++
	for _, name := range r.Headers().Names() {
		if rest, found := strings.CutPrefix(strings.ToLower(name), "x-in-"); found {
			value, _ := r.Headers().Get(name)
			r.Headers().Set("X-Out-"+rest, strings.ToUpper(value))
		}
	}
	r.Body().Write(bytes.ToUpper(read(r.Body())))
	return true, 0
}

func response(_ uint32, _ api.Request, r api.Response, _ bool) {
	text := read(r.Body())
	slices.Reverse(text)
	r.Body().Write(text)
	r.Headers().Set("X-Pages", strconv.Itoa(int(C.pages())))
	r.Headers().Set("X-Requests", strconv.Itoa(requests))
	r.Headers().Set("X-Collections", strconv.Itoa(int(glebe.ReadStats().Collections)))
}
