// Churns a map of slices: keys are added and deleted, slices grow and are copied.
package main

import (
	"strconv"

	"github.com/glebe-alloc/glebe/bench/tinygo/under"
)

func main() {
	m := map[string][]int{}
	random := under.Random(1)
	under.Run(2000, func(i int) int {
		for k := 0; k < 100; k++ {
			key := "key " + strconv.Itoa(random.Below(5000))
			m[key] = append(m[key], i)
			if k%7 == 0 {
				delete(m, "key "+strconv.Itoa(random.Below(5000)))
			}
		}
		return len(m)
	})
}
