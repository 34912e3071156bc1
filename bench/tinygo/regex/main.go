// Regular expressions: some are compiled in each run, and used on lines of a log.
package main

import (
	"regexp"
	"strconv"

	"github.com/glebe-alloc/glebe/bench/tinygo/under"
)

var patterns = []string{
	`(\d+)\.(\d+)\.(\d+)\.(\d+)`,
	`\[([a-z]+)\] +(\w+)=("[^"]*"|\S+)`,
	`(?i)(error|warning|fatal): (.*)$`,
	`(\w+)@(\w+)\.(com|org|test)`,
}

var lines [200]string
var found [][]string
var replaced string

func main() {
	random := under.Random(1)
	for i := range lines {
		lines[i] = "10.0." + strconv.Itoa(random.Below(256)) + "." + strconv.Itoa(i) + " [main] user=\"name " +
			strconv.Itoa(i) + "\" mail=someone" + strconv.Itoa(i) + "@example.test Error: number " +
			strconv.Itoa(random.Below(1000)) + " was refused"
	}
	compiled := make([]*regexp.Regexp, len(patterns))
	under.Run(4000, func(i int) int {
		which := i % len(patterns)
		if i%40 < len(patterns) {
			compiled[which] = regexp.MustCompile(patterns[which])
		}
		line := lines[random.Below(len(lines))]
		found = compiled[which].FindAllStringSubmatch(line, -1)
		replaced = compiled[which].ReplaceAllString(line, "<$2-$1>")
		return len(found) + len(replaced)
	})
}
