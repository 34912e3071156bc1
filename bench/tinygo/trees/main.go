// Binary trees: one of 2^17 nodes lives throughout, small ones of 2^4 to 2^12 nodes are built and dropped.
package main

import "github.com/glebe-alloc/glebe/bench/tinygo/under"

type tree struct{ left, right *tree }

func build(depth int) *tree {
	if depth == 0 {
		return &tree{}
	}
	return &tree{build(depth - 1), build(depth - 1)}
}

func (t *tree) count() int {
	if t.left == nil {
		return 1
	}
	return 1 + t.left.count() + t.right.count()
}

var long *tree

func main() {
	long = build(16)
	under.Run(600, func(i int) int {
		depth, sum := 4+i%9, 0
		for k := 0; k < 1<<(12-depth); k++ {
			sum += build(depth).count()
		}
		return sum
	})
	println("long", long.count())
}
