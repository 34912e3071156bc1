// Package waf is Coraza, a web application firewall, with the core rule set. The guest runs it under TinyGo and the
// host under Go, so that each verdict of the guest can be compared with one that no collector of TinyGo had a part in.
package waf

import (
	"bytes"
	"sort"
	"strconv"
	"strings"

	coreruleset "github.com/corazawaf/coraza-coreruleset/v4"
	"github.com/corazawaf/coraza/v3"
	"github.com/corazawaf/coraza/v3/types"
)

const before = `
Include @coraza.conf-recommended
Include @crs-setup.conf.example
SecRuleEngine On
SecAuditEngine Off
`

// The answer of the server behind the firewall: the rules on responses look at it.
const answer = "<html><body><h1>It works</h1><p>Nothing to see here, and no error of a database.</p></body></html>"

// New returns a firewall with the core rule set's files that match, such as *.conf, REQUEST-942*.conf or none.
func New(files string) (coraza.WAF, error) {
	directives := before
	if files != "none" {
		directives += "Include @owasp_crs/" + files + "\n"
	}
	return coraza.NewWAF(coraza.NewWAFConfig().WithDirectives(directives).WithRootFS(coreruleset.FS))
}

// Judge evaluates a request, as it would come over the network, and returns the status and the rule that ended it (200
// and 0 if none did), and then the identifiers of all rules with a message that matched, in order.
func Judge(w coraza.WAF, request []byte) string {
	t := w.NewTransaction()
	defer t.Close()
	t.ProcessConnection("127.0.0.1", 40000, "127.0.0.1", 80)
	head, body, _ := bytes.Cut(request, []byte("\r\n\r\n"))
	lines := strings.Split(string(head), "\r\n")
	words := strings.SplitN(lines[0], " ", 3)
	if len(words) != 3 {
		return "400 0"
	}
	t.ProcessURI(words[1], words[0], words[2])
	for _, line := range lines[1:] {
		name, value, _ := strings.Cut(line, ": ")
		t.AddRequestHeader(name, value)
		if strings.EqualFold(name, "host") {
			t.SetServerName(value)
		}
	}
	ended := process(t, body)
	t.ProcessLogging()
	verdict := "200 0"
	if ended != nil {
		verdict = strconv.Itoa(ended.Status) + " " + strconv.Itoa(ended.RuleID)
	}
	var matched []int
	for _, m := range t.MatchedRules() {
		if id := m.Rule().ID(); m.Message() != "" {
			matched = append(matched, id)
		}
	}
	sort.Ints(matched)
	for _, id := range matched {
		verdict += " " + strconv.Itoa(id)
	}
	return verdict
}

// process takes the transaction through its phases, up to the one that ends it.
func process(t types.Transaction, body []byte) *types.Interruption {
	if ended := t.ProcessRequestHeaders(); ended != nil {
		return ended
	}
	if ended, _, err := t.WriteRequestBody(body); ended != nil || err != nil {
		return ended
	}
	if ended, err := t.ProcessRequestBody(); ended != nil || err != nil {
		return ended
	}
	t.AddResponseHeader("Content-Type", "text/html")
	if ended := t.ProcessResponseHeaders(200, "HTTP/1.1"); ended != nil {
		return ended
	}
	if ended, _, err := t.WriteResponseBody([]byte(answer)); ended != nil || err != nil {
		return ended
	}
	ended, _ := t.ProcessResponseBody()
	return ended
}
