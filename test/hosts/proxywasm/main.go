//go:build tinygo

// A plugin for hosts of proxy-wasm: reads and rewrites headers and bodies in both directions, and reports its costs.
//
//	request   each header x-in-NAME gets a twin x-out-NAME in capitals; the body is put into capitals
//	response  x-bytes is the length of the upstream's body, x-kept the previous request; the body is reversed
//
// Its configuration is a number n: it collects at every n-th allocation; 0: only when due. Two gauges follow its VM:
// glebe_memory_pages, which is memory.size, and glebe_collections.
package main

// static int pages(void) { return (int)__builtin_wasm_memory_size(0); }
import "C"

import (
	"bytes"
	"slices"
	"strconv"
	"strings"

	glebe "github.com/glebe-alloc/glebe/bindings/tinygo"
	"github.com/tetratelabs/proxy-wasm-go-sdk/proxywasm"
	"github.com/tetratelabs/proxy-wasm-go-sdk/proxywasm/types"
)

// The module is a reactor: inits run, main does not.
func init() { proxywasm.SetVMContext(&vm{}) }

func main() {}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

type vm struct{ types.DefaultVMContext }

func (*vm) NewPluginContext(uint32) types.PluginContext { return &plugin{last: map[string]string{}} }

// gauge sets a metric; Envoy itself can only add to one.
type gauge struct {
	metric proxywasm.MetricGauge
	value  int64
}

func (g *gauge) set(value int64) {
	g.metric.Add(value - g.value)
	g.value = value
}

type plugin struct {
	types.DefaultPluginContext
	pages, collections gauge
	last               map[string]string // by path, the header x-in-id of the last request
}

func (p *plugin) OnPluginStart(size int) types.OnPluginStartStatus {
	configuration, err := proxywasm.GetPluginConfiguration()
	must(err)
	every, err := strconv.Atoi(string(configuration))
	must(err)
	glebe.SetStress(every)
	p.pages.metric = proxywasm.DefineGaugeMetric("glebe_memory_pages")
	p.collections.metric = proxywasm.DefineGaugeMetric("glebe_collections")
	return types.OnPluginStartStatusOK
}

func (p *plugin) NewHttpContext(uint32) types.HttpContext { return &request{plugin: p} }

type request struct {
	types.DefaultHttpContext
	plugin *plugin
	path   string
	id     string
}

func (r *request) OnHttpRequestHeaders(int, bool) types.Action {
	headers, err := proxywasm.GetHttpRequestHeaders()
	must(err)
	for _, header := range headers {
		if name, found := strings.CutPrefix(header[0], "x-in-"); found {
			must(proxywasm.AddHttpRequestHeader("x-out-"+name, strings.ToUpper(header[1])))
		}
	}
	r.path, err = proxywasm.GetHttpRequestHeader(":path")
	must(err)
	r.id, err = proxywasm.GetHttpRequestHeader("x-in-id")
	must(err)
	must(proxywasm.RemoveHttpRequestHeader("content-length"))
	return types.ActionContinue
}

func (r *request) OnHttpRequestBody(size int, end bool) types.Action {
	if !end {
		return types.ActionPause // Envoy buffers the body so far
	}
	body, err := proxywasm.GetHttpRequestBody(0, size)
	must(err)
	must(proxywasm.ReplaceHttpRequestBody(bytes.ToUpper(body)))
	return types.ActionContinue
}

func (r *request) OnHttpResponseHeaders(int, bool) types.Action {
	length, err := proxywasm.GetHttpResponseHeader("content-length")
	must(err)
	must(proxywasm.RemoveHttpResponseHeader("content-length"))
	must(proxywasm.AddHttpResponseHeader("x-bytes", length))
	must(proxywasm.AddHttpResponseHeader("x-kept", r.plugin.last[r.path]))
	r.plugin.last[r.path] = r.id
	return types.ActionContinue
}

func (r *request) OnHttpResponseBody(size int, end bool) types.Action {
	if !end {
		return types.ActionPause
	}
	body, err := proxywasm.GetHttpResponseBody(0, size)
	must(err)
	slices.Reverse(body)
	must(proxywasm.ReplaceHttpResponseBody(body))
	return types.ActionContinue
}

func (r *request) OnHttpStreamDone() {
	r.plugin.pages.set(int64(C.pages()))
	r.plugin.collections.set(int64(glebe.ReadStats().Collections))
}
