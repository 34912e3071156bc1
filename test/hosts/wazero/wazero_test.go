// Package wazero tests modules with glebe in wazero, embedded in Go as its users do: programs that run to their end, in
// TinyGo and in C; a module that is called thousands of times; many instances at once; and a limit on memory.
package wazero

import (
	"bytes"
	"context"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"

	"github.com/glebe-alloc/glebe/test/hosts"
)

// engine compiles `module` in a runtime with WASI and at most `pages` of memory per instance.
func engine(t *testing.T, module []byte, pages uint32) (wazero.Runtime, wazero.CompiledModule) {
	t.Helper()
	ctx := context.Background()
	runtime := wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfig().WithMemoryLimitPages(pages))
	t.Cleanup(func() { runtime.Close(ctx) })
	wasi_snapshot_preview1.MustInstantiate(ctx, runtime)
	compiled, err := runtime.CompileModule(ctx, module)
	if err != nil {
		t.Fatal(err)
	}
	return runtime, compiled
}

const most = 65536

// The programs that test/wasm and test/tinygo run in other engines. wazero's command runs TinyGo's too, so here they
// run only if Long.
func TestPrograms(t *testing.T) {
	programs := map[string]func(t *testing.T) []byte{
		"C": func(t *testing.T) []byte { return hosts.BuildC(t, "test/wasm/family.c") },
	}
	if hosts.Long() {
		programs["objects"] = func(t *testing.T) []byte { return hosts.Build(t, "../../tinygo/objects", "-scheduler=none") }
		programs["goroutines"] = func(t *testing.T) []byte { return hosts.Build(t, "../../tinygo/goroutines") }
	}
	for name, build := range programs {
		t.Run(name, func(t *testing.T) {
			var said bytes.Buffer
			runtime, compiled := engine(t, build(t), most)
			configuration := wazero.NewModuleConfig().WithStdout(&said).WithStderr(&said)
			_, err := runtime.InstantiateModule(context.Background(), compiled, configuration)
			if said.String() != "ok\n" || err != nil && !strings.HasSuffix(err.Error(), "exit_code(0)") {
				t.Fatalf("it said %q and ended with %v", said.String(), err)
			}
		})
	}
}

// store is an instance of test/hosts/store.
type store struct {
	t      *testing.T
	module api.Module
	block  uint32 // of the module's malloc
}

func newStore(t *testing.T, runtime wazero.Runtime, compiled wazero.CompiledModule, said *bytes.Buffer) *store {
	t.Helper()
	configuration := wazero.NewModuleConfig().WithName("").WithStartFunctions("_initialize").
		WithStdout(said).WithStderr(said)
	module, err := runtime.InstantiateModule(context.Background(), compiled, configuration)
	if err != nil {
		t.Fatal(err)
	}
	return &store{t: t, module: module}
}

func (s *store) call(name string, arguments ...uint64) uint32 {
	s.t.Helper()
	results, err := s.module.ExportedFunction(name).Call(context.Background(), arguments...)
	if err != nil {
		s.t.Fatalf("%s: %v", name, err)
	}
	if len(results) == 0 {
		return 0
	}
	return uint32(results[0])
}

// take passes a text as hosts do: malloc, write, call, free.
func (s *store) take(text string) uint32 {
	s.t.Helper()
	at := s.call("malloc", uint64(len(text)))
	if at == 0 || !s.module.Memory().WriteString(at, text) {
		s.t.Fatal("no memory for a text")
	}
	count := s.call("take", uint64(at), uint64(len(text)))
	s.call("free", uint64(at))
	return count
}

// fill takes texts of 1 to 400 letters, and makes the store count those of a few lengths.
func (s *store) fill(from, to int) {
	s.t.Helper()
	for i := from; i < to; i++ {
		count := s.take(strings.Repeat(string(rune('a'+i%26)), i%400+1))
		if want := min(i+1, 500); count != uint32(want) {
			s.t.Errorf("after %d texts there are %d and not %d", i+1, count, want)
			return
		}
		if i%400 == 399 {
			// Of the last 500 texts the lengths 301 to 400 occur twice, once a store is full.
			if short, long := s.call("find", 300), s.call("find", 400); short != 1 || long != uint32(min(i/400+1, 2)) {
				s.t.Errorf("after %d texts %d and %d of them are 300 and 400 long", i+1, short, long)
			}
		}
	}
}

func (s *store) pages() uint32 { return s.module.Memory().Size() >> 16 }

// schedulers runs a test with each scheduler. Memory counts as flat if it grows by at most `spare`: it grows by at
// least two pages, and under asyncify every call is a goroutine with a stack of 64 KiB.
func schedulers(t *testing.T, test func(t *testing.T, module []byte, spare uint32)) {
	for scheduler, spare := range map[string]uint32{"none": 4, "asyncify": 16} {
		t.Run(scheduler, func(t *testing.T) {
			test(t, hosts.Build(t, "../store", "-buildmode=c-shared", "-scheduler="+scheduler), spare)
		})
	}
}

func TestCalls(t *testing.T) {
	schedulers(t, func(t *testing.T, module []byte, spare uint32) {
		runtime, compiled := engine(t, module, most)
		s := newStore(t, runtime, compiled, new(bytes.Buffer))
		s.fill(0, 4000)
		before := s.pages() // memory never shrinks
		end := 4000 + hosts.Times(8000)
		s.fill(4000, end)
		if after := s.pages(); after-before > spare {
			t.Errorf("memory grew from %d pages to %d over %d calls", before, after, 3*(end-4000))
		}
		// Control: held bytes make it grow.
		s.call("hold", 10<<20)
		if after := s.pages(); after < before+150 {
			t.Errorf("10 MiB are held, and memory has %d pages after %d", after, before)
		}

		busy := newStore(t, runtime, compiled, new(bytes.Buffer))
		busy.call("stress", 1)
		busy.fill(0, 450)
	})
}

// A goroutine that has ended leaves numbers on its stack that look like references to the previous goroutine's stack.
func TestStacksOfTheEnded(t *testing.T) {
	schedulers(t, func(t *testing.T, module []byte, spare uint32) {
		runtime, compiled := engine(t, module, most)
		s := newStore(t, runtime, compiled, new(bytes.Buffer))
		for range 1000 {
			s.call("used")
		}
		if pages := s.pages(); pages/2 > 2+spare {
			t.Errorf("a thousand calls took %d pages", pages)
		}
	})
}

func TestInstancesAtOnce(t *testing.T) {
	runtime, compiled := engine(t, hosts.Build(t, "../store", "-buildmode=c-shared"), most)
	var all sync.WaitGroup
	for range 8 {
		s := newStore(t, runtime, compiled, new(bytes.Buffer))
		all.Go(func() { s.fill(0, hosts.Times(2000)) })
	}
	all.Wait()
}

var ended = regexp.MustCompile(`panic: glebe: out of memory: 1048576 bytes wanted, ` +
	`\d+ of \d+ in use, \d+ live after \d+ collections`)

// If the host gives no more memory, the module prints a line before it traps; other instances are not affected.
func TestLimit(t *testing.T) {
	schedulers(t, func(t *testing.T, module []byte, _ uint32) {
		runtime, compiled := engine(t, module, 200)
		var said bytes.Buffer
		bystander, s := newStore(t, runtime, compiled, new(bytes.Buffer)), newStore(t, runtime, compiled, &said)
		held, err := 0, error(nil)
		for ; held < 20 && err == nil; held++ {
			_, err = s.module.ExportedFunction("hold").Call(context.Background(), 1<<20)
		}
		if err == nil || !ended.MatchString(said.String()) {
			t.Fatalf("%d MiB are held in 200 pages; it ended with %v and said %q", held, err, said.String())
		}
		if held < 10 { // of 12.5 MiB
			t.Errorf("only %d MiB could be held", held-1)
		}
		bystander.fill(0, 450)
	})
}
