//go:build tinygo && gc.custom && custommalloc && tinygo.wasm && scheduler.none

package tinygo

var finalizersRun bool

func finalizersStart() {}

// There is no goroutine to run them: the call that collected does, as with TinyGo's own collectors. In a program that
// sets none the compiler sees that there are none.
func finalizersNotice() {
	if (finalizers != nil || cleanupsReady != nil) && !finalizersRun {
		finalizersRun = true
		RunFinalizers()
		finalizersRun = false
	}
}
