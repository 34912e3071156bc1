//go:build tinygo

// A plugin for the Kubernetes scheduler. It implements each extension point of the SDK for WebAssembly, and reads all
// that the host has: the pod, nodes, images, scores, its configuration. What it decides is package rules.
package main

import (
	"encoding/json"
	"fmt"
	"sort"
	"strings"

	"sigs.k8s.io/kube-scheduler-wasm-extension/guest/api"
	"sigs.k8s.io/kube-scheduler-wasm-extension/guest/api/proto"
	"sigs.k8s.io/kube-scheduler-wasm-extension/guest/config"
	"sigs.k8s.io/kube-scheduler-wasm-extension/guest/handle/eventrecorder"
	"sigs.k8s.io/kube-scheduler-wasm-extension/guest/handle/sharedlister"
	"sigs.k8s.io/kube-scheduler-wasm-extension/guest/klog"
	"sigs.k8s.io/kube-scheduler-wasm-extension/guest/plugin"
	v1 "sigs.k8s.io/kube-scheduler-wasm-extension/kubernetes/proto/api"

	"github.com/glebe-alloc/glebe/test/tinygo/scheduler/rules"
)

// The module is a reactor: inits run, main does not.
func init() {
	p := &spread{}
	if err := json.Unmarshal(config.Get(), p); err != nil {
		panic(err)
	}
	plugin.Set(p)
}

func main() {}

type spread struct {
	Weight int `json:"weight"`
}

func (*spread) EventsToRegister() []api.ClusterEvent {
	return []api.ClusterEvent{{Resource: api.Node, ActionType: api.Add | api.UpdateNodeTaint}}
}

func wants(state api.CycleState) rules.Wants {
	found, ok := state.Read("wants")
	if !ok {
		panic("no state of this cycle")
	}
	return found.(rules.Wants)
}

// labels prints a map in order.
func labels(m map[string]string) string {
	lines := make([]string, 0, len(m))
	for key, value := range m {
		lines = append(lines, key+"="+value)
	}
	sort.Strings(lines)
	return strings.Join(lines, ",")
}

// PreFilter names the nodes of the pod's zone, if it has the annotation.
func (*spread) PreFilter(state api.CycleState, pod proto.Pod) ([]string, *api.Status) {
	w := rules.Of(pod.Spec())
	state.Write("wants", w)
	klog.InfoS("pod", "pod", klog.KObj(pod), "labels", labels(pod.GetLabels()), "wants", fmt.Sprint(w))
	if names := pod.GetAnnotations()["nodes"]; names != "" {
		return strings.Split(names, ","), nil
	}
	return nil, nil
}

func (*spread) AddPod(state api.CycleState, pod proto.Pod, added api.PodInfo, node api.NodeInfo) *api.Status {
	return &api.Status{Code: api.StatusCodeUnschedulable,
		Reason: fmt.Sprintf("%s with %s on %s", pod.GetName(), added.GetName(), node.GetName())}
}

func (*spread) RemovePod(state api.CycleState, pod proto.Pod, removed api.PodInfo, node api.NodeInfo) *api.Status {
	w := rules.Of(removed.Pod().Spec())
	return &api.Status{Code: api.StatusCodeSkip, Reason: fmt.Sprintf("%s without %dm", node.GetName(), w.Milli)}
}

func (*spread) Filter(state api.CycleState, pod proto.Pod, info api.NodeInfo) *api.Status {
	node := info.Node()
	why, resolvable := wants(state).Refuses(node.GetLabels(), node.Spec(), node.Status())
	switch {
	case why == "":
		return nil
	case resolvable:
		return &api.Status{Code: api.StatusCodeUnschedulable, Reason: why}
	}
	return &api.Status{Code: api.StatusCodeUnschedulableAndUnresolvable, Reason: why}
}

func (*spread) PostFilter(state api.CycleState, pod proto.Pod, nodes api.NodeToStatus) (string, api.NominatingMode,
	*api.Status) {
	statuses := map[string]int32{}
	for name, status := range nodes.Map() {
		statuses[name] = int32(status)
	}
	var all []*v1.NodeStatus
	for _, info := range sharedlister.NodeInfos().List() {
		all = append(all, info.Node().Status())
	}
	name := rules.Nominate(statuses, int32(api.StatusCodeUnschedulable))
	return name, api.ModeOverride, &api.Status{Code: api.StatusCodeUnschedulable, Reason: rules.Total(all)}
}

func (*spread) PreScore(state api.CycleState, pod proto.Pod, nodes api.NodeInfoList) *api.Status {
	for _, info := range nodes.List() {
		sizes := map[string]uint64{}
		for image, summary := range info.ImageStates() {
			sizes[image] = summary.Size
		}
		state.Write("images of "+info.GetName(), sizes)
	}
	return nil
}

func (p *spread) Score(state api.CycleState, pod proto.Pod, name string) (int32, *api.Status) {
	sizes, _ := state.Read("images of " + name)
	return wants(state).Score(p.Weight, sizes.(map[string]uint64), sharedlister.NodeInfos().Get(name).Node().Status()), nil
}

func (*spread) NormalizeScore(state api.CycleState, pod proto.Pod, scores api.NodeScore) (map[string]int, *api.Status) {
	return rules.Normalize(scores.Map()), nil
}

func (*spread) Reserve(state api.CycleState, pod proto.Pod, name string) *api.Status {
	state.Write("reserved", name)
	return nil
}

func (*spread) Unreserve(state api.CycleState, pod proto.Pod, name string) {
	reserved, _ := state.Read("reserved")
	klog.ErrorS(fmt.Errorf("not bound to %v", reserved), "unreserve", "pod", klog.KObj(pod), "node", name)
	state.Delete("reserved")
}

func (*spread) Permit(state api.CycleState, pod proto.Pod, name string) (*api.Status, uint32) {
	return &api.Status{Code: api.StatusCodeWait, Reason: name}, uint32(wants(state).Milli)
}

func (*spread) PreBind(state api.CycleState, pod proto.Pod, name string) *api.Status {
	return &api.Status{Code: api.StatusCodeError,
		Reason: fmt.Sprintf("%s/%s to %s", pod.GetNamespace(), pod.GetName(), name)}
}

func (*spread) Bind(state api.CycleState, pod proto.Pod, name string) *api.Status {
	return &api.Status{Code: api.StatusCodeSkip, Reason: pod.GetUid()}
}

func (*spread) PostBind(state api.CycleState, pod proto.Pod, name string) {
	node := sharedlister.NodeInfos().Get(name).Node()
	eventrecorder.Eventf(pod, node, "Normal", "Bound", "Bind", labels(node.GetLabels()))
}
