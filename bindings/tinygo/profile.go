//go:build tinygo && gc.custom && custommalloc && tinygo.wasm

package tinygo

/*
#include <stdint.h>

typedef struct glebe_go_row {
	uint32_t bytes, objects, words;
	uint64_t mask;
	uintptr_t layout;
} glebe_go_row;
uint32_t glebe_go_rows(glebe_go_row *rows, uint32_t room);
*/
import "C"

// Profile collects, and returns the live objects as a profile that `go tool pprof` reads: inuse_objects and
// inuse_space, by the size of the objects and the words of them that hold pointers. WebAssembly shows no program its
// stack, so there are no functions. The profile's own table is in it too.
func Profile() []byte {
	rows := make([]C.glebe_go_row, 64)
	for {
		collect()
		count := int(C.glebe_go_rows(&rows[0], C.uint32_t(len(rows))))
		if count <= len(rows) {
			finalizersNotice()
			return encode(rows[:count])
		}
		rows = make([]C.glebe_go_row, 2*len(rows))
	}
}

// encode writes profile.proto of github.com/google/pprof. Strings 1 to 4 name the two values and their units; the
// function, the location and the sample of row i have the number i + 1, and its name is string i + 5.
func encode(rows []C.glebe_go_row) []byte {
	var out, part []byte
	text := func(s string) { out = append(number(append(out, 6<<3|2), uint64(len(s))), s...) }
	message := func(field byte) {
		out = append(number(append(out, field<<3|2), uint64(len(part))), part...)
		part = part[:0]
	}
	for _, name := range []string{"", "inuse_objects", "count", "inuse_space", "bytes"} {
		text(name)
	}
	part = append(part, 1<<3, 1, 2<<3, 2)
	message(1) // sample_type
	part = append(part, 1<<3, 3, 2<<3, 4)
	message(1)
	for i := range rows {
		id, row := uint64(i)+1, &rows[i]
		objects := uint64(row.objects)
		part = number(append(part, 1<<3), id)
		part = number(append(part, 2<<3), objects)
		part = number(append(part, 2<<3), objects*uint64(row.bytes))
		message(2) // sample: location_id, value, value
		line := number([]byte{1 << 3}, id)
		part = number(append(part, 1<<3), id)
		part = append(append(part, 4<<3|2, byte(len(line))), line...)
		message(4) // location: id, line
		part = number(append(part, 1<<3), id)
		part = number(append(part, 2<<3), id+4)
		message(5) // function: id, name
		text(rowName(uint64(row.bytes), uint64(row.words), uint64(row.mask)))
	}
	return out
}

// number appends a varint.
func number(to []byte, value uint64) []byte {
	for ; value >= 0x80; value >>= 7 {
		to = append(to, byte(value)|0x80)
	}
	return append(to, byte(value))
}

// rowName is "48 bytes, pointers in words 0 2 of 3", or likewise.
func rowName(size, words, mask uint64) string {
	name := append(decimal(nil, size), " bytes, "...)
	switch {
	case words == 0:
		return string(append(name, "any word may be a pointer"...))
	case mask == 0:
		return string(append(name, "no pointers"...))
	}
	name = append(name, "pointers in words"...)
	for i := uint64(0); i < 64; i++ {
		if mask>>i&1 != 0 {
			name = decimal(append(name, ' '), i)
		}
	}
	return string(decimal(append(name, " of "...), words))
}

func decimal(to []byte, value uint64) []byte {
	if value >= 10 {
		to = decimal(to, value/10)
	}
	return append(to, byte('0'+value%10))
}
