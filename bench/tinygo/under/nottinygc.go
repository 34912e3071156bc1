//go:build nottinygc

package under

import _ "github.com/wasilibs/nottinygc"

// nottinygc's malloc calls this, and the C library of current TinyGo lacks it.
//
//export toupper
func toupper(c int32) int32 {
	if c >= 'a' && c <= 'z' {
		c -= 'a' - 'A'
	}
	return c
}
