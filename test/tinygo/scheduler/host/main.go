// Runs the plugin in wazero as the Kubernetes scheduler does, and compares what it decides with package rules.
//
//	host [-cycles N] [-stress N] [-weight N] [-cache FOLDER] GUEST.wasm...
//
// A cycle schedules one pod on a cluster of nodes, by all the calls that the scheduler makes. Each module gets the same
// pods and nodes; the host encodes them by Protocol Buffers, and its functions copy them into the module's memory. For
// each module the program prints a line of JSON:
//
//	{"guest": name, "cycles": number, "calls": of the module's functions, "wrong": answers that package rules does not
//	 give, "digest": of all answers, logs and events, "pages": of 64 KiB at the start and after each tenth of the cycles,
//	 "collections": number, with glebe, "seconds": processor time of all calls, "error": how it ended, if not well}
package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"flag"
	"fmt"
	"hash"
	"log"
	"math/rand"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"
	guest "sigs.k8s.io/kube-scheduler-wasm-extension/guest/api"
	v1 "sigs.k8s.io/kube-scheduler-wasm-extension/kubernetes/proto/api"
	meta "sigs.k8s.io/kube-scheduler-wasm-extension/kubernetes/proto/meta"
	resource "sigs.k8s.io/kube-scheduler-wasm-extension/kubernetes/proto/resource"

	"github.com/glebe-alloc/glebe/test/tinygo/scheduler/rules"
)

var (
	cycles = flag.Int("cycles", 300, "pods to schedule")
	stress = flag.Int("stress", 0, "with glebe: a collection at every so many allocations")
	given  = flag.Int("weight", weight, "of images, in the guest's configuration; another one makes its scores wrong")
	folder = flag.String("cache", "", "a folder where wazero keeps compiled modules")
)

const (
	nodes  = 40
	weight = 3
)

func must[T any](value T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return value
}

func quantity(n int, unit string) *resource.Quantity {
	text := fmt.Sprint(n, unit)
	return &resource.Quantity{String_: &text}
}

func resources(milli, mebi int) map[string]*resource.Quantity {
	return map[string]*resource.Quantity{"cpu": quantity(milli, "m"), "memory": quantity(mebi, "Mi")}
}

func pointer[T any](value T) *T { return &value }

// words fills a map with labels or annotations.
func words(random *rand.Rand, count, length int) map[string]string {
	m := map[string]string{}
	for i := range count {
		m[fmt.Sprintf("example.com/key-%d", i)] = strings.Repeat(fmt.Sprint(random.Intn(10)), 1+random.Intn(length))
	}
	return m
}

// A cluster: its nodes, and each encoded.
type cluster struct {
	nodes   []*v1.Node
	encoded map[string][]byte
	list    []byte
	images  map[string][]byte // what the guest reads of a node's images, in JSON
	sizes   map[string]map[string]uint64
}

func newCluster(random *rand.Rand) *cluster {
	c := &cluster{encoded: map[string][]byte{}, images: map[string][]byte{}, sizes: map[string]map[string]uint64{}}
	for i := range nodes {
		name := fmt.Sprintf("node-%02d", i)
		labels := words(random, 10, 30)
		labels[rules.Zone] = fmt.Sprint("zone-", i%3)
		n := &v1.Node{Metadata: &meta.ObjectMeta{Name: &name, Uid: pointer("uid-" + name), Labels: labels,
			Annotations: words(random, 10, 60)}, Spec: &v1.NodeSpec{PodCIDR: pointer(fmt.Sprintf("10.0.%d.0/24", i))}}
		if i%4 == 1 {
			n.Spec.Taints = []*v1.Taint{{Key: pointer("dedicated"), Value: pointer(fmt.Sprint("team-", i%8)),
				Effect: pointer("NoSchedule")}}
		}
		n.Status = &v1.NodeStatus{Allocatable: resources(500+random.Intn(8000), 256+random.Intn(16000))}
		summaries, sizes := map[string]guest.ImageStateSummary{}, map[string]uint64{}
		for k := range 15 {
			if random.Intn(2) == 0 {
				image, size := fmt.Sprintf("registry.example.com/image-%d:v%d", k, k), uint64(random.Intn(1<<30))
				n.Status.Images = append(n.Status.Images, &v1.ContainerImage{Names: []string{image},
					SizeBytes: pointer(int64(size))})
				summaries[image], sizes[image] = guest.ImageStateSummary{Size: size, NumNodes: uint32(1 + k)}, size
			}
		}
		c.nodes = append(c.nodes, n)
		c.encoded[name] = must(n.MarshalVT())
		c.images[name] = must(json.Marshal(summaries))
		c.sizes[name] = sizes
	}
	c.list = must((&v1.NodeList{Items: c.nodes}).MarshalVT())
	return c
}

func newPod(random *rand.Rand, c *cluster, i int) *v1.Pod {
	name, namespace := fmt.Sprint("pod-", i), fmt.Sprint("team-", i%5)
	p := &v1.Pod{Metadata: &meta.ObjectMeta{Name: &name, Namespace: &namespace,
		Uid: pointer(fmt.Sprintf("%08x-%d", random.Uint32(), i)), Labels: words(random, random.Intn(20), 40),
		Annotations: words(random, random.Intn(10), 200)}, Spec: &v1.PodSpec{NodeSelector: map[string]string{}}}
	if i%50 == 49 {
		p.Metadata.Annotations["large"] = strings.Repeat("x", 20000+random.Intn(20000))
	}
	most := 1500
	if i%10 == 9 {
		most = 30000 // fits nowhere
	}
	for k := range 1 + random.Intn(4) {
		p.Spec.Containers = append(p.Spec.Containers, &v1.Container{Name: pointer(fmt.Sprint("container-", k)),
			Image: pointer(fmt.Sprintf("registry.example.com/image-%d:v%d", random.Intn(15), k)),
			Args:  []string{"--serve", fmt.Sprint(random.Int63())}, Resources: &v1.ResourceRequirements{
				Requests: resources(most/3+random.Intn(most), 100+random.Intn(2000))}})
	}
	if random.Intn(2) == 0 {
		p.Spec.NodeSelector[rules.Zone] = fmt.Sprint("zone-", random.Intn(3))
	}
	if random.Intn(2) == 0 {
		team := fmt.Sprint("team-", 1+4*random.Intn(2))
		p.Spec.Tolerations = []*v1.Toleration{{Key: pointer("dedicated"), Value: &team}}
	}
	if random.Intn(3) == 0 {
		var names []string
		for _, n := range random.Perm(nodes)[:10] {
			names = append(names, c.nodes[n].Metadata.GetName())
		}
		p.Metadata.Annotations["nodes"] = strings.Join(names, ",")
	}
	return p
}

// What the host's functions read and write in the call of a guest that runs now.
type call struct {
	node              string
	pod, target       []byte
	statuses, scores  []byte
	filtered          []byte
	reason, nominated string
	names, normal     string
	said              []string // logs and events
}

var (
	now     call
	current *cluster
)

// give copies what a guest reads into its memory, if there is room, and returns its length.
func give(m api.Module, bytes []byte, ptr, limit uint32) uint32 {
	if uint32(len(bytes)) <= limit && !m.Memory().Write(ptr, bytes) {
		log.Fatal("the guest's buffer is not in its memory")
	}
	return uint32(len(bytes))
}

// take returns what a guest writes.
func take(m api.Module, ptr, size uint32) string {
	bytes, ok := m.Memory().Read(ptr, size)
	if !ok {
		log.Fatal("the guest's text is not in its memory")
	}
	return string(bytes)
}

func functions(ctx context.Context, engine wazero.Runtime) {
	export := func(module string, all map[string]any) {
		builder := engine.NewHostModuleBuilder(module)
		for name, f := range all {
			builder.NewFunctionBuilder().WithFunc(f).Export(name)
		}
		must(builder.Instantiate(ctx))
	}
	giving := func(what func() []byte) any {
		return func(_ context.Context, m api.Module, ptr, limit uint32) uint32 { return give(m, what(), ptr, limit) }
	}
	taking := func(where *string) any {
		return func(_ context.Context, m api.Module, ptr, size uint32) { *where = take(m, ptr, size) }
	}
	named := func(what func(*cluster) map[string][]byte) any {
		return func(_ context.Context, m api.Module, name, size, ptr, limit uint32) uint32 {
			bytes, found := what(current)[take(m, name, size)]
			if !found {
				log.Fatalf("the guest asks for the node %q", take(m, name, size))
			}
			return give(m, bytes, ptr, limit)
		}
	}
	say := func(m api.Module, ptr, size uint32) { now.said = append(now.said, take(m, ptr, size)) }
	export("k8s.io/api", map[string]any{
		"node":     named(func(c *cluster) map[string][]byte { return c.encoded }),
		"nodeList": giving(func() []byte { return current.list }),
	})
	export("k8s.io/klog", map[string]any{
		"severity": func() int32 { return 0 },
		"log":      func(_ context.Context, m api.Module, _ int32, ptr, size uint32) { say(m, ptr, size) },
		"logs": func(_ context.Context, m api.Module, _ int32, ptr, size, pairs, length uint32) {
			say(m, ptr, size)
			say(m, pairs, length)
		},
	})
	export("k8s.io/scheduler", map[string]any{
		"get_config":                   giving(func() []byte { return fmt.Appendf(nil, `{"weight": %d}`, *given) }),
		"currentNodeName":              giving(func() []byte { return []byte(now.node) }),
		"currentPod":                   giving(func() []byte { return now.pod }),
		"targetPod":                    giving(func() []byte { return now.target }),
		"nodeToStatusMap":              giving(func() []byte { return now.statuses }),
		"nodeScoreList":                giving(func() []byte { return now.scores }),
		"filteredNodeList":             giving(func() []byte { return now.filtered }),
		"nodeImageStates":              named(func(c *cluster) map[string][]byte { return c.images }),
		"result.status_reason":         taking(&now.reason),
		"result.node_names":            taking(&now.names),
		"result.nominated_node_name":   taking(&now.nominated),
		"result.normalized_score_list": taking(&now.normal),
		"result.cluster_events":        func(_ context.Context, m api.Module, ptr, size uint32) { say(m, ptr, size) },
		"handle.eventrecorder.eventf":  func(_ context.Context, m api.Module, ptr, size uint32) { say(m, ptr, size) },
		"handle.get_waiting_pod":       func(_, _, _, _ uint32) {},
		"handle.reject_waiting_pod":    func(_, _, _, _ uint32) {},
	})
}

type figures struct {
	Guest       string   `json:"guest"`
	Cycles      int      `json:"cycles"`
	Calls       int      `json:"calls"`
	Wrong       int      `json:"wrong"`
	Digest      string   `json:"digest"`
	Pages       []uint32 `json:"pages"`
	Collections uint64   `json:"collections"`
	Seconds     float64  `json:"seconds"`
	Error       string   `json:"error,omitempty"`
}

// A guest that runs, and what was seen of it.
type plugin struct {
	module api.Module
	digest hash.Hash
	figures
}

// cpu returns the seconds of processor time that this process has spent.
func cpu() float64 {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		log.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano()).Seconds()
}

// call has the guest answer, and notes the answer and all that it told the host.
func (p *plugin) call(name string, arguments ...uint64) (status, value int) {
	now.reason, now.nominated, now.names, now.normal, now.said = "", "", "", "", nil
	begin := cpu()
	results, err := p.module.ExportedFunction(name).Call(context.Background(), arguments...)
	p.Seconds += cpu() - begin
	if err != nil {
		panic(fmt.Errorf("%s: %w", name, err))
	}
	p.Calls++
	packed := uint64(0)
	if len(results) > 0 {
		packed = results[0]
	}
	fmt.Fprintf(p.digest, "%s %d %q %q %q %q %q\n", name, packed, now.reason, now.nominated, now.names, now.normal,
		now.said)
	return int(uint32(packed)), int(packed >> 32)
}

// expect counts an answer that is not the one wanted.
func (p *plugin) expect(what string, got, wanted any) {
	if fmt.Sprint(got) != fmt.Sprint(wanted) {
		p.Wrong++
		if p.Wrong <= 5 {
			log.Printf("%s, %s: %v, wanted %v", p.Guest, what, got, wanted)
		}
	}
}

// schedule takes one pod through a cycle.
func (p *plugin) schedule(pod, other *v1.Pod, i int) {
	w := rules.Of(pod.Spec)
	now.pod, now.target = must(pod.MarshalVT()), must(other.MarshalVT())
	status, _ := p.call("prefilter")
	chosen := pod.Metadata.Annotations["nodes"]
	p.expect("prefilter", fmt.Sprintf("%d %q", status, strings.TrimSuffix(now.names, "\x00")),
		fmt.Sprintf("0 %q", strings.ReplaceAll(chosen, ",", "\x00")))
	if len(now.said) != 2 || !strings.Contains(now.said[1], pod.Metadata.GetNamespace()+"/"+pod.Metadata.GetName()) {
		p.expect("log", now.said, "the pod")
	}
	if i%5 == 0 {
		now.node = current.nodes[i%nodes].Metadata.GetName()
		status, _ = p.call("addpod")
		p.expect("addpod", fmt.Sprint(status, now.reason), fmt.Sprintf("2%s with %s on %s", pod.Metadata.GetName(),
			other.Metadata.GetName(), now.node))
		status, _ = p.call("removepod")
		p.expect("removepod", fmt.Sprint(status, now.reason), fmt.Sprintf("5%s without %dm", now.node,
			rules.Of(other.Spec).Milli))
	}
	statuses, fitting := map[string]int32{}, []string{}
	var all []*v1.NodeStatus
	for _, node := range current.nodes {
		all = append(all, node.Status)
		now.node = node.Metadata.GetName()
		if chosen != "" && !strings.Contains(chosen, now.node) {
			continue
		}
		why, resolvable := w.Refuses(node.Metadata.Labels, node.Spec, node.Status)
		wanted := guest.StatusCodeSuccess
		if why != "" {
			wanted = guest.StatusCodeUnschedulableAndUnresolvable
			if resolvable {
				wanted = guest.StatusCodeUnschedulable
			}
			statuses[now.node] = int32(wanted)
		} else {
			fitting = append(fitting, now.node)
		}
		status, _ = p.call("filter")
		p.expect("filter of "+now.node, fmt.Sprint(status, " ", now.reason), fmt.Sprint(int(wanted), " ", why))
	}
	if len(fitting) == 0 {
		now.statuses = must(json.Marshal(statuses))
		status, mode := p.call("postfilter")
		p.expect("postfilter", fmt.Sprint(status, mode, now.nominated, now.reason), fmt.Sprint(2, 1,
			rules.Nominate(statuses, int32(guest.StatusCodeUnschedulable)), rules.Total(all)))
		return
	}
	now.filtered = must(json.Marshal(fitting))
	status, _ = p.call("prescore")
	p.expect("prescore", status, 0)
	scores := map[string]int{}
	for _, node := range current.nodes {
		if now.node = node.Metadata.GetName(); slices.Contains(fitting, now.node) {
			_, score := p.call("score")
			scores[now.node] = int(w.Score(weight, current.sizes[now.node], node.Status))
			p.expect("score", score, scores[now.node])
		}
	}
	now.scores = must(json.Marshal(scores))
	p.call("normalizescore")
	normal := map[string]int{}
	if err := json.Unmarshal([]byte(now.normal), &normal); err != nil {
		p.expect("normalizescore", err, nil)
	}
	p.expect("normalizescore", normal, rules.Normalize(scores))
	now.node = fitting[0]
	for _, name := range fitting {
		if scores[name] > scores[now.node] {
			now.node = name
		}
	}
	p.bind(pod, w, i)
}

func (p *plugin) bind(pod *v1.Pod, w rules.Wants, i int) {
	status, _ := p.call("reserve")
	p.expect("reserve", status, 0)
	timeout, status := p.call("permit")
	p.expect("permit", fmt.Sprint(status, timeout, now.reason), fmt.Sprint(4, w.Milli, now.node))
	if i%7 == 0 {
		p.call("unreserve")
		if len(now.said) != 2 || !strings.Contains(now.said[1], "not bound to "+now.node) {
			p.expect("unreserve", now.said, "not bound")
		}
		return
	}
	status, _ = p.call("prebind")
	p.expect("prebind", fmt.Sprint(status, now.reason), fmt.Sprintf("1%s/%s to %s", pod.Metadata.GetNamespace(),
		pod.Metadata.GetName(), now.node))
	status, _ = p.call("bind")
	p.expect("bind", fmt.Sprint(status, now.reason), "5"+pod.Metadata.GetUid())
	p.call("postbind")
	if len(now.said) != 1 || !strings.Contains(now.said[0], pod.Metadata.GetUid()) {
		p.expect("postbind", now.said, "an event")
	}
}

func (p *plugin) run(ctx context.Context, engine wazero.Runtime, path string) {
	defer func() {
		if problem := recover(); problem != nil {
			p.Error = fmt.Sprint(problem)
		}
		p.Digest = fmt.Sprintf("%x", p.digest.Sum(nil))[:16]
	}()
	random := rand.New(rand.NewSource(1))
	current = newCluster(random)
	compiled := must(engine.CompileModule(ctx, must(os.ReadFile(path))))
	var printed bytes.Buffer
	config := wazero.NewModuleConfig().WithName("").WithStartFunctions("_initialize").WithStdout(&printed).
		WithStderr(&printed)
	module, err := engine.InstantiateModule(ctx, compiled, config)
	if err != nil {
		panic(fmt.Sprint(err, printed.String()))
	}
	defer module.Close(ctx)
	p.module = module
	if *stress > 0 && module.ExportedFunction("set_stress") != nil {
		p.call("set_stress", uint64(*stress))
		p.Calls, p.digest = 0, sha256.New() // not a call of the scheduler
	}
	p.call("enqueue")
	p.expect("enqueue", now.said, []string{"\x01\x00\x00\x00\x11\x00\x00\x00"})
	other := newPod(random, current, *cycles)
	for i := range *cycles {
		if i%((*cycles+9)/10) == 0 {
			p.Pages = append(p.Pages, module.Memory().Size()>>16)
		}
		pod := newPod(random, current, i)
		p.schedule(pod, other, i)
		p.Cycles++
		other = pod
	}
	p.Pages = append(p.Pages, module.Memory().Size()>>16)
	if f := module.ExportedFunction("collections"); f != nil {
		p.Collections = must(f.Call(ctx))[0]
	}
}

func main() {
	log.SetFlags(0)
	flag.Parse()
	ctx := context.Background()
	config := wazero.NewRuntimeConfig()
	if *folder != "" {
		config = config.WithCompilationCache(must(wazero.NewCompilationCacheWithDir(*folder)))
	}
	engine := wazero.NewRuntimeWithConfig(ctx, config)
	wasi_snapshot_preview1.MustInstantiate(ctx, engine)
	functions(ctx, engine)
	for _, path := range flag.Args() {
		p := &plugin{digest: sha256.New(), figures: figures{Guest: strings.TrimSuffix(filepath.Base(path), ".wasm")}}
		p.run(ctx, engine, path)
		json.NewEncoder(os.Stdout).Encode(p.figures)
	}
}
