// Package httpwasm tests a guest of http-wasm in its wazero host, in front of a handler of net/http.
package httpwasm

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"

	"github.com/http-wasm/http-wasm-host-go/handler"
	nethttp "github.com/http-wasm/http-wasm-host-go/handler/nethttp"
	"github.com/tetratelabs/wazero"

	"github.com/glebe-alloc/glebe/test/hosts"
)

// server runs the guest before a handler that sends back the body, and the headers that the guest has added.
func server(t *testing.T, folder, scheduler, configuration string) *httptest.Server {
	t.Helper()
	ctx := context.Background()
	guest := hosts.Build(t, folder, "-buildmode=c-shared", "-scheduler="+scheduler)
	middleware, err := nethttp.NewMiddleware(ctx, guest, handler.GuestConfig([]byte(configuration)),
		handler.ModuleConfig(wazero.NewModuleConfig().WithStartFunctions("_initialize")))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { middleware.Close(ctx) })
	s := httptest.NewServer(middleware.NewHandler(ctx, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		for name, values := range r.Header {
			if strings.HasPrefix(name, "X-Out-") {
				w.Header()["X-Seen-"+name] = values
			}
		}
		w.Write(body)
	})))
	t.Cleanup(s.Close)
	return s
}

// The figures of the guest instance that answered. The host has a pool of instances: any of them may answer, or a new
// one.
type instance struct {
	pages, collections, requests int
}

// send makes the i-th request, checks the answer, and returns the instance that answered.
func send(t *testing.T, s *httptest.Server, i int) instance {
	t.Helper()
	text := strings.Repeat("abcdefghij", i*37%100*15+1)
	request, err := http.NewRequest("POST", s.URL, strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	for k := range i % 20 {
		request.Header.Set(fmt.Sprint("X-In-", k), fmt.Sprintf("value %d of %d", k, i))
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	want := bytes.Repeat([]byte("JIHGFEDCBA"), len(text)/10)
	if err != nil || answer.StatusCode != 200 || !bytes.Equal(body, want) {
		t.Fatalf("request %d: %v, status %d, %.100q", i, err, answer.StatusCode, body)
	}
	for k := range i % 20 {
		if value := answer.Header.Get(fmt.Sprint("X-Seen-X-Out-", k)); value != fmt.Sprintf("VALUE %d OF %d", k, i) {
			t.Fatalf("request %d: header %d came as %q", i, k, value)
		}
	}
	return instanceOf(t, answer)
}

func instanceOf(t *testing.T, answer *http.Response) instance {
	t.Helper()
	number := func(name string) int {
		n, err := strconv.Atoi(answer.Header.Get(name))
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	return instance{number("X-Pages"), number("X-Collections"), number("X-Requests")}
}

func TestMemoryIsFlat(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // the pool lets instances go when the host collects
	s := server(t, "guest", "asyncify", "0")
	before, after, most := 0, 0, 0
	for i := range 200 {
		before = max(before, send(t, s, i).pages)
	}
	for i := range hosts.Times(400) {
		who := send(t, s, i)
		after, most = max(after, who.pages), max(most, who.collections)
	}
	if after > before+1 {
		t.Errorf("memory grew from %d pages to %d", before, after)
	}
	if most < 10 {
		t.Errorf("no more than %d collections", most)
	}
}

func TestCollectingAllTheTime(t *testing.T) {
	s := server(t, "guest", "none", "1")
	for i := range hosts.Times(100) {
		if who := send(t, s, i); who.requests == 0 || who.collections < 5*who.requests {
			t.Fatalf("request %d: no more than %d collections in %d requests", i, who.collections, who.requests)
		}
	}
}
