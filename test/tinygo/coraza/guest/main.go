// The firewall as a WASI program.
//
//	guest.wasm FILES [STRESS]     the core rule set's files, and with glebe: a collection at every so many allocations
//	stdin     requests, each after a line with its length in bytes
//	stdout    the line "ready", then a line for each request: its verdict (waf.Judge)
package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/glebe-alloc/glebe/test/tinygo/coraza/waf"
)

func main() {
	firewall, err := waf.New(os.Args[1])
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	if len(os.Args) > 2 {
		every, _ := strconv.Atoi(os.Args[2])
		setStress(every)
	}
	fmt.Println("ready")
	var request []byte
	in := bufio.NewReader(os.Stdin)
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return
		}
		length, _ := strconv.Atoi(strings.TrimSpace(line))
		if length > cap(request) {
			request = make([]byte, length)
		}
		request = request[:length]
		if _, err := io.ReadFull(in, request); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		fmt.Println(waf.Judge(firewall, request))
	}
}
