//go:build tinygo && gc.custom && custommalloc && tinygo.wasm && scheduler.none

package tinygo

var finalizersRun bool

func finalizersStart() {}

// There is no goroutine to run finalizers: the call that collected runs them, as with TinyGo's own collectors. If a
// program sets none, the compiler removes this code.
func finalizersNotice() {
	if (finalizers != nil || cleanupsReady != nil) && !finalizersRun {
		finalizersRun = true
		RunFinalizers()
		finalizersRun = false
	}
}
