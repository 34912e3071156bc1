// Goroutines that pass messages to and fro and allocate them; some goroutines are new at each step.
package main

import (
	"strconv"

	"github.com/glebe-alloc/glebe/bench/tinygo/under"
)

type message struct {
	text  string
	count int
	back  chan *message
}

func echo(in chan *message) {
	for m := range in {
		m.back <- &message{text: "echo of " + m.text, count: m.count + 1}
	}
}

func main() {
	var lasting [8]chan *message
	for i := range lasting {
		lasting[i] = make(chan *message)
		go echo(lasting[i])
	}
	under.Run(1000, func(i int) int {
		sum := 0
		brief := make(chan *message, 1)
		go echo(brief)
		for k := 0; k < 40; k++ {
			to := lasting[k%len(lasting)]
			if k%10 == 0 {
				to = brief
			}
			back := make(chan *message, 1)
			to <- &message{"message " + strconv.Itoa(i*k), k, back}
			answer := <-back
			sum += answer.count + len(answer.text)
		}
		close(brief)
		return sum
	})
}
