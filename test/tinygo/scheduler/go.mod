// A plugin for the Kubernetes scheduler and its host, in a module of its own so that no user of glebe gets what they need.
module github.com/glebe-alloc/glebe/test/tinygo/scheduler

go 1.25.0

require (
	github.com/glebe-alloc/glebe v0.0.0
	github.com/tetratelabs/wazero v1.12.0
	sigs.k8s.io/kube-scheduler-wasm-extension/guest v0.0.0-20250121124236-cb3868918ec5
	sigs.k8s.io/kube-scheduler-wasm-extension/kubernetes/proto v0.0.0-20250121124236-cb3868918ec5
)

require (
	golang.org/x/sys v0.44.0 // indirect
	google.golang.org/protobuf v1.30.0 // indirect
)

replace (
	github.com/glebe-alloc/glebe => ../../..
	sigs.k8s.io/kube-scheduler-wasm-extension/kubernetes/proto => sigs.k8s.io/kube-scheduler-wasm-extension/kubernetes/proto v0.0.0-20250121124236-cb3868918ec5
)
