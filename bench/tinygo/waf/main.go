// A firewall: 200 regular expressions, as rules have them, are compiled once, and each request is tried against all.
package main

import (
	"regexp"
	"strconv"
	"strings"

	"github.com/glebe-alloc/glebe/bench/tinygo/under"
)

// Each makes rules with words in place of the #.
var shapes = []string{
	`(?i)\b#\s+(?:all\s+)?#\b`,
	`(?i)<#[^>]*\son\w+\s*=`,
	`[;|&]\s*#(?:\.exe)?\s+-?\w`,
	`(?:\.\./|\.\.\\)+#`,
	`(?i)#\s*\([^)]*\)\s*(?:--|#)`,
	`^/(?:\w+/)*#\.(?:php|asp|jsp)$`,
	`(?i)(?:^|[?&])#=(https?|ftp|file)://([\w.]+)`,
	`\x27\s*(?:or|and)\s*\x27?\d*#?\x27?\s*=`,
}

var words = []string{"select", "union", "script", "passwd", "shadow", "alert", "iframe", "exec", "curl", "wget",
	"admin", "config", "backup", "sleep", "benchmark", "concat", "load_file", "insert", "delete", "drop", "cookie",
	"onload", "redirect", "target", "eval"}

var rules [200]*regexp.Regexp
var matched []string

func main() {
	random := under.Random(1)
	word := func() string { return words[random.Below(len(words))] }
	for i := range rules {
		rule := shapes[i%len(shapes)]
		for strings.Contains(rule, "#") {
			rule = strings.Replace(rule, "#", word(), 1)
		}
		rules[i] = regexp.MustCompile(rule)
	}
	under.Run(200, func(i int) int {
		request := "/" + word() + "/" + strconv.Itoa(i) + "?name=" + word() + "&" + word() + "=http://example.test/" +
			word()
		if i%8 == 0 {
			request += "&q=1' or '1'='1; " + word() + " -x " + word() + " " + word()
		}
		matched = matched[:0]
		for _, rule := range rules {
			if found := rule.FindStringSubmatch(request); found != nil {
				matched = append(matched, found...)
			}
		}
		return len(strings.Join(matched, ","))
	})
}
