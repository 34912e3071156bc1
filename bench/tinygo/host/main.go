// Runs modules in wazero. Each line of stdin is the path of a module and its arguments; the answer is a line of JSON:
//
//	{"seconds": of the whole run, without compilation, "cpu": seconds of processor time,
//	 "pages": of 64 KiB in the end, "output": the module's output, "error": if it failed}
//
// A module is compiled once, and instantiated for each run. The optional argument is the most memory that a module may
// have, in pages.
package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"
	"github.com/tetratelabs/wazero/sys"
)

type result struct {
	Seconds float64 `json:"seconds"`
	CPU     float64 `json:"cpu"`
	Pages   uint32  `json:"pages"`
	Output  string  `json:"output"`
	Error   string  `json:"error"`
}

func cpu() float64 {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		log.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano()).Seconds()
}

func run(ctx context.Context, engine wazero.Runtime, module wazero.CompiledModule, arguments []string) (r result) {
	var output bytes.Buffer
	config := wazero.NewModuleConfig().WithName("").WithArgs(arguments...).WithStdout(&output).WithStderr(&output)
	config = config.WithSysNanotime().WithSysWalltime().WithStartFunctions()
	runtime.GC() // so that this run does not collect the last run's memory
	begin, spent := time.Now(), cpu()
	instance, err := engine.InstantiateModule(ctx, module, config)
	if err != nil {
		return result{Error: err.Error()}
	}
	defer instance.Close(ctx)
	memory := instance.Memory()
	_, err = instance.ExportedFunction("_start").Call(ctx)
	r = result{Seconds: time.Since(begin).Seconds(), CPU: cpu() - spent, Pages: memory.Size() >> 16,
		Output: output.String()}
	var exit *sys.ExitError
	if err != nil && !(errors.As(err, &exit) && exit.ExitCode() == 0) {
		r.Error = err.Error()
	}
	return r
}

func main() {
	ctx := context.Background()
	config := wazero.NewRuntimeConfig()
	if len(os.Args) > 1 {
		pages, err := strconv.ParseUint(os.Args[1], 10, 32)
		if err != nil {
			log.Fatal(err)
		}
		config = config.WithMemoryLimitPages(uint32(pages))
	}
	engine := wazero.NewRuntimeWithConfig(ctx, config)
	wasi_snapshot_preview1.MustInstantiate(ctx, engine)
	compiled := map[string]wazero.CompiledModule{}
	answers := json.NewEncoder(os.Stdout)
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		arguments := strings.Fields(lines.Text())
		path := arguments[0]
		if compiled[path] == nil {
			binary, err := os.ReadFile(path)
			if err != nil {
				log.Fatal(err)
			}
			if compiled[path], err = engine.CompileModule(ctx, binary); err != nil {
				log.Fatal(path, ": ", err)
			}
		}
		answers.Encode(run(ctx, engine, compiled[path], arguments))
	}
}
