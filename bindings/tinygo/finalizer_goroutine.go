//go:build tinygo && gc.custom && custommalloc && tinygo.wasm && !scheduler.none

package tinygo

import (
	"runtime"
	"unsafe"
)

var finalizersWake chan struct{}

func finalizersStart() {
	if finalizersWake == nil {
		finalizersWake = make(chan struct{}, 1)
		if schedulerIdles {
			schedulerIdle = finalizersIdle
		}
		go func() {
			for range finalizersWake {
				RunFinalizers()
			}
		}()
	}
}

func finalizersNotice() {
	select {
	case finalizersWake <- struct{}{}:
	default: // it is awake, or there is none
	}
}

// The scheduler calls this, if it is set, where no goroutine can run, and where an exported function returns; true: it
// looks once more for one that can. It also clears stacks of goroutines that have ended, where it is set.
//
//go:extern runtime.finalizerIdleGC
var schedulerIdle func() bool

// Since TinyGo 0.42, whose runtime.MemStats got a field: of one that has none the size of the other is taken, 0.
const schedulerIdles = unsafe.Sizeof(struct {
	runtime.MemStats
	deeper
}{}.NumGC) != 0

type deeper struct{ deepest }

type deepest struct{ NumGC [0]byte }

// finalizersIdle collects if many finalizers were set since it last did: each may stand for memory that the collector
// does not see. Many is what it is for TinyGo's own collectors. A collection that an allocation asked for does not
// count: what goroutines refer to until they end may have been reachable then.
func finalizersIdle() bool {
	if finalizersSince < max(32, finalizersSet/2) {
		return false
	}
	gc()
	return true
}
