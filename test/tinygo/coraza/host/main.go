// Runs the guest in wazero, and compares each of its verdicts with that of the same firewall under Go.
//
//	host [-files *.conf] [-stress N] [-rounds N] [-verbose] GUEST.wasm...
//
// The requests are those of the core rule set's own regression tests: attacks of each kind that it knows, and requests
// that look like attacks. Each is sent once a round. With several modules, each request goes to all of them, in an
// order that changes from request to request, so that they see the same of a busy machine. For each module the program
// prints a line of JSON:
//
//	{"guest": name, "requests": number, "differ": verdicts that are not those of Go, "start": seconds until the firewall
//	 was ready, "seconds": for all requests, "median", "longest": milliseconds of a request, "pages": of 64 KiB at the
//	 start, after the first round, ... , "error": how it ended, if not well}
//
// Times are processor time. Only one guest runs at a time, so they are those of this process.
package main

import (
	"bufio"
	"context"
	"embed"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"log"
	"math/rand"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/corazawaf/coraza-coreruleset/v4/tests"
	"github.com/goccy/go-yaml"
	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"

	"github.com/glebe-alloc/glebe/test/tinygo/coraza/waf"
)

var (
	files   = flag.String("files", "*.conf", "the core rule set's files, or none")
	stress  = flag.Int("stress", 0, "with glebe: a collection at every so many allocations")
	rounds  = flag.Int("rounds", 1, "how often to send all requests")
	every   = flag.Int("every", 1, "only every n-th request")
	folder  = flag.String("cache", "", "a folder where wazero keeps compiled modules")
	verbose = flag.Bool("verbose", false, "print what differs")
)

// A file of the core rule set's tests.
type suite struct {
	Tests []struct {
		Stages []struct {
			Input struct {
				Method  string            `yaml:"method"`
				URI     string            `yaml:"uri"`
				Version string            `yaml:"version"`
				Headers map[string]string `yaml:"headers"`
				Data    string            `yaml:"data"`
			} `yaml:"input"`
		} `yaml:"stages"`
	} `yaml:"tests"`
}

// requests reads the tests, and adds what a client would: a length, and how a form is encoded.
func requests(from embed.FS) (all [][]byte) {
	err := fs.WalkDir(from, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".yaml" {
			return err
		}
		text, err := from.ReadFile(path)
		if err != nil {
			return err
		}
		var s suite
		if err := yaml.Unmarshal(text, &s); err != nil {
			log.Printf("%s: %v", path, err)
			return nil
		}
		for _, test := range s.Tests {
			for _, stage := range test.Stages {
				in := stage.Input
				method, uri, version := or(in.Method, "GET"), or(in.URI, "/"), or(in.Version, "HTTP/1.1")
				var text strings.Builder
				fmt.Fprintf(&text, "%s %s %s\r\n", method, uri, version)
				names := make([]string, 0, len(in.Headers))
				typed, sized := in.Data == "", in.Data == ""
				for name := range in.Headers {
					names = append(names, name)
					typed = typed || strings.EqualFold(name, "content-type")
					sized = sized || strings.EqualFold(name, "content-length")
				}
				sort.Strings(names)
				for _, name := range names {
					fmt.Fprintf(&text, "%s: %s\r\n", name, in.Headers[name])
				}
				if !typed {
					text.WriteString("Content-Type: application/x-www-form-urlencoded\r\n")
				}
				if !sized {
					fmt.Fprintf(&text, "Content-Length: %d\r\n", len(in.Data))
				}
				text.WriteString("\r\n" + in.Data)
				all = append(all, []byte(text.String()))
			}
		}
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	return all
}

func or(text, otherwise string) string {
	if text == "" {
		return otherwise
	}
	return text
}

// A guest that runs, and what was seen of it.
type guest struct {
	in     io.WriteCloser
	out    *bufio.Reader
	memory api.Memory
	ended  chan error
	times  []float64
	figures
}

type figures struct {
	Guest    string   `json:"guest"`
	Requests int      `json:"requests"`
	Differ   int      `json:"differ"`
	Start    float64  `json:"start"`
	Seconds  float64  `json:"seconds"`
	Median   float64  `json:"median"`
	Longest  float64  `json:"longest"`
	Pages    []uint32 `json:"pages"`
	Error    string   `json:"error,omitempty"`
}

// cpu returns the seconds of processor time that this process has spent.
func cpu() float64 {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		log.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano()).Seconds()
}

func start(ctx context.Context, engine wazero.Runtime, path string) *guest {
	binary, err := os.ReadFile(path)
	if err != nil {
		log.Fatal(err)
	}
	compiled, err := engine.CompileModule(ctx, binary)
	if err != nil {
		log.Fatal(err)
	}
	requests, in := io.Pipe()
	out, verdicts := io.Pipe()
	name := strings.TrimSuffix(filepath.Base(path), ".wasm")
	config := wazero.NewModuleConfig().WithName("").WithStartFunctions().WithStdin(requests).WithStdout(verdicts).
		WithStderr(verdicts).WithSysNanotime().WithSysWalltime().WithArgs(name, *files, strconv.Itoa(*stress))
	instance, err := engine.InstantiateModule(ctx, compiled, config)
	if err != nil {
		log.Fatal(err)
	}
	g := &guest{in: in, out: bufio.NewReader(out), memory: instance.Memory(), ended: make(chan error, 1),
		figures: figures{Guest: name}}
	begin := cpu()
	go func() {
		_, err := instance.ExportedFunction("_start").Call(ctx)
		verdicts.Close()
		g.ended <- err
	}()
	if line := g.line(); line != "ready" && g.Error == "" {
		g.Error = line
	}
	g.Start = cpu() - begin
	g.Pages = append(g.Pages, g.memory.Size()>>16)
	return g
}

// line reads a line of the guest, or notes how it ended.
func (g *guest) line() string {
	line, err := g.out.ReadString('\n')
	if err != nil {
		g.Error = fmt.Sprint(line, <-g.ended)
	}
	return strings.TrimSuffix(line, "\n")
}

func (g *guest) judge(request []byte, expected string) {
	if g.Error != "" {
		return
	}
	begin := cpu()
	fmt.Fprintf(g.in, "%d\n%s", len(request), request)
	verdict := g.line()
	g.times = append(g.times, cpu()-begin)
	g.Requests++
	if verdict != expected {
		g.Differ++
		if *verbose {
			log.Printf("%s: %q, and under Go %q\n%s", g.Guest, verdict, expected, request)
		}
	}
}

func (g *guest) finish() {
	g.in.Close()
	if g.Error == "" {
		if err := <-g.ended; err != nil && !strings.Contains(err.Error(), "exit_code(0)") {
			g.Error = err.Error()
		}
	}
	for _, t := range g.times {
		g.Seconds += t
	}
	if slices.Sort(g.times); len(g.times) > 0 {
		g.Median, g.Longest = g.times[len(g.times)/2]*1000, g.times[len(g.times)-1]*1000
	}
	json.NewEncoder(os.Stdout).Encode(g.figures)
}

func main() {
	log.SetFlags(0)
	flag.Parse()
	ctx := context.Background()
	config := wazero.NewRuntimeConfig()
	if *folder != "" {
		cache, err := wazero.NewCompilationCacheWithDir(*folder)
		if err != nil {
			log.Fatal(err)
		}
		config = config.WithCompilationCache(cache)
	}
	engine := wazero.NewRuntimeWithConfig(ctx, config)
	wasi_snapshot_preview1.MustInstantiate(ctx, engine)
	firewall, err := waf.New(*files)
	if err != nil {
		log.Fatal(err)
	}
	var sent [][]byte
	var expected []string
	for i, request := range requests(tests.FS) {
		if i%*every == 0 {
			sent = append(sent, request)
			expected = append(expected, waf.Judge(firewall, request))
		}
	}
	var guests []*guest
	for _, path := range flag.Args() {
		guests = append(guests, start(ctx, engine, path))
	}
	if len(guests) == 0 {
		ended := map[string]int{}
		for _, verdict := range expected {
			ended[strings.Fields(verdict)[0]]++
		}
		fmt.Println(len(sent), "requests, verdicts under Go", ended)
	}
	random := rand.New(rand.NewSource(1))
	for range *rounds {
		for i, request := range sent {
			for _, k := range random.Perm(len(guests)) {
				guests[k].judge(request, expected[i])
			}
		}
		for _, g := range guests {
			if g.Error == "" {
				g.Pages = append(g.Pages, g.memory.Size()>>16)
			}
		}
	}
	for _, g := range guests {
		g.finish()
	}
}
