package main

import (
	"encoding/json"
	"fmt"
	"math"

	"github.com/anishathalye/porcupine"
)

// A value, which no two writes share; 0: none.
type value = uint64

// A read or write of a key, and how it ended.
type keyOperation struct {
	write     bool
	writes    value
	condition condition
	expected  value
	end       end
	found     value
}

type condition int

const (
	always condition = iota
	absent
	equal
)

type end int

const (
	// A read, or a condition that did not hold, and what was there.
	found end = iota
	// A condition that did not hold.
	unmet
	done
	// Nobody knows: it may have been, at any time since.
	unknown
)

func keyStep(before value, o keyOperation) (bool, value) {
	if !o.write {
		return before == o.found, before
	}
	holds := o.condition == always || (o.condition == absent && before == 0) ||
		(o.condition == equal && before == o.expected)
	switch o.end {
	case done:
		return holds, o.writes
	case unmet:
		return !holds, before
	case found:
		return !holds && before == o.found, before
	}
	if holds {
		return true, o.writes
	}
	return true, before
}

var keyModel = porcupine.Model{
	Init: func() any { return value(0) },
	Step: func(state, in, _ any) (bool, any) { return keyStep(state.(value), in.(keyOperation)) },
}

// One line of an export.
func readKeyOperation(line []byte, operations map[uint64][]porcupine.Operation) error {
	var told struct {
		Who      int             `json:"who"`
		Key      uint64          `json:"key"`
		Does     json.RawMessage `json:"does"`
		Asked    int64           `json:"asked"`
		Answered *int64          `json:"answered"`
		Outcome  json.RawMessage `json:"outcome"`
	}
	if err := json.Unmarshal(line, &told); err != nil {
		return err
	}
	var o keyOperation
	if err := readDoes(told.Does, &o); err != nil {
		return err
	}
	if err := readOutcome(told.Outcome, &o); err != nil {
		return err
	}
	answered := int64(math.MaxInt64)
	if told.Answered != nil {
		answered = *told.Answered
	}
	operations[told.Key] = append(operations[told.Key],
		porcupine.Operation{ClientId: told.Who, Input: o, Call: told.Asked, Return: answered})
	return nil
}

// `"read"`, or `{"write":{"value":7,"only":"always"}}`, where the value may be null and the condition `"if_absent"` or
// `{"if_value":6}`.
func readDoes(from json.RawMessage, o *keyOperation) error {
	if string(from) == `"read"` {
		return nil
	}
	var does struct {
		Write struct {
			Value *value          `json:"value"`
			Only  json.RawMessage `json:"only"`
		} `json:"write"`
	}
	if err := json.Unmarshal(from, &does); err != nil {
		return err
	}
	o.write = true
	if does.Write.Value != nil {
		o.writes = *does.Write.Value
	}
	switch string(does.Write.Only) {
	case `"always"`:
		o.condition = always
	case `"if_absent"`:
		o.condition = absent
	default:
		var only struct {
			Value *value `json:"if_value"`
		}
		if err := json.Unmarshal(does.Write.Only, &only); err != nil || only.Value == nil {
			return fmt.Errorf("no condition: %s", does.Write.Only)
		}
		o.condition, o.expected = equal, *only.Value
	}
	return nil
}

// `"done"`, `"unmet"`, `"unknown"`, or `{"found":{"value":7}}`, where the value may be null.
func readOutcome(from json.RawMessage, o *keyOperation) error {
	switch string(from) {
	case `"done"`:
		o.end = done
	case `"unmet"`:
		o.end = unmet
	case `"unknown"`:
		o.end = unknown
	default:
		var outcome struct {
			Found *struct {
				Value *value `json:"value"`
			} `json:"found"`
		}
		if err := json.Unmarshal(from, &outcome); err != nil || outcome.Found == nil {
			return fmt.Errorf("no outcome: %s", from)
		}
		o.end = found
		if outcome.Found.Value != nil {
			o.found = *outcome.Found.Value
		}
	}
	return nil
}
