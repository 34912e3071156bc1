//go:build tinygo

package main

import (
	"reflect"
	"runtime"
	"strconv"
	"unsafe"

	glebe "github.com/glebe-alloc/glebe/bindings/tinygo"
	"github.com/glebe-alloc/glebe/test/tinygo/stack"
)

// A random graph against a model of it. A node refers to others through a holder, one of each kind of TinyGo's
// allocations. Beside the references are numbers that might deceive a collector: the heap's own, addresses of nodes,
// whole records of a goroutine. The model knows nodes only by number, so it keeps none alive. Nodes that are reachable
// in the model must be unchanged, and their finalizers must not have run.

const (
	slots = 16 // roots
	kids  = 3
)

type node struct {
	number uint32
	held   holder
}

// A holder refers to a node's kids, and also contains numbers.
type holder interface {
	kid(i int) *node
	words() uint32 // the sum of the numbers
}

type known struct {
	kids      [kids]uint32 // by number; 0: none
	depth     int          // below it, 3 at most: so most nodes die
	sum       uint32
	waits     uintptr // its complement, while it has a finalizer
	finalized bool
	seen      uint32
}

var roots [slots]*node
var rootNumbers [slots]uint32
var model = []known{{}}
var looks uint32

// ---- random numbers ----

var chance uint32 = 20261122

func below(n int) int {
	chance ^= chance << 13
	chance ^= chance >> 17
	chance ^= chance << 5
	return int(chance % uint32(n))
}

// ---- numbers that might deceive ----

func address[T any](p *T) uint32 { return uint32(uintptr(unsafe.Pointer(p))) }

var lately [16]uint32 // addresses of recent nodes and holders, many of them freed

// Where references count, an address keeps its object alive. So most nodes have no addresses, or no object would become
// unreachable.
var addresses bool

func word() uint32 {
	at := lately[below(len(lately))]
	if !addresses {
		at |= 0x80000000
	}
	switch below(12) {
	case 0:
		return canary
	case 1:
		return ^at
	case 2:
		return at &^ 0xfff // its page
	case 3:
		return at&^0xfff + 0x1000
	case 4:
		return at + uint32(below(4096))
	case 5:
		return uint32(below(5000))
	case 6:
		return 0x670c1333
	case 7:
		return address(&roots[0])
	}
	return at
}

// fill writes numbers, often like the start of a goroutine's stack, or like its record in the Task: for the words
// themselves, or for others.
func fill(words []uint32) {
	for i := range words {
		if i < 64 || i%64 == 0 {
			words[i] = word()
		}
	}
	if below(2) == 0 {
		words[0] = canary
	}
	if len(words) < 8 {
		return
	}
	start := address(&words[0])
	if addresses {
		start = lately[below(len(lately))] &^ 0xfff
	}
	end := start + 4*uint32(len(words))
	if addresses {
		end = start + 65536
	}
	copy(words[below(len(words)-7):], []uint32{start, canary, start + 4*uint32(1+below(4)), end, start, end})
}

func sum(words []uint32) uint32 {
	total := uint32(len(words))
	for i, w := range words {
		total = total*31 + w ^ uint32(i)
	}
	return total
}

// ---- holders ----

type inline struct {
	first   *node
	before  [20]uint32
	others  [kids - 1]*node
	between [3]uint32
}

func (h *inline) kid(i int) *node {
	if i == 0 {
		return h.first
	}
	return h.others[i-1]
}

func (h *inline) words() uint32 { return sum(h.before[:]) + sum(h.between[:]) }

type large struct {
	before [600]uint32
	kids   [kids]*node
	behind [900]uint32
}

func (h *large) kid(i int) *node { return h.kids[i] }
func (h *large) words() uint32   { return sum(h.before[:]) + sum(h.behind[:]) }

// Made by reflection, so without a layout.
func reflected(of [kids]*node) holder {
	h := reflect.New(reflect.TypeOf(large{})).Interface().(*large)
	h.kids = of
	fill(h.before[:])
	fill(h.behind[:])
	return h
}

type plain struct {
	kids  []*node
	bytes []byte
}

func (h *plain) kid(i int) *node { return h.kids[i] }
func (h *plain) words() uint32 {
	return sum(unsafe.Slice((*uint32)(unsafe.Pointer(&h.bytes[0])), len(h.bytes)/4))
}

type item struct {
	number uint32
	kid    *node
	more   [80]uint32
}

type channel chan item

func (h channel) kid(i int) *node {
	var found *node
	for k := range kids { // a whole round, so the channel is as before
		it := <-h
		if k == i {
			found = it.kid
		}
		h <- it
	}
	return found
}

func (h channel) words() uint32 {
	total := uint32(0)
	for range kids {
		it := <-h
		total = total*7 + sum(it.more[:]) + it.number
		h <- it
	}
	return total
}

type numbers chan uint32

type numbered struct {
	numbers
	kids [kids]*node
}

func (h *numbered) kid(i int) *node { return h.kids[i] }
func (h *numbered) words() uint32 {
	total := uint32(0)
	for range cap(h.numbers) {
		w := <-h.numbers
		total = total*31 + w
		h.numbers <- w
	}
	return total
}

type byNumber map[uint32]item

func (h byNumber) kid(i int) *node { return h[uint32(i)].kid }
func (h byNumber) words() uint32 {
	total := uint32(0)
	for i := range uint32(kids) {
		it := h[i]
		total = total*7 + sum(it.more[:])
	}
	return total
}

type byName map[string]*item

func (h byName) kid(i int) *node { return h["kid "+strconv.Itoa(i)].kid }
func (h byName) words() uint32 {
	total := uint32(0)
	for i := range kids {
		it := h["kid "+strconv.Itoa(i)]
		total = total*7 + sum(it.more[:])
	}
	return total
}

type closure func(i int) (*node, uint32)

func (h closure) kid(i int) *node {
	found, _ := h(i)
	return found
}

func (h closure) words() uint32 {
	_, total := h(0)
	return total
}

func makeHolder(of [kids]*node) holder {
	switch below(kinds) {
	case 0:
		return reflected(of)
	case 1:
		h := &plain{append([]*node{}, of[:]...), make([]byte, 4+4*below(2000))}
		fill(unsafe.Slice((*uint32)(unsafe.Pointer(&h.bytes[0])), len(h.bytes)/4))
		return h
	case 2:
		h := make(channel, kids+below(20))
		for i := range kids {
			it := item{word(), of[i], [80]uint32{}}
			fill(it.more[:])
			if below(2) == 0 {
				it.number = canary
			}
			h <- it
		}
		return h
	case 3:
		h := &numbered{make(numbers, 500+below(1000)), of}
		h.numbers <- canary
		for range cap(h.numbers) - 1 {
			h.numbers <- word()
		}
		return h
	case 4:
		h := byNumber{}
		for i := range kids {
			it := item{0, of[i], [80]uint32{}}
			fill(it.more[:])
			h[uint32(i)] = it
			h[canary] = it
		}
		return h
	case 5:
		h := byName{}
		for i := range kids {
			it := &item{0, of[i], [80]uint32{}}
			fill(it.more[:])
			h["kid "+strconv.Itoa(i)] = it
		}
		return h
	case 6:
		more := make([]uint32, 1+below(1500))
		fill(more)
		return closure(func(i int) (*node, uint32) { return of[i], sum(more) })
	case 7, 8:
		return asleep(of)
	}
	h := &inline{first: of[0], others: [kids - 1]*node(of[1:])}
	fill(h.before[:])
	fill(h.between[:])
	return h
}

const kinds = 11

// ---- steps ----

//go:noinline
func makeNode() {
	k := known{}
	var of [kids]*node
	for i := range of {
		if from := below(slots * 2); from < slots && roots[from] != nil && model[rootNumbers[from]].depth < 3 {
			of[i], k.kids[i] = roots[from], rootNumbers[from]
			k.depth = max(k.depth, model[rootNumbers[from]].depth+1)
		}
	}
	number := uint32(len(model))
	addresses = below(8) == 0
	n := &node{number: number, held: makeHolder(of)}
	k.sum = n.held.words()
	model = append(model, k)
	if below(2) == 0 {
		model[number].waits = ^uintptr(unsafe.Pointer(n))
		runtime.SetFinalizer(n, func(n *node) { model[n.number].waits, model[n.number].finalized = 0, true })
	}
	to := below(slots)
	roots[to], rootNumbers[to] = n, number
	lately[below(len(lately))] = address(n)
	lately[below(len(lately))] = uint32(uintptr((*[2]unsafe.Pointer)(unsafe.Pointer(&n.held))[1]))
}

//go:noinline
func look(n *node, number uint32) {
	if number == 0 {
		require(n == nil, "a reference out of nothing")
		return
	}
	k := &model[number]
	if k.seen == looks {
		return
	}
	k.seen = looks
	require(!k.finalized, "a finalizer ran for a node that is reachable")
	require(n.number == number, "a reachable node is another")
	require(n.held.words() == k.sum, "a reachable node does not hold what was written to it")
	kids := k.kids
	for i := range kids {
		look(n.held.kid(i), kids[i])
	}
}

//go:noinline
func lookAll() {
	looks++
	for i := range roots {
		look(roots[i], rootNumbers[i])
	}
}

func graph(rounds, every int) {
	glebe.SetStress(every)
	before := glebe.ReadStats().Collections
	for round := range rounds {
		makeNode()
		if below(4) == 0 {
			from := below(slots)
			roots[from], rootNumbers[from] = nil, 0
		}
		if round%20 == 0 {
			lookAll()
			glebe.RunFinalizers()
		}
	}
	lookAll()
	require(int(glebe.ReadStats().Collections-before)*every >= rounds, "collections")
}

func graphs() {
	for _, every := range []int{1, 2, 3, 5, 13, 40} {
		graph(60+10*every, every)
	}
	glebe.SetStress(0)
	clear(roots[:])
	clear(rootNumbers[:])
	wake()
	finalized := 0
	for i := range model {
		if model[i].finalized {
			finalized++
		}
		if model[i].waits != 0 { // an object that refers to itself would stay because of its finalizer
			runtime.SetFinalizer((*node)(unsafe.Pointer(^model[i].waits)), nil)
		}
	}
	clear(lately[:])
	stack.Clobber(250)
	runtime.GC()
	stats := glebe.ReadStats()
	require(finalized > 50 && stats.FreedBytes > stats.AllocatedBytes/2, "what is not reachable is found")
}
