//go:build tinygo && gc.custom && custommalloc && tinygo.wasm && !scheduler.none

package tinygo

var finalizersWake chan struct{}

func finalizersStart() {
	if finalizersWake == nil {
		finalizersWake = make(chan struct{}, 1)
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
