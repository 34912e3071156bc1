//go:build tinygo && !scheduler.none

package main

import (
	"encoding/json"
	"runtime"
)

// A waiting goroutine holds the kids in its frames, also in deep ones, beside numbers. A request for -1 ends it.
type sleeper struct {
	ask    chan int
	answer chan *node
	sum    chan uint32
}

//go:noinline
func (h *sleeper) sleep(depth int, of [kids]*node) int {
	var numbers [24]uint32
	fill(numbers[:])
	if depth > 0 {
		return h.sleep(depth-1, of) + int(numbers[depth]&1)
	}
	total := sum(numbers[:])
	for i := range h.ask {
		if i == -1 {
			return int(numbers[0])
		}
		if i == kids {
			require(sum(numbers[:]) == total, "a frame's numbers")
			h.sum <- total
		} else {
			h.answer <- of[i]
		}
	}
	return 0
}

var sleepers []chan int

func asleep(of [kids]*node) holder {
	h := &sleeper{make(chan int), make(chan *node), make(chan uint32)}
	if len(sleepers) == 30 { // each keeps its kids until the end
		return reflected(of)
	}
	sleepers = append(sleepers, h.ask)
	go h.sleep(below(6), of)
	if below(2) == 0 {
		runtime.Gosched()
	}
	return h
}

func (h *sleeper) kid(i int) *node {
	h.ask <- i
	return <-h.answer
}

func (h *sleeper) words() uint32 {
	h.ask <- kids
	return <-h.sum
}

func wake() {
	for _, ask := range sleepers {
		ask <- -1
	}
	sleepers = nil
	runtime.Gosched()
}

type inputRecord struct {
	ID    uint32
	Name  string
	Cells [600]uint32
}

// Values parsed from a request's body last, whatever the body contains.
func parsed() {
	var in []*inputRecord
	text := `[{"ID":3090937205,"Name":"a"},{"ID":1,"Name":"b"},
		{"ID":3090937205,"Name":"c","Cells":[3090937205,0,4096]}]`
	require(json.Unmarshal([]byte(text), &in) == nil && len(in) == 3, "parsing")
	for range 3 {
		runtime.GC()
		scribble()
	}
	require(in[0].ID == canary && in[0].Name == "a" && in[1].ID == 1, "what was parsed")
	require(in[2].ID == canary && in[2].Cells[2] == 4096, "what was parsed")
}
