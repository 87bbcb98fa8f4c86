package main

import (
	"encoding/json"
	"fmt"
	"math"
	"sort"

	"github.com/anishathalye/porcupine"
)

// A hold as it was exported. Times are in microseconds.
type hold struct {
	Name      uint64 `json:"name"`
	Hold      int    `json:"hold"`
	Exclusive bool   `json:"exclusive"`
	Token     uint64 `json:"token"`
	Asked     int64  `json:"asked"`
	Held      int64  `json:"held"`
	GivenBack int64  `json:"given_back"`
	IsOver    bool   `json:"is_over"`
}

// Taking it, or giving it back.
type input struct {
	hold
	takes bool
}

// A lock: who has it, and the highest tokens so far. Readers are a sorted list, so that equal states are equal.
type lock struct {
	writer    int
	readers   string
	exclusive uint64
	any       uint64
}

const nobody = -1

func step(before lock, in input) (bool, lock) {
	if !in.takes {
		if before.writer == in.Hold {
			before.writer = nobody
			return true, before
		}
		return remove(before, in.Hold)
	}
	if before.writer != nobody || (in.Exclusive && before.readers != "") {
		return false, before
	}
	if in.Exclusive {
		if in.Token <= before.any {
			return false, before
		}
		before.writer, before.exclusive, before.any = in.Hold, in.Token, in.Token
		return true, before
	}
	if in.Token < before.exclusive {
		return false, before
	}
	if in.Token > before.any {
		before.any = in.Token
	}
	return true, add(before, in.Hold)
}

func readersOf(l lock) []int {
	var readers []int
	// Written by this program alone.
	_ = json.Unmarshal([]byte("["+l.readers+"]"), &readers)
	return readers
}

func withReaders(l lock, readers []int) lock {
	sort.Ints(readers)
	l.readers = ""
	for i, reader := range readers {
		if i > 0 {
			l.readers += ","
		}
		l.readers += fmt.Sprint(reader)
	}
	return l
}

func add(l lock, reader int) lock { return withReaders(l, append(readersOf(l), reader)) }

func remove(l lock, reader int) (bool, lock) {
	readers := readersOf(l)
	for i, other := range readers {
		if other == reader {
			return true, withReaders(l, append(readers[:i], readers[i+1:]...))
		}
	}
	return false, l
}

var lockModel = porcupine.Model{
	Init: func() any { return lock{writer: nobody} },
	Step: func(state, in, _ any) (bool, any) { return step(state.(lock), in.(input)) },
}

// One line of an export.
func readHold(line []byte, operations map[uint64][]porcupine.Operation) error {
	var h hold
	if err := json.Unmarshal(line, &h); err != nil {
		return err
	}
	// What a downgrade left is no taking of its own; asked in the moment that the exclusive hold ended.
	back := int64(math.MaxInt64)
	if h.IsOver {
		back = h.GivenBack + 1
	}
	operations[h.Name] = append(operations[h.Name],
		porcupine.Operation{ClientId: h.Hold, Input: input{h, true}, Call: h.Asked, Return: h.Held},
		porcupine.Operation{ClientId: h.Hold, Input: input{h, false}, Call: h.GivenBack, Return: back})
	return nil
}
