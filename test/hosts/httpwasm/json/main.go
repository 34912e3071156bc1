//go:build tinygo

// A guest for hosts of http-wasm that reads an order as JSON and writes a summary as JSON, by encoding/json and its
// reflection: structs, slices, maps, interfaces and strings live for a request each. The answer's headers X-Pages,
// X-Collections and X-Requests are those of guest/main.go.
package main

// static int pages(void) { return (int)__builtin_wasm_memory_size(0); }
import "C"

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"

	glebe "github.com/glebe-alloc/glebe/bindings/tinygo"
	"github.com/http-wasm/http-wasm-guest-tinygo/handler"
	"github.com/http-wasm/http-wasm-guest-tinygo/handler/api"
)

type item struct {
	Name  string         `json:"name"`
	Price float64        `json:"price"`
	Tags  []string       `json:"tags"`
	Extra map[string]any `json:"extra"`
}

type order struct {
	ID    int     `json:"id"`
	Items []*item `json:"items"`
}

type summary struct {
	ID    int            `json:"id"`
	Total float64        `json:"total"`
	Names []string       `json:"names"`
	Tags  map[string]int `json:"tags"`
	Last  map[string]any `json:"last"`
}

func init() {
	handler.Host.EnableFeatures(api.FeatureBufferRequest | api.FeatureBufferResponse)
	handler.HandleRequestFn, handler.HandleResponseFn = request, response
}

func main() {}

var requests int

func request(r api.Request, answer api.Response) (next bool, context uint32) {
	requests++
	var body bytes.Buffer
	if _, err := r.Body().WriteTo(&body); err != nil {
		panic(err)
	}
	text, err := summarize(body.Bytes())
	if err != nil {
		answer.SetStatusCode(400)
		answer.Body().WriteString(err.Error())
		figures(answer)
		return false, 0
	}
	r.Body().Write(text)
	return true, 0
}

func summarize(text []byte) ([]byte, error) {
	var o order
	if err := json.Unmarshal(text, &o); err != nil {
		return nil, fmt.Errorf("no order: %w", err)
	}
	s := summary{ID: o.ID, Tags: map[string]int{}}
	for _, i := range o.Items {
		s.Total += i.Price
		s.Names = append(s.Names, i.Name)
		for _, tag := range i.Tags {
			s.Tags[tag]++
		}
		s.Last = i.Extra
	}
	return json.Marshal(s)
}

func response(_ uint32, _ api.Request, r api.Response, _ bool) { figures(r) }

func figures(r api.Response) {
	r.Headers().Set("X-Pages", strconv.Itoa(int(C.pages())))
	r.Headers().Set("X-Requests", strconv.Itoa(requests))
	r.Headers().Set("X-Collections", strconv.Itoa(int(glebe.ReadStats().Collections)))
}
