// Package rules is what the plugin decides. The guest applies it to the pods and nodes that it decodes, the host to
// those that it encoded, so that each answer of the guest can be compared with one that no collector of TinyGo had a
// part in.
package rules

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	v1 "sigs.k8s.io/kube-scheduler-wasm-extension/kubernetes/proto/api"
)

// Zone is the label of a node that pods select.
const Zone = "topology.kubernetes.io/zone"

// Wants is what a pod asks of a node: thousandths of a processor, MiB of memory, a zone, and taints that it tolerates.
type Wants struct {
	Milli, Mebi int
	Zone        string
	Tolerates   map[string]string
	Images      []string
}

func amount(quantity, unit string) int {
	n, err := strconv.Atoi(strings.TrimSuffix(quantity, unit))
	if err != nil {
		panic(err)
	}
	return n
}

// Of sums up the pod's containers.
func Of(pod *v1.PodSpec) Wants {
	w := Wants{Zone: pod.NodeSelector[Zone], Tolerates: map[string]string{}}
	for _, container := range pod.Containers {
		w.Milli += amount(container.Resources.Requests["cpu"].GetString_(), "m")
		w.Mebi += amount(container.Resources.Requests["memory"].GetString_(), "Mi")
		w.Images = append(w.Images, container.GetImage())
	}
	for _, toleration := range pod.Tolerations {
		w.Tolerates[toleration.GetKey()] = toleration.GetValue()
	}
	return w
}

// Refuses says why the pod cannot run on the node, or returns "". `resolvable` tells whether other pods are the reason.
func (w Wants) Refuses(labels map[string]string, spec *v1.NodeSpec, status *v1.NodeStatus) (why string,
	resolvable bool) {
	if w.Zone != "" && labels[Zone] != w.Zone {
		return fmt.Sprintf("zone %q is not %q", labels[Zone], w.Zone), false
	}
	for _, taint := range spec.Taints {
		if value, found := w.Tolerates[taint.GetKey()]; !found || value != taint.GetValue() {
			return fmt.Sprintf("taint %s=%s", taint.GetKey(), taint.GetValue()), false
		}
	}
	if milli := amount(status.Allocatable["cpu"].GetString_(), "m"); milli < w.Milli {
		return fmt.Sprintf("%dm of cpu, %dm wanted", milli, w.Milli), true
	}
	if mebi := amount(status.Allocatable["memory"].GetString_(), "Mi"); mebi < w.Mebi {
		return fmt.Sprintf("%d MiB of memory, %d wanted", mebi, w.Mebi), true
	}
	return "", true
}

// Score prefers nodes that have much left, and the pod's images: `sizes` are those of the images on the node.
func (w Wants) Score(weight int, sizes map[string]uint64, status *v1.NodeStatus) int32 {
	score := amount(status.Allocatable["cpu"].GetString_(), "m") - w.Milli
	for _, image := range w.Images {
		score += weight * int(sizes[image]>>20)
	}
	return int32(score)
}

// Normalize brings scores into 0 to 100.
func Normalize(scores map[string]int) map[string]int {
	most := 1
	for _, score := range scores {
		most = max(most, score)
	}
	normal := make(map[string]int, len(scores))
	for name, score := range scores {
		normal[name] = score * 100 / most
	}
	return normal
}

// Nominate chooses a node for a pod that fits nowhere: the first by name of those with this status.
func Nominate(statuses map[string]int32, status int32) string {
	var names []string
	for name, s := range statuses {
		if s == status {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return ""
	}
	return slices.Min(names)
}

// Total says what a cluster has.
func Total(allocatable []*v1.NodeStatus) string {
	milli, mebi := 0, 0
	for _, status := range allocatable {
		milli += amount(status.Allocatable["cpu"].GetString_(), "m")
		mebi += amount(status.Allocatable["memory"].GetString_(), "Mi")
	}
	return fmt.Sprintf("%d nodes, %dm, %d MiB", len(allocatable), milli, mebi)
}
