package httpwasm

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"runtime/debug"
	"testing"
)

type object = map[string]any

// order returns the i-th order and its summary, as encoding/json of the host decodes it.
func order(i int) (of object, summary object) {
	items, names, tags := []any{}, []any{}, object{}
	total, last := 0.0, any(nil)
	for k := range i*37%40 + 1 {
		tag := fmt.Sprint("tag ", k%5)
		extra := object{"number": float64(k), "list": []any{"a", true, nil, float64(i)}, "text": fmt.Sprint("item ", k)}
		items = append(items, object{"name": fmt.Sprintf("name %d of %d", k, i), "price": float64(k) + 0.25,
			"tags": []any{tag, "all"}, "extra": extra})
		names = append(names, fmt.Sprintf("name %d of %d", k, i))
		for _, t := range []string{tag, "all"} {
			n, _ := tags[t].(float64)
			tags[t] = n + 1
		}
		total, last = total+float64(k)+0.25, extra
	}
	return object{"id": float64(i), "items": items},
		object{"id": float64(i), "total": total, "names": names, "tags": tags, "last": last}
}

// post sends a body, and returns the status, the answer's body and the guest instance that answered.
func post(t *testing.T, s *httptest.Server, body []byte) (int, []byte, instance) {
	t.Helper()
	answer, err := http.Post(s.URL, "application/json", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, text, instanceOf(t, answer)
}

// Building its guest takes long, so test_hosts.py runs it only with GLEBE_TEST_LONG=1.
func TestThousandsOfOrdersInJSON(t *testing.T) {
	const count = 3000
	defer debug.SetGCPercent(debug.SetGCPercent(400)) // the pool lets instances go when the host collects
	s := server(t, "json", "asyncify", "")
	status, text, _ := post(t, s, []byte(`{"id": "one"}`))
	if status != 400 || !bytes.HasPrefix(text, []byte("no order: json: cannot unmarshal")) {
		t.Fatalf("a wrong order: status %d, %q", status, text)
	}
	before, after, most := 0, 0, instance{}
	for i := range count {
		in, want := order(i)
		body, err := json.Marshal(in)
		if err != nil {
			t.Fatal(err)
		}
		status, text, who := post(t, s, body)
		var got object
		if err := json.Unmarshal(text, &got); err != nil || status != 200 || !reflect.DeepEqual(got, want) {
			t.Fatalf("order %d: %v, status %d, %.200q", i, err, status, text)
		}
		if i < count/3 {
			before = max(before, who.pages)
		} else {
			after = max(after, who.pages)
		}
		if who.requests > most.requests {
			most = who
		}
	}
	t.Logf("%d pages in the first third, then %d; %d collections in %d requests", before, after, most.collections,
		most.requests)
	if after > before+1 {
		t.Errorf("memory grew from %d pages to %d", before, after)
	}
	if most.collections < 10 {
		t.Errorf("no more than %d collections", most.collections)
	}
}
