//go:build tinygo

// Goroutines, fmt, maps, strings and channels, all allocating, with a collection also at every 300th allocation:
// objects that stacks refer to must last. Prints "ok".
package main

import (
	"fmt"
	"os"
	"runtime"
	"strings"

	glebe "github.com/glebe-alloc/glebe/bindings/tinygo"
	"github.com/glebe-alloc/glebe/test/tinygo/stack"
)

type tree struct {
	left, right *tree
	value       int
}

func build(depth int) *tree {
	if depth == 0 {
		return &tree{value: 1}
	}
	return &tree{build(depth - 1), build(depth - 1), 1}
}

func (t *tree) sum() int {
	if t == nil {
		return 0
	}
	return t.value + t.left.sum() + t.right.sum()
}

func worker(i int, out chan<- string) {
	counts := map[string]int{}
	kept := build(6)
	for k := 0; k < 2000; k++ {
		counts[fmt.Sprintf("key %d", k%100)] += k
		if k%250 == 0 {
			runtime.Gosched()
		}
	}
	sum := 0
	for k := 0; k < 100; k++ {
		sum += counts[fmt.Sprint("key ", k)]
	}
	out <- strings.Repeat(fmt.Sprintf("%d:%d:%d:%d ", i, len(counts), sum, kept.sum()), 3)
}

//go:noinline
func finalizerSet(finalized chan<- int) { // in a frame that has returned before the collection
	object := &tree{value: 42}
	runtime.SetFinalizer(object, func(t *tree) { finalized <- t.value })
}

// Deep frames of goroutines hold objects, and have returned when the goroutine waits or collects: their objects become
// unreachable. Objects of frames that have not returned stay.
type deep struct{ values [20]int }

var dropped int

//go:noinline
func descend(depth int) int {
	if depth == 0 {
		return len(fmt.Sprint(depth))
	}
	object := &deep{}
	runtime.SetFinalizer(object, func(*deep) { dropped++ })
	return descend(depth-1) + object.values[2] + 1
}

func deadFrames() {
	const goroutines, depth = 10, 30
	dropped = 0
	done, goOn := make(chan int), make(chan bool)
	for i := 0; i < goroutines; i++ {
		go func() {
			kept := &deep{}
			kept.values[0] = i
			runtime.SetFinalizer(kept, func(*deep) { dropped += 1000000 })
			descend(depth)
			done <- 0
			<-goOn
			done <- kept.values[0]
		}()
	}
	for i := 0; i < goroutines; i++ {
		<-done
	}
	for i := 0; i < 20 && dropped < goroutines*depth; i++ {
		runtime.GC()
		runtime.Gosched()
	}
	if dropped < goroutines*depth*3/4 || dropped > goroutines*depth { // a few words in live frames were never written
		fmt.Println(dropped, "objects of dead frames found unreachable, of", goroutines*depth)
		os.Exit(1)
	}
	sum := 0
	for i := 0; i < goroutines; i++ {
		goOn <- true
		sum += <-done
	}
	if sum != goroutines*(goroutines-1)/2 {
		fmt.Println("a waiting goroutine lost what it held:", sum)
		os.Exit(1)
	}
}

//go:noinline
func neighbour(freed *int) {
	object := new([8192]byte)
	object[1] = 1
	runtime.SetFinalizer(object, func(*[8192]byte) { *freed++ })
}

// The object after the stack of a waiting goroutine: the goroutine's Task has the end address of the stack.
func neighbours() {
	const count = 40
	freed, stop := 0, make(chan bool)
	below := make([]byte, 4<<20) // fewer plain numbers look like addresses above this
	for range count {
		go func() { <-stop }()
		neighbour(&freed)
		runtime.Gosched()
	}
	glebe.SetStress(0)
	for i := 0; i < 4 && freed < count; i++ {
		stack.Clobber(200)
		runtime.GC()
		runtime.Gosched()
	}
	close(stop)
	below[0] = 1
	if freed < count*3/4 { // constants look like the addresses of some
		fmt.Println(freed, "neighbours of stacks found unreachable, of", count)
		os.Exit(1)
	}
}

func main() {
	deadFrames()
	glebe.SetStress(300)
	long := build(12)
	out := make(chan string)
	for i := 0; i < 8; i++ {
		go worker(i, out)
	}
	seen := map[string]bool{}
	for i := 0; i < 8; i++ {
		seen[<-out] = true
	}
	for i := 0; i < 8; i++ {
		if want := strings.Repeat(fmt.Sprintf("%d:100:1999000:127 ", i), 3); !seen[want] {
			fmt.Println("missing", want, "in", seen)
			os.Exit(1)
		}
	}
	finalized := make(chan int, 1)
	finalizerSet(finalized)
	for i := 0; i < 100 && len(finalized) == 0; i++ {
		_ = build(8)
		runtime.GC()
		runtime.Gosched()
	}
	if len(finalized) != 1 || <-finalized != 42 {
		fmt.Println("the finalizer did not run")
		os.Exit(1)
	}
	stats := glebe.ReadStats()
	if long.sum() != 8191 || stats.Collections < 20 || stats.HeapBytes > 8<<20 {
		fmt.Println(long.sum(), stats)
		os.Exit(1)
	}
	neighbours()
	fmt.Println("ok")
}
