//go:build tinygo

// Many requests: each writes JSON, packs it with gzip at changing levels, unpacks, reads and compares it; allocates
// strings of 1 byte to 1 MB; and changes a map that grows and shrinks. Four goroutines take turns, and each yields when
// it holds most.
//
//	soak REQUESTS LIMIT      LIMIT in bytes; 0 instead measures the peak of live bytes, by a collection at each yield
//
// The shapes of requests repeat every 500, their contents do not. Prints "live N" if it measures, "at REQUEST PAGES"
// after each tenth, and "ok".
package main

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"runtime"
	"strconv"
	"strings"
)

//export llvm.wasm.memory.size.i32
func memorySize(index int32) int32

type item struct {
	Name  string            `json:"name"`
	Price float64           `json:"price"`
	Tags  []string          `json:"tags"`
	More  map[string]string `json:"more,omitempty"`
}

type body struct {
	ID    int    `json:"id"`
	Text  string `json:"text"`
	Items []item `json:"items"`
}

const period = 500

// A number in [0, 1) for the request's shape, different for each use.
func shape(i, use int) float64 {
	x := uint32(i%period*7+use)*2654435761 + 12345
	x ^= x >> 15
	x *= 2246822519
	x ^= x >> 13
	return float64(x) / (1 << 32)
}

func makeBody(i int) *body {
	b := &body{ID: i, Text: strings.Repeat(strconv.Itoa(i)+"? ", int(shape(i, 1)*300))}
	for k := 0; k < 1+int(shape(i, 2)*8); k++ {
		b.Items = append(b.Items, item{Name: fmt.Sprintf("item %d of %d", k, i), Price: float64(i%1000) / 4,
			Tags: []string{"a", "b", strconv.Itoa(i * k)},
			More: map[string]string{"key" + strconv.Itoa(k): "value " + strconv.Itoa(i)}})
	}
	return b
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

var large [6]string            // the last ones live on
var kept = map[string][]byte{} // grows and shrinks

func handle(i int) {
	text, err := json.Marshal(makeBody(i))
	must(err)
	var packed bytes.Buffer
	w, err := gzip.NewWriterLevel(&packed, 1+int(shape(i, 3)*9))
	must(err)
	_, err = w.Write(text)
	must(err)
	must(w.Close())
	long := strings.Repeat(string(rune('a'+i%26)), int(math.Exp(shape(i, 4)*math.Log(1<<20))))
	yield()
	r, err := gzip.NewReader(&packed)
	must(err)
	unpacked, err := io.ReadAll(r)
	must(err)
	var back body
	must(json.Unmarshal(unpacked, &back))
	again, err := json.Marshal(back)
	must(err)
	if !bytes.Equal(again, text) || len(back.Items) == 0 || back.Items[0].More["key0"] != "value "+strconv.Itoa(i) {
		panic("request " + strconv.Itoa(i) + " is not what it was")
	}
	large[i%len(large)] = long
	phase := i % period
	if phase < period/2 {
		kept[strconv.Itoa(phase)] = text
		kept[strconv.Itoa(phase)+" again"] = again
	} else {
		delete(kept, strconv.Itoa(phase-period/2))
		delete(kept, strconv.Itoa(phase-period/2)+" again")
	}
	runtime.KeepAlive(w)
}

// Called when a request holds most: the measurement collects; otherwise the next goroutine goes on.
var yield = runtime.Gosched

func main() {
	requests, _ := strconv.Atoi(os.Args[1])
	limit, _ := strconv.Atoi(os.Args[2])
	most := uint64(0)
	if limit > 0 {
		setLimit(uintptr(limit))
	} else {
		yield = func() {
			runtime.Gosched()
			runtime.GC()
			most = max(most, live())
		}
	}
	numbers, done := make(chan int), make(chan bool)
	for k := 0; k < 4; k++ {
		go func() {
			for i := range numbers {
				handle(i)
			}
			done <- true
		}()
	}
	for i := 0; i < requests; i++ {
		if i%(requests/10) == 0 {
			fmt.Println("at", i, memorySize(0))
		}
		numbers <- i
	}
	close(numbers)
	for k := 0; k < 4; k++ {
		<-done
	}
	fmt.Println("at", requests, memorySize(0))
	if limit == 0 {
		fmt.Println("live", most)
	}
	fmt.Println("ok")
}
