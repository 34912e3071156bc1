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

// finalizersNotice wakes the goroutine only if it has work. It may allocate itself, and so start the next collection.
func finalizersNotice() {
	if !finalizersReady() {
		return
	}
	select {
	case finalizersWake <- struct{}{}:
	default: // the goroutine is awake, or not started
	}
}

// If this is set, the scheduler calls it when no goroutine can run, and when an exported function returns. If it
// returns true, the scheduler looks again for a goroutine that can run. The scheduler also clears the stacks of ended
// goroutines if it is set.
//
//go:extern runtime.finalizerIdleGC
var schedulerIdle func() bool

// True since TinyGo 0.42, where runtime.MemStats has the field NumGC. In older releases the selector finds that of
// `deepest`, whose size is 0.
const schedulerIdles = unsafe.Sizeof(struct {
	runtime.MemStats
	deeper
}{}.NumGC) != 0

type deeper struct{ deepest }

type deepest struct{ NumGC [0]byte }

// finalizersIdle collects if many finalizers were set since it last did: each may hold memory that the collector does
// not see. The threshold is that of TinyGo's own collectors. Collections that an allocation started do not count:
// goroutines that have ended since may have kept their objects reachable then.
func finalizersIdle() bool {
	if finalizersSince < max(32, finalizersSet/2) {
		return false
	}
	gc()
	return true
}
