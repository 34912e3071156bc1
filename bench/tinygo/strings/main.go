// Large strings in a loop: each step makes a buffer of 50 to 150 KB and a string from it; the last few live.
package main

import "github.com/glebe-alloc/glebe/bench/tinygo/under"

var buffer []byte
var kept [8]string

func main() {
	random := under.Random(1)
	under.Run(1500, func(i int) int {
		buffer = make([]byte, 50000+random.Below(100000))
		buffer[len(buffer)/2] = byte(i)
		kept[i%len(kept)] = string(buffer)
		old := kept[i*5%len(kept)]
		return len(old) + int(kept[i%len(kept)][len(buffer)/2])
	})
}
