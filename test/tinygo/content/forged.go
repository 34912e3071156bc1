//go:build tinygo

package main

import (
	"reflect"
	"runtime"
	"strconv"
)

// TinyGo's mark at the base of a goroutine's stack.
const canary = 0xb83bf575

type record struct {
	id    uint32
	cells [600]uint32
}

var sink []byte

// scribble overwrites freed memory.
func scribble() {
	for range 400 {
		sink = make([]byte, 4096)
		for k := range sink {
			sink[k] = 0x58
		}
	}
}

// Large objects of every kind that TinyGo allocates without a layout, whose first word is a goroutine's mark: the
// objects that they refer to last.
func canaries() {
	channel := make(chan uint32, 600)
	for i := range uint32(600) {
		channel <- canary + i
	}
	made := reflect.New(reflect.TypeOf(record{}))
	made.Interface().(*record).id = canary
	made.Interface().(*record).cells[599] = 599
	byName, byNumber := map[string]record{}, map[uint32][600]uint32{}
	for i := range uint32(20) {
		byName["record "+strconv.Itoa(int(i))] = record{canary, [600]uint32{599: i}}
		byNumber[canary] = [600]uint32{canary, 599: 1}
		byNumber[i] = [600]uint32{canary, 599: i}
	}
	list := reflect.MakeSlice(reflect.TypeOf([]record{}), 10, 10)
	records := list.Interface().([]record)
	for i := range records {
		records[i].id = canary
	}
	for range 3 {
		runtime.GC()
		scribble()
	}
	for i := range uint32(600) {
		require(<-channel == canary+i, "a channel's buffer")
	}
	object := made.Interface().(*record)
	require(object.id == canary && object.cells[599] == 599, "an object by reflection")
	for i := range uint32(20) {
		value := byName["record "+strconv.Itoa(int(i))]
		require(value.id == canary && value.cells[599] == i, "a map's value")
		require(byNumber[i][0] == canary && byNumber[i][599] == i, "a map's array")
	}
	require(byNumber[canary][0] == canary && byNumber[canary][599] == 1, "a map's value whose key is the mark")
	for i := range records {
		require(records[i].id == canary, "a slice by reflection")
	}
}
